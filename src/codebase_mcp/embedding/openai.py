"""How is an OpenAI-compatible endpoint asked for vectors? `POST /embeddings`, as many serve it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from codebase_mcp.embedding.endpoint import Endpoint
from codebase_mcp.embedding.failures import Kind, Patience


class OpenAIApi:
    """OpenAI's protocol. ``dimensions`` is not sent: few compatible services know it."""

    words: ClassVar[Mapping[Kind, tuple[str, str]]] = {
        "away": (
            "The embedding endpoint {address} does not answer ({failure})",
            "Check CODEBASE_MCP_OPENAI_BASE_URL (or OPENAI_BASE_URL) and the network.",
        ),
        "slow": (
            "The embedding endpoint {address} gives {failure}",
            "A slow one needs a larger CODEBASE_MCP_EMBEDDING_TIMEOUT or a smaller"
            " EMBEDDING_BATCH_SIZE.",
        ),
        "limited": (
            "The rate limit of the embedding endpoint {address} is reached",
            "Try again later: indexing goes on where it stopped.",
        ),
        "quota": (
            "The quota at the embedding endpoint {address} is used up",
            "Waiting does not help: see the plan and the billing of its account.",
        ),
        # Without the endpoint's own words: they may repeat the key.
        "denied": (
            "The embedding endpoint {address} does not accept the key, or asks for one",
            "Set CODEBASE_MCP_OPENAI_API_KEY (or OPENAI_API_KEY) to a key that is valid there.",
        ),
        "no_model": (
            "The embedding endpoint {address} has no model {model} for this key",
            "Set CODEBASE_MCP_EMBEDDING_MODEL to a model that it serves.",
        ),
        "no_embedding": (
            "The model {model} of the endpoint {address} does not embed",
            "Set CODEBASE_MCP_EMBEDDING_MODEL to one that does.",
        ),
        "stranger": (
            "What answers at {address} does not embed as OpenAI documents it: {failure}",
            "The address goes up to and includes /v1, as in http://127.0.0.1:8000/v1.",
        ),
        "broken": (
            "The embedding endpoint {address} fails: {failure}",
            "Its log or its status page says why; then try again.",
        ),
    }

    def request(self, model: str, texts: Sequence[str]) -> tuple[str, object]:
        return "/embeddings", {"model": model, "input": list(texts), "encoding_format": "float"}

    def rows(self, answer: Any) -> list[Any]:
        entries = list(answer["data"])
        indexes = {entry.get("index") for entry in entries}
        # Services that number nothing, or number every vector 0, answer in the order of the texts.
        if indexes not in ({None}, {0}):
            if indexes != set(range(len(entries))):
                raise ValueError("an index is missing or given twice")
            entries.sort(key=lambda entry: int(entry["index"]))
        return [entry["embedding"] for entry in entries]

    async def digest(self, endpoint: Endpoint, model: str, patience: Patience) -> str | None:
        """None: the protocol has no word for which weights answer to a name."""
        return None
