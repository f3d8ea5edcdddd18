"""How are embedding services asked for vectors? Each class is the HTTP API of a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from codebase_mcp.embedding.endpoint import Endpoint, Failure, FailureKind, RetryPolicy
from codebase_mcp.embedding.providers import Provider
from codebase_mcp.embedding.remote import EmbeddingApi


class OllamaApi:
    """Ollama's own API, since version 0.3: `/api/embed`; `/api/tags` identifies the model."""

    messages: ClassVar[Mapping[FailureKind, tuple[str, str]]] = {
        "unreachable": (
            "Ollama does not answer at {address} ({failure})",
            "Start it with `ollama serve`, or set OLLAMA_BASE_URL to where it runs.",
        ),
        "timeout": (
            "Ollama at {address} is too slow: {failure}",
            "`ollama ps` shows what it is busy with. A slow machine needs a larger"
            " CODEBASE_MCP_EMBEDDING_TIMEOUT or a smaller EMBEDDING_BATCH_SIZE.",
        ),
        "unauthorized": (
            "The service at {address} requires a user and password",
            "Put user and password into OLLAMA_BASE_URL: http://user:password@host:11434.",
        ),
        "model_not_found": (
            "Ollama at {address} has no model {model}",
            "Run `ollama pull {model}`, then try again.",
        ),
        "not_an_embedding_model": (
            "Ollama's model {model} is not an embedding model",
            "Set CODEBASE_MCP_EMBEDDING_MODEL to one, such as nomic-embed-text.",
        ),
        "unexpected_service": (
            "The service at {address} is not an Ollama that can embed: {failure}",
            "OLLAMA_BASE_URL has no path, as in http://127.0.0.1:11434. Ollama must be 0.3 or"
            " later.",
        ),
        "service_error": (
            "Ollama at {address} fails: {failure}",
            "Ollama's log says why; `ollama ps` shows what is loaded.",
        ),
    }

    def embed_request(self, model: str, texts: Sequence[str]) -> tuple[str, object]:
        return "/api/embed", {"model": model, "input": list(texts), "truncate": True}

    def parse_vectors(self, answer: Any) -> list[Any]:
        return list(answer["embeddings"])

    async def model_digest(self, endpoint: Endpoint, model: str, policy: RetryPolicy) -> str | None:
        """The digest of the model's manifest; it changes with each pull that changed the model."""
        try:
            answer = await endpoint.ask("GET", "/api/tags", policy=policy)
        except Failure as failure:
            if failure.status in (401, 403, 404, 405):
                return None  # a proxy lets only embedding requests through
            raise
        return _digest_of(model, answer)


class OpenAIApi:
    """OpenAI's `/embeddings`. ``dimensions`` is not sent, as few compatible services support it."""

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


def _digest_of(model: str, answer: Any) -> str | None:
    full_name = _full_name(model)
    models = answer.get("models") if isinstance(answer, dict) else None
    for entry in models if isinstance(models, list) else []:
        if isinstance(entry, dict) and _full_name(str(entry.get("name"))) == full_name:
            digest = entry.get("digest")
            return digest if isinstance(digest, str) else None
    return None


def _full_name(model: str) -> str:
    """A model's name with its tag, in lower case: Ollama ignores case."""
    tagged = model if ":" in model.rpartition("/")[2] else f"{model}:latest"
    return tagged.lower()


APIS: Mapping[Provider, Callable[[], EmbeddingApi]] = {"ollama": OllamaApi, "openai": OpenAIApi}
