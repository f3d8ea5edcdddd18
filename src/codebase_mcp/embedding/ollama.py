"""How is an Ollama asked for vectors? `/api/embed`, and `/api/tags` for what its model is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from codebase_mcp.embedding.endpoint import Endpoint
from codebase_mcp.embedding.failures import Failure, Kind, Patience


class OllamaApi:
    """Ollama's own protocol, of version 0.3 and later."""

    words: ClassVar[Mapping[Kind, tuple[str, str]]] = {
        "away": (
            "Ollama does not answer at {address} ({failure})",
            "Start it with `ollama serve`, or set OLLAMA_BASE_URL to where it runs.",
        ),
        "slow": (
            "Ollama at {address} gives {failure}",
            "`ollama ps` shows what it is busy with. A slow machine needs a larger"
            " CODEBASE_MCP_EMBEDDING_TIMEOUT or a smaller EMBEDDING_BATCH_SIZE.",
        ),
        "denied": (
            "What answers at {address} lets only those in who are known to it",
            "Put user and password into OLLAMA_BASE_URL: http://user:password@host:11434.",
        ),
        "no_model": (
            "Ollama at {address} has no model {model}",
            "Run `ollama pull {model}`, then try again.",
        ),
        "no_embedding": (
            "Ollama's model {model} does not embed",
            "Choose one that does with CODEBASE_MCP_EMBEDDING_MODEL, such as nomic-embed-text.",
        ),
        "stranger": (
            "What answers at {address} is no Ollama that embeds: {failure}",
            "OLLAMA_BASE_URL has no path, as in http://127.0.0.1:11434. Ollama must be 0.3 or"
            " later.",
        ),
        "broken": (
            "Ollama at {address} fails: {failure}",
            "Ollama's log says why; `ollama ps` shows what is loaded.",
        ),
    }

    def request(self, model: str, texts: Sequence[str]) -> tuple[str, object]:
        return "/api/embed", {"model": model, "input": list(texts), "truncate": True}

    def rows(self, answer: Any) -> list[Any]:
        return list(answer["embeddings"])

    async def digest(self, endpoint: Endpoint, model: str, patience: Patience) -> str | None:
        """The digest of the model's manifest: another after each pull that changed something."""
        try:
            answer = await endpoint.ask("GET", "/api/tags", patience=patience)
        except Failure as failure:
            if failure.status in (401, 403, 404, 405):
                return None  # something between us and Ollama lets only requests to embed pass
            raise
        return _digest_of(model, answer)


def _digest_of(model: str, answer: Any) -> str | None:
    wanted = _full_name(model)
    models = answer.get("models") if isinstance(answer, dict) else None
    for entry in models if isinstance(models, list) else []:
        if isinstance(entry, dict) and _full_name(str(entry.get("name"))) == wanted:
            digest = entry.get("digest")
            return digest if isinstance(digest, str) else None
    return None


def _full_name(model: str) -> str:
    """A model's name with its tag; Ollama does not tell upper from lower case."""
    tagged = model if ":" in model.rpartition("/")[2] else f"{model}:latest"
    return tagged.lower()
