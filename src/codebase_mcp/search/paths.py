"""What does a path alone say about a file? Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from codebase_mcp.model import FileKind
from codebase_mcp.text.tokens import aggressive_stem, path_parts, stem

_LEGACY = re.compile(
    r"(?:^|[/_.-])(?:legacy|compat|compatibility|deprecated|obsolete|old|v[01]|polyfills?)(?:[/_.-]|$)",
    re.IGNORECASE,
)
_INTERNAL = re.compile(
    r"(?:^|[/_.-])(?:internals?|impl|details?|private)(?:[/_.-]|$)", re.IGNORECASE
)
# How many first letters decide whether two words may begin alike.
MIN_PREFIX = 4


@dataclass(frozen=True, slots=True)
class PathFacts:
    """The words and kinds of one path.

    ``name`` are harsh stems of the file name's parts, ``beginnings`` the parts' first letters.
    """

    name: tuple[str, ...]
    name_parts: tuple[str, ...]
    beginnings: frozenset[str]
    folder_stems: frozenset[str]
    depth: int
    is_legacy: bool
    is_internal: bool


@lru_cache(maxsize=50_000)
def path_facts(path: str) -> PathFacts:
    """The facts that a path says."""
    name, folders = path_parts(path)
    parts = tuple(dict.fromkeys(name))
    return PathFacts(
        name=tuple(dict.fromkeys(aggressive_stem(part) for part in parts)),
        name_parts=parts,
        beginnings=frozenset(part[:MIN_PREFIX] for part in parts),
        folder_stems=frozenset(stem(part) for part in folders),
        depth=path.count("/"),
        is_legacy=_LEGACY.search(path) is not None,
        is_internal=_INTERNAL.search(path) is not None,
    )


# How much less a file of a kind is worth than code, as an answer about behaviour.
KIND_PENALTY = {
    FileKind.CODE: 0.0,
    FileKind.TEST: 1.0,
    FileKind.DOCS: 1.4,
    FileKind.CONFIG: 1.4,
    FileKind.GENERATED: 1.8,
    FileKind.VENDORED: 1.8,
}
