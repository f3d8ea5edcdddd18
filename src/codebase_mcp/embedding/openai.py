"""How is an OpenAI-compatible endpoint asked for vectors? `POST /embeddings`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from codebase_mcp.embedding.endpoint import Endpoint
from codebase_mcp.embedding.failures import FailureKind, RetryPolicy


class OpenAIApi:
    """OpenAI's API. ``dimensions`` is not sent, as few compatible services support it."""

    messages: ClassVar[Mapping[FailureKind, tuple[str, str]]] = {
        "unreachable": (
            "The embedding endpoint {address} does not answer ({failure})",
            "Check CODEBASE_MCP_OPENAI_BASE_URL (or OPENAI_BASE_URL) and the network.",
        ),
        "timeout": (
            "The embedding endpoint {address} is too slow: {failure}",
            "A slow one needs a larger CODEBASE_MCP_EMBEDDING_TIMEOUT or a smaller"
            " EMBEDDING_BATCH_SIZE.",
        ),
        "rate_limited": (
            "The rate limit of the embedding endpoint {address} is reached",
            "Try again later: indexing continues where it stopped.",
        ),
        "quota_exceeded": (
            "The quota at the embedding endpoint {address} is used up",
            "Check the plan and the billing of the account; a retry does not help.",
        ),
        # Without the endpoint's own message, which may repeat the key.
        "unauthorized": (
            "The embedding endpoint {address} does not accept the key, or needs one",
            "Set CODEBASE_MCP_OPENAI_API_KEY (or OPENAI_API_KEY) to a key that is valid there.",
        ),
        "model_not_found": (
            "The embedding endpoint {address} has no model {model} for this key",
            "Set CODEBASE_MCP_EMBEDDING_MODEL to a model that it serves.",
        ),
        "not_an_embedding_model": (
            "The model {model} of the endpoint {address} is not an embedding model",
            "Set CODEBASE_MCP_EMBEDDING_MODEL to an embedding model.",
        ),
        "unexpected_service": (
            "The service at {address} does not follow OpenAI's embeddings API: {failure}",
            "The address goes up to and includes /v1, as in http://127.0.0.1:8000/v1.",
        ),
        "service_error": (
            "The embedding endpoint {address} fails: {failure}",
            "Its log or its status page says why; then try again.",
        ),
    }

    def embed_request(self, model: str, texts: Sequence[str]) -> tuple[str, object]:
        return "/embeddings", {"model": model, "input": list(texts), "encoding_format": "float"}

    def parse_vectors(self, answer: Any) -> list[Any]:
        entries = list(answer["data"])
        indexes = {entry.get("index") for entry in entries}
        # Services without indexes, or with index 0 throughout, respond in the order of the texts.
        if indexes not in ({None}, {0}):
            if indexes != set(range(len(entries))):
                raise ValueError("an index is missing or duplicate")
            entries.sort(key=lambda entry: int(entry["index"]))
        return [entry["embedding"] for entry in entries]

    async def model_digest(self, endpoint: Endpoint, model: str, policy: RetryPolicy) -> str | None:
        """None: the API does not identify the weights behind a name."""
        return None
