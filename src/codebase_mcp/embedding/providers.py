"""Who can embed? One entry per provider; opening one sends no request.

A service gets its first request when a vector is first needed: tasks, entities and work items need
none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebase_mcp.embedding.choice import ModelChoice, Provider
from codebase_mcp.embedding.folders import holds_onnx, model_folder
from codebase_mcp.embedding.known_models import input_format_of
from codebase_mcp.errors import EmbeddingUnavailable

if TYPE_CHECKING:
    from codebase_mcp.embedding.embedder import Embedder
    from codebase_mcp.embedding.remote import EmbeddingApi


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """How the models of a provider are opened, and for a service what is used unless configured.

    ``url_setting`` and ``key_setting`` name the fields of ``Settings`` with the address and the key
    of a entry. A service without a ``key_setting`` is never sent a key.
    """

    open: Callable[[ModelChoice], Embedder]
    default_url: str = ""
    default_model: str = ""
    url_setting: str | None = None
    key_setting: str | None = None
    missing_key_hint: str | None = None
    """What to do when the default address, which needs a key, has none."""

    @property
    def is_service(self) -> bool:
        """Whether models are reached by HTTP; otherwise a model is a folder of this machine."""
        return self.url_setting is not None


def open_embedder(choice: ModelChoice) -> Embedder:
    """The embedder of a choice; a static model is read, a service gets no request yet.

    Raises:
        EmbeddingUnavailable: there is no such model, a key is missing, or an address is invalid.
    """
    return PROVIDERS[choice.provider].open(choice)


def provider_of_folder(model: str | None) -> Provider:
    """The provider that opens a model, where no provider is configured."""
    return "onnx" if holds_onnx(model) else "static"


# Each opener imports its modules: the static model needs no HTTP client, a service no tables, and
# both take a while to import.


def _open_static(choice: ModelChoice) -> Embedder:
    from codebase_mcp.embedding.static import StaticEmbedder  # noqa: PLC0415

    found = model_folder(choice.model, hub_cache=choice.hub_cache)
    return StaticEmbedder.load(found.folder, found.name)


def _open_onnx(choice: ModelChoice) -> Embedder:
    from codebase_mcp.embedding.onnx import OnnxEmbedder  # noqa: PLC0415

    return OnnxEmbedder.open(choice)


def _open_ollama(choice: ModelChoice) -> Embedder:
    from codebase_mcp.embedding.ollama import OllamaApi  # noqa: PLC0415

    return _open_service(choice, OllamaApi())


def _open_openai(choice: ModelChoice) -> Embedder:
    from codebase_mcp.embedding.openai import OpenAIApi  # noqa: PLC0415

    return _open_service(choice, OpenAIApi())


def _open_service(choice: ModelChoice, api: EmbeddingApi) -> Embedder:
    from codebase_mcp.embedding.endpoint import Endpoint  # noqa: PLC0415
    from codebase_mcp.embedding.remote import RemoteEmbedder, RemoteModel  # noqa: PLC0415

    entry = PROVIDERS[choice.provider]
    api_key = choice.api_key if entry.key_setting else None
    if entry.missing_key_hint and api_key is None and choice.base_url is None:
        raise EmbeddingUnavailable(
            f"{entry.default_url} needs a key, and none is set", hint=entry.missing_key_hint
        )
    name = choice.model or entry.default_model
    known = input_format_of(name)
    model = RemoteModel(
        choice.provider,
        name,
        known.query_prefix if choice.query_prefix is None else choice.query_prefix,
        known.passage_prefix if choice.passage_prefix is None else choice.passage_prefix,
        known.max_chars,
    )
    url = choice.base_url or entry.default_url
    endpoint = Endpoint(url, api_key=api_key, timeout_s=choice.timeout_s)
    return RemoteEmbedder(model, api, endpoint, batch_size=choice.batch_size)


PROVIDERS: Mapping[Provider, ProviderEntry] = {
    "static": ProviderEntry(_open_static),
    "onnx": ProviderEntry(_open_onnx),
    "ollama": ProviderEntry(
        _open_ollama,
        default_url="http://127.0.0.1:11434",
        default_model="nomic-embed-text",
        url_setting="ollama_url",
    ),
    "openai": ProviderEntry(
        _open_openai,
        default_url="https://api.openai.com/v1",
        default_model="text-embedding-3-small",
        url_setting="openai_url",
        key_setting="openai_api_key",
        missing_key_hint="Set CODEBASE_MCP_OPENAI_API_KEY (or OPENAI_API_KEY), or with"
        " CODEBASE_MCP_OPENAI_BASE_URL the address of an endpoint that needs none.",
    ),
}
