"""Unpacks grammars from the archive in their package, once.

The folder is the product's, unless the user names another. ``semble_grammars`` only takes it from
an environment variable (checked with 0.1.2).
"""

from __future__ import annotations

import hashlib
import json
import logging
import tarfile
import tempfile
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import resources
from pathlib import Path

from codebase_mcp.processes import default_variable

_log = logging.getLogger(__name__)

# Grammars that files of a language may also need: a C++ header, scripts and styles in a page.
_ALSO_NEEDED = {
    "c": ("cpp",),
    "html": ("javascript", "css"),
    "svelte": ("typescript", "scss"),
    "vue": ("typescript", "scss"),
}

_chosen: Path | None = None


def choose(folder: Path | None) -> None:
    """Unpack in this folder, or in the package's own, unless the user's variable names a folder."""
    global _chosen  # noqa: PLW0603 - like the package's variable, for the whole process
    _chosen = folder


def chosen() -> Path | None:
    """The folder that was chosen, for another process."""
    return _chosen


def in_environment() -> AbstractContextManager[None]:
    """Let the package see the folder within the block."""
    if _chosen is None:
        return nullcontext()
    return default_variable("SEMBLE_GRAMMARS_CACHE_DIR", str(_chosen))


def unpack(languages: Collection[str]) -> None:
    """Make the grammars of these languages ready to load, in one pass through their archive.

    The package itself reads the archive twice for each grammar: for forty languages and two
    processes that takes longer than parsing 10,000 files. If unpacking fails, the package tries
    again and reports the cause, also if the undocumented layout of its archive has changed (checked
    with 0.1.2).
    """
    try:
        with resources.as_file(resources.files("semble_grammars") / "grammars") as folder:
            manifests = list(folder.glob("*/manifest.json"))
            if len(manifests) == 1:  # of this platform
                also = {part for name in languages for part in _ALSO_NEEDED.get(name, ())}
                _unpack(manifests[0], also.union(languages))
    except (KeyError, ValueError, OSError, tarfile.TarError) as error:
        _log.warning("grammars are unpacked one by one, which is slow: %s", error)


def _unpack(manifest_file: Path, languages: Collection[str]) -> None:
    from semble_grammars.cache import cache_dir  # noqa: PLC0415 - not for commands

    manifest = json.loads(manifest_file.read_text(encoding="utf-8"))
    with in_environment():
        target = cache_dir() / manifest["platform"]
    entries = [entry for name, entry in manifest["languages"].items() if name in languages]
    digests = {e["file"]: e["sha256"] for e in entries if not (target / e["file"]).exists()}
    if not digests:
        return
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(manifest_file.with_name(manifest["archive"]), "r|gz") as archive:
        for member in archive:
            digest = digests.pop(member.name, None)
            content = archive.extractfile(member) if digest else None
            if content is not None:
                _write(target / member.name, content.read(), digest)
            if not digests:
                return


def _write(path: Path, content: bytes, digest: str | None) -> None:
    """Write a library atomically, as a process may be loading it."""
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"the checksum of {path.name} is wrong")
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
        try:
            new.write(content)
            new.close()
            Path(new.name).chmod(0o755)
            Path(new.name).replace(path)
        except OSError:
            with suppress(OSError):
                Path(new.name).unlink()
            raise
