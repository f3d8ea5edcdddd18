"""Who embeds? The provider that was chosen, opened without touching any service.

A service is first asked when a vector is first needed: tasks, entities and work items need none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codebase_mcp.embedding.known_models import habits_of
from codebase_mcp.errors import EmbeddingUnavailable

if TYPE_CHECKING:
    from codebase_mcp.embedding.embedder import Embedder

Provider = Literal["static", "onnx", "ollama", "openai"]

# Those whose model is a folder of this machine.
FOLDERS: tuple[Provider, ...] = ("static", "onnx")

BUILTIN_NAME = "builtin"

# Where the Hugging Face hub keeps downloads unless told otherwise.
HUB_CACHE = Path("~/.cache/huggingface/hub")

MODEL_FILES = ("model.safetensors", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model and how to reach it.

    ``model`` is for ``static`` a folder or the name of a model in the Hugging Face cache (None: the
    built-in one), for ``onnx`` a folder, else the provider's name for it. Prefixes are put before
    what is embedded as they are; None means what is known of the model.
    """

    provider: Provider = "static"
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)  # may hold a user and password
    api_key: str | None = field(default=None, repr=False)
    batch_size: int = 50
    timeout_s: float = 60.0
    query_prefix: str | None = None
    passage_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """Where a Model2Vec model lies, and the name to show for it."""

    folder: Path
    name: str


def open_embedder(choice: ModelChoice, *, hub_cache: Path = HUB_CACHE) -> Embedder:
    """The embedder of a choice; a static one is read, a service is not asked yet.

    Raises:
        EmbeddingUnavailable: a folder is missing or no model, a key is missing, an address is none.
    """
    if choice.provider == "static":
        from codebase_mcp.embedding.static import StaticEmbedder  # noqa: PLC0415 - as below

        found = model_folder(choice.model, hub_cache=hub_cache)
        return StaticEmbedder.load(found.folder, found.name)
    if choice.provider == "onnx":
        from codebase_mcp.embedding.onnx import OnnxEmbedder  # noqa: PLC0415 - as below

        return OnnxEmbedder.open(choice)
    return _remote(choice)


def provider_of_folder(model: str | None) -> Provider:
    """Who opens what a person calls a model, where nobody says by which provider."""
    place = Path(model).expanduser() if model else None
    if place is None:
        return "static"
    is_network = place.suffix == ".onnx" and place.is_file()
    return "onnx" if is_network or onnx_files(place) else "static"


def onnx_files(folder: Path) -> list[Path]:
    """The networks in a folder, first the one to run: of eight bits, if every processor can."""
    found = [*folder.glob("model*.onnx"), *folder.glob("onnx/model*.onnx")]
    order = ("model_quantized", "model_int8", "model")
    return sorted(found, key=lambda f: (order.index(f.stem) if f.stem in order else 9, f.name))


def model_folder(model: str | None, *, hub_cache: Path = HUB_CACHE) -> ModelFolder:
    """The folder of a static model: the built-in one, a path, or a name in the hub's cache.

    Nothing is downloaded.

    Raises:
        EmbeddingUnavailable: there is none, or a name means several.
    """
    if model is None:
        from codebase_mcp.embedding.static import BUILTIN  # noqa: PLC0415 - heavy

        return ModelFolder(BUILTIN, BUILTIN_NAME)
    folder = Path(model).expanduser()
    if folder.is_dir():
        if _is_transformer(folder):
            raise EmbeddingUnavailable(
                f"{folder} holds a transformer, but no network in ONNX",
                hint="Export it into the folder: optimum-cli export onnx, or in Python"
                " SentenceTransformer(folder, backend='onnx').save_pretrained(folder).",
                details={"model": model},
            )
        return ModelFolder(folder.absolute(), folder.name)
    if model.startswith(("/", ".", "~")) or folder.is_absolute() or model.count("/") > 1:
        raise _no_model(f"There is no folder {folder}", model)
    return _in_cache(model, hub_cache.expanduser())


def _is_transformer(folder: Path) -> bool:
    """Whether a folder holds a network of layers, not a table of vectors."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "num_attention_heads" in content


def _in_cache(model: str, cache: Path) -> ModelFolder:
    """A model by its name on the hub, with or without who published it."""
    wanted = model.lower().replace("/", "--")
    found = [
        entry
        for entry in (sorted(cache.glob("models--*")) if cache.is_dir() else [])
        if entry.name.lower().removeprefix("models--") == wanted
        or ("/" not in model and entry.name.lower().endswith(f"--{wanted}"))
    ]
    names = [entry.name.removeprefix("models--").replace("--", "/", 1) for entry in found]
    if len(found) > 1:
        raise _no_model(f"{model} means several models: {', '.join(names)}", model)
    snapshots = [s for entry in found for s in _snapshots(entry)]
    for snapshot in snapshots:
        if all((snapshot / file).is_file() for file in MODEL_FILES):
            return ModelFolder(snapshot, names[0])
    if found:
        missing = f"{names[0]} in the Hugging Face cache is no whole Model2Vec model"
        raise _no_model(missing, model)
    raise _no_model(f"There is neither a folder {model} nor such a model in {cache}", model)


def _snapshots(entry: Path) -> list[Path]:
    """The downloaded versions of a model, the one that ``main`` names first, then the newest."""
    snapshots = [s for s in (entry / "snapshots").glob("*") if s.is_dir()]
    main = entry / "refs" / "main"
    commit = main.read_text(encoding="utf-8").strip() if main.is_file() else ""
    return sorted(snapshots, key=lambda s: (s.name == commit, s.stat().st_mtime), reverse=True)


def _no_model(message: str, model: str) -> EmbeddingUnavailable:
    return EmbeddingUnavailable(
        message,
        hint="CODEBASE_MCP_EMBEDDING_MODEL takes a folder with model.safetensors and tokenizer.json"
        " (Model2Vec), or the name of such a model that was downloaded before, such as"
        " minishlab/potion-base-8M. Unset it for the built-in model.",
        details={"model": model},
    )


def _remote(choice: ModelChoice) -> Embedder:
    # The static model needs no HTTP client, a service no tables; both take a while to import.
    from codebase_mcp.embedding import ollama, openai  # noqa: PLC0415
    from codebase_mcp.embedding.endpoint import Endpoint  # noqa: PLC0415
    from codebase_mcp.embedding.remote import Dialect, RemoteEmbedder, RemoteModel  # noqa: PLC0415

    dialect: Dialect
    if choice.provider == "ollama":
        dialect, url = ollama.Ollama(), choice.base_url or ollama.DEFAULT_URL
        name = choice.model or ollama.DEFAULT_MODEL
        api_key = None  # Ollama knows none, and one for another service is nothing to it
    else:
        dialect, url = openai.OpenAI(), choice.base_url or openai.DEFAULT_URL
        name, api_key = choice.model or openai.DEFAULT_MODEL, choice.api_key
        if api_key is None and choice.base_url is None:
            raise EmbeddingUnavailable(
                f"{openai.DEFAULT_URL} asks for a key, and none is set",
                hint="Set CODEBASE_MCP_OPENAI_API_KEY (or OPENAI_API_KEY), or with"
                " CODEBASE_MCP_OPENAI_BASE_URL an endpoint that asks for none.",
            )
    habits = habits_of(name)
    model = RemoteModel(
        choice.provider,
        name,
        habits.query_prefix if choice.query_prefix is None else choice.query_prefix,
        habits.passage_prefix if choice.passage_prefix is None else choice.passage_prefix,
        habits.max_chars,
    )
    endpoint = Endpoint(url, api_key=api_key, timeout_s=choice.timeout_s)
    return RemoteEmbedder(model, dialect, endpoint, batch_size=choice.batch_size)
