"""The directories that callers may read, by the settings. See `source/reach.py`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from codebase_mcp.access.identity import Identity
from codebase_mcp.chunking import grammar_folder
from codebase_mcp.database.placement import SYSTEM_FOLDER
from codebase_mcp.secrets import rules_folder
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.reach import KERNEL_FOLDERS, Reach, confine_git
from codebase_mcp.source.root import resolve_root


def resolve_for(identity: Identity, settings: Settings, repo_path: str | Path) -> Path:
    """The real directory that a caller names: every path that a caller gives passes here.

    Raises:
        InvalidInput: it is not a directory that can be indexed.
        PermissionDenied: the caller, or this program, may not read it.
    """
    return resolve_root(str(repo_path), reach_of(identity, settings))


def reach_of(identity: Identity, settings: Settings) -> Reach:
    """The directories that a caller may read."""
    if identity.access.reads_as_server:
        return full_reach(settings)
    roots = allowed_roots(settings)
    if identity.access.roots is not None:
        roots = _common(roots, _real(identity.access.roots))
    return Reach(roots, closed_folders(settings))


def full_reach(settings: Settings) -> Reach:
    """The directories that the user of the server may read, our clones included."""
    return Reach(None, closed_folders(settings), clones_in(settings))


def apply_to_process(settings: Settings) -> None:
    """Set what libraries and git read from global state: folders, and the allowed roots.

    From then on, git records of a tree below an allowed root are accepted only below such a root.
    """
    grammar_folder.choose(settings.data_dir / "grammars")
    rules_folder.choose(settings.data_dir / "secret-rules")
    confine_git(allowed_roots(settings))


def allowed_roots(settings: Settings) -> tuple[Path, ...]:
    """The allowed roots as real paths."""
    return _real(settings.roots)


def closed_folders(settings: Settings) -> tuple[Path, ...]:
    """Folders that nobody may read: the kernel's, and ours with the database's files."""
    return (*KERNEL_FOLDERS, Path(os.path.realpath(settings.data_dir)), SYSTEM_FOLDER)


def clones_in(settings: Settings) -> Path:
    """Where clones are."""
    return Path(os.path.realpath(settings.data_dir.expanduser()), "repositories")


def _real(roots: Iterable[str]) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(root)) for root in roots)


def _common(roots: tuple[Path, ...], further: tuple[Path, ...]) -> tuple[Path, ...]:
    """The roots of the directories below both; of two nested roots the inner."""
    inner = [a for a in roots for b in further if a.is_relative_to(b)]
    inner += [b for b in further for a in roots if b.is_relative_to(a)]
    return tuple(dict.fromkeys(inner))
