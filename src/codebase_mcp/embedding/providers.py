"""The table of embedding providers, and where the files of a model are. Nothing is downloaded.

Opening a model sends no request. A service gets its first request when a vector is first needed:
tasks, entities and work items need none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codebase_mcp.errors import EmbeddingUnavailable

if TYPE_CHECKING:
    from codebase_mcp.embedding.embedder import Embedder
    from codebase_mcp.embedding.static import StaticEmbedder

Provider = Literal["static", "onnx", "ollama", "openai"]

# The default download folder of the Hugging Face hub.
HUB_CACHE = Path("~/.cache/huggingface/hub")

BUILTIN = Path(__file__).parent / "builtin"
BUILTIN_NAME = "builtin"

STATIC_MODEL_FILES = ("model.safetensors", "tokenizer.json")

# Eight-bit networks come first: every processor runs them, at twice the speed.
_PREFERRED_NETWORKS = ("model_quantized", "model_int8", "model")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to open a model.

    ``model`` is for ``static`` a folder or a name in the Hugging Face cache (None: the built-in
    model), for ``onnx`` a folder, for a service its name there (None: the provider's default). A
    prefix of None is that of the model's `InputFormat`.
    """

    provider: Provider = "static"
    model: str | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """How this process reaches services: addresses and keys by provider, and limits.

    Without an address, the provider's default counts.
    """

    urls: Mapping[Provider, str] = field(default_factory=dict, repr=False)  # may hold passwords
    api_keys: Mapping[Provider, str] = field(default_factory=dict, repr=False)
    batch_size: int = 50
    timeout_s: float = 60.0


NO_SERVICES = ServiceAccess()


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """How the models of a provider are opened, and the defaults of a service.

    ``url_setting`` and ``key_setting`` name the fields of ``Settings`` with the address and the key
    of a service. A service without a ``key_setting`` is never sent a key; it is chosen where only
    its address is set. ``missing_key_hint`` says what to do when the default address has no key.
    ``health_field`` is a field of ``/health`` that also has the state of the service.
    """

    open: Callable[[Recipe, ServiceAccess], Embedder]
    default_url: str = ""
    default_model: str = ""
    url_setting: str = ""
    key_setting: str = ""
    missing_key_hint: str = ""
    health_field: str = ""

    @property
    def is_service(self) -> bool:
        """Whether models are reached by HTTP; otherwise a model is a folder of this machine."""
        return bool(self.url_setting)


# Code has about three characters per token in the vocabularies of these models. A longer text would
# be truncated by the service, or refused, as Ollama 0.13.5 and later do.
_CHARS_PER_TOKEN = 3

_PASSAGES = "Represent this sentence for searching relevant passages: "
_CODE = "Represent this query for searching relevant code: "
_INSTRUCT = "Instruct: Given a question about a program, retrieve the code that answers it\nQuery: "


@dataclass(frozen=True, slots=True)
class InputFormat:
    """The prefixes of a model's input text, and how many tokens of it the model reads.

    Many models are trained with a prefix before a query, some also before a passage; without it
    they retrieve noticeably worse. The prefixes are those of each model's own card.
    """

    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 2048

    @property
    def max_chars(self) -> int:
        """The length to which a text is truncated before it is sent."""
        return min(self.max_tokens, 8192) * _CHARS_PER_TOKEN


# The first pattern that matches the name counts, so a more specific pattern comes first.
_INPUT_FORMATS = (
    (r"nomic-embed-code|coderankembed", InputFormat(_CODE, "", 8192)),
    (
        r"nomic-embed-text-v2|nomic-embed-text.*moe",
        InputFormat("search_query: ", "search_document: ", 512),
    ),
    (r"nomic-embed-text", InputFormat("search_query: ", "search_document: ", 2048)),
    (r"mxbai-embed", InputFormat(_PASSAGES, "", 512)),
    (r"arctic-embed2|arctic-embed-[ml]-v2", InputFormat("query: ", "", 8192)),
    (r"arctic-embed", InputFormat(_PASSAGES, "", 512)),
    (r"bge-m3", InputFormat(max_tokens=8192)),
    (r"bge-(small|base|large)(?!-zh)", InputFormat(_PASSAGES, "", 512)),
    (r"e5-mistral|e5-.*instruct", InputFormat(_INSTRUCT, "", 512)),
    (r"(^|[/_-])e5-", InputFormat("query: ", "passage: ", 512)),
    (r"qwen3-embedding", InputFormat(_INSTRUCT, "", 8192)),
    (
        r"embedding-?gemma",
        InputFormat("task: code retrieval | query: ", "title: none | text: ", 2048),
    ),
    (r"all-minilm", InputFormat(max_tokens=256)),
    (r"granite-embedding", InputFormat(max_tokens=512)),
    (r"text-embedding-(3|ada)", InputFormat(max_tokens=8192)),
    (r"jina-embeddings-v2", InputFormat(max_tokens=8192)),
)


def input_format_of(model: str) -> InputFormat:
    """The input format of a model; without prefixes for a model that is not listed."""
    formats = (form for pattern, form in _INPUT_FORMATS if re.search(pattern, model.lower()))
    return next(formats, InputFormat())


def open_embedder(recipe: Recipe, access: ServiceAccess = NO_SERVICES) -> Embedder:
    """The embedder of a recipe; a static model is read, a service gets no request yet.

    Raises:
        EmbeddingUnavailable: there is no such model, a key is missing, or an address is invalid.
    """
    return PROVIDERS[recipe.provider].open(recipe, access)


def provider_of_folder(model: str | None) -> Provider:
    """The provider that opens a model, where no provider is configured."""
    return "onnx" if holds_onnx(model) else "static"


@dataclass(frozen=True, slots=True)
class StaticSource:
    """The folder of a Model2Vec model, and the name to show for it; a call loads the model.

    A worker process receives this instead of the model.
    """

    folder: Path
    name: str

    def __call__(self) -> StaticEmbedder:
        # Each provider imports its modules when it opens a model: the static model needs no HTTP
        # client, a service no tables, and both take a while to import.
        from codebase_mcp.embedding.static import StaticEmbedder  # noqa: PLC0415

        return StaticEmbedder.load(self.folder, self.name)


def onnx_files(folder: Path) -> list[Path]:
    """The ONNX networks in a folder, in order of preference."""
    files = [*folder.glob("model*.onnx"), *folder.glob("onnx/model*.onnx")]
    order = _PREFERRED_NETWORKS
    return sorted(files, key=lambda f: (order.index(f.stem) if f.stem in order else 9, f.name))


def holds_onnx(model: str | None) -> bool:
    """Whether a configured model is an ONNX network, or a folder that holds a network."""
    if model is None:
        return False
    path = Path(model).expanduser()
    return (path.suffix == ".onnx" and path.is_file()) or bool(onnx_files(path))


def model_folder(model: str | None, *, hub_cache: Path = HUB_CACHE) -> StaticSource:
    """The folder of a static model: the built-in model, a path, or a name in the hub's cache.

    Raises:
        EmbeddingUnavailable: there is no such model, or the name is ambiguous.
    """
    if model is None:
        return StaticSource(BUILTIN, BUILTIN_NAME)
    folder = Path(model).expanduser()
    if folder.is_dir():
        if _is_transformer(folder):
            raise EmbeddingUnavailable(
                f"{folder} holds a transformer, but no network in ONNX",
                hint="Export it into the folder: optimum-cli export onnx, or in Python"
                " SentenceTransformer(folder, backend='onnx').save_pretrained(folder).",
                details={"model": model},
            )
        return StaticSource(folder.absolute(), folder.name)
    if model.startswith(("/", ".", "~")) or folder.is_absolute() or model.count("/") > 1:
        raise _not_found(f"There is no folder {folder}", model)
    return _in_cache(model, hub_cache.expanduser())


def _is_transformer(folder: Path) -> bool:
    """Whether a folder holds a network of layers, not a table of vectors."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "num_attention_heads" in content


def _in_cache(model: str, cache: Path) -> StaticSource:
    """A model by its name on the hub, with or without its publisher."""
    suffix = model.lower().replace("/", "--")
    entries = [
        entry
        for entry in (sorted(cache.glob("models--*")) if cache.is_dir() else [])
        if entry.name.lower().removeprefix("models--") == suffix
        or ("/" not in model and entry.name.lower().endswith(f"--{suffix}"))
    ]
    names = [entry.name.removeprefix("models--").replace("--", "/", 1) for entry in entries]
    if len(entries) > 1:
        raise _not_found(f"{model} is ambiguous: {', '.join(names)}", model)
    for snapshot in [s for entry in entries for s in _snapshots(entry)]:
        if all((snapshot / file).is_file() for file in STATIC_MODEL_FILES):
            return StaticSource(snapshot, names[0])
    if entries:
        incomplete = f"{names[0]} in the Hugging Face cache is not a complete Model2Vec model"
        raise _not_found(incomplete, model)
    raise _not_found(f"There is neither a folder {model} nor such a model in {cache}", model)


def _snapshots(entry: Path) -> list[Path]:
    """The downloaded versions of a model: first the target of ``main``, then the newest."""
    snapshots = [s for s in (entry / "snapshots").glob("*") if s.is_dir()]
    main = entry / "refs" / "main"
    commit = main.read_text(encoding="utf-8").strip() if main.is_file() else ""
    return sorted(snapshots, key=lambda s: (s.name == commit, s.stat().st_mtime), reverse=True)


def _not_found(message: str, model: str) -> EmbeddingUnavailable:
    return EmbeddingUnavailable(
        message,
        hint="CODEBASE_MCP_EMBEDDING_MODEL takes a folder with model.safetensors and tokenizer.json"
        " (Model2Vec), or the name of such a model in the Hugging Face cache, such as"
        " minishlab/potion-base-8M. Unset it for the built-in model.",
        details={"model": model},
    )


def _open_static(recipe: Recipe, _: ServiceAccess) -> Embedder:
    return model_folder(recipe.model)()


def _open_onnx(recipe: Recipe, _: ServiceAccess) -> Embedder:
    from codebase_mcp.embedding.onnx import OnnxEmbedder  # noqa: PLC0415

    return OnnxEmbedder.open(recipe)


def _open_service(recipe: Recipe, access: ServiceAccess) -> Embedder:
    from codebase_mcp.embedding.endpoint import Endpoint  # noqa: PLC0415
    from codebase_mcp.embedding.remote import RemoteEmbedder, RemoteModel  # noqa: PLC0415
    from codebase_mcp.embedding.services import APIS  # noqa: PLC0415

    entry = PROVIDERS[recipe.provider]
    url = access.urls.get(recipe.provider)
    api_key = access.api_keys.get(recipe.provider) if entry.key_setting else None
    if entry.missing_key_hint and api_key is None and url is None:
        raise EmbeddingUnavailable(
            f"{entry.default_url} needs a key, and none is set", hint=entry.missing_key_hint
        )
    name = recipe.model or entry.default_model
    form = input_format_of(name)
    model = RemoteModel(
        recipe.provider,
        name,
        form.query_prefix if recipe.query_prefix is None else recipe.query_prefix,
        form.passage_prefix if recipe.passage_prefix is None else recipe.passage_prefix,
        form.max_chars,
    )
    endpoint = Endpoint(url or entry.default_url, api_key=api_key, timeout_s=access.timeout_s)
    api = APIS[recipe.provider]()
    return RemoteEmbedder(model, api, endpoint, batch_size=access.batch_size)


PROVIDERS: Mapping[Provider, ProviderEntry] = {
    "static": ProviderEntry(_open_static),
    "onnx": ProviderEntry(_open_onnx),
    "ollama": ProviderEntry(
        _open_service,
        default_url="http://127.0.0.1:11434",
        default_model="nomic-embed-text",
        url_setting="ollama_url",
        health_field="ollama",  # programs written against codebase-mcp v1 read it
    ),
    "openai": ProviderEntry(
        _open_service,
        default_url="https://api.openai.com/v1",
        default_model="text-embedding-3-small",
        url_setting="openai_url",
        key_setting="openai_api_key",
        missing_key_hint="Set CODEBASE_MCP_OPENAI_API_KEY (or OPENAI_API_KEY), or with"
        " CODEBASE_MCP_OPENAI_BASE_URL the address of an endpoint that needs none.",
    ),
}
