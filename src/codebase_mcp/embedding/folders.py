"""Where on this machine are the files of an embedding model? Nothing is downloaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.errors import EmbeddingUnavailable

# The default download folder of the Hugging Face hub.
HUB_CACHE = Path("~/.cache/huggingface/hub")

BUILTIN = Path(__file__).parent / "builtin"
BUILTIN_NAME = "builtin"

STATIC_MODEL_FILES = ("model.safetensors", "tokenizer.json")

# Eight-bit networks come first: every processor runs them, at twice the speed.
_PREFERRED_NETWORKS = ("model_quantized", "model_int8", "model")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The folder of a Model2Vec model, and the name to show for it."""

    folder: Path
    name: str


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


def model_folder(model: str | None, *, hub_cache: Path = HUB_CACHE) -> ModelFolder:
    """The folder of a static model: the built-in model, a path, or a name in the hub's cache.

    Raises:
        EmbeddingUnavailable: there is no such model, or the name is ambiguous.
    """
    if model is None:
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
        raise _not_found(f"There is no folder {folder}", model)
    return _in_cache(model, hub_cache.expanduser())


def _is_transformer(folder: Path) -> bool:
    """Whether a folder holds a network of layers, not a table of vectors."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "num_attention_heads" in content


def _in_cache(model: str, cache: Path) -> ModelFolder:
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
            return ModelFolder(snapshot, names[0])
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
