"""Which files of a tree are listed, in addition to its ignore files?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Patterns:
    """Lines in gitignore syntax, relative to a directory: the root of a tree or one above it."""

    directory: Path
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files are listed: up to a size, not excluded by a pattern; submodules if wanted.

    Each of ``patterns`` excludes what it matches, independent of the others and of ignore files.
    ``chosen_by`` identifies the operator's part of these settings, without the repository's own.
    """

    max_file_bytes: int = MAX_FILE_BYTES
    patterns: tuple[Patterns, ...] = ()
    include_submodules: bool = False
    chosen_by: str = ""

    def ignoring(self, root: Path, lines: Sequence[str]) -> Selection:
        """The same without what some patterns match, relative to the root of the tree."""
        if not lines:
            return self
        return replace(self, patterns=(*self.patterns, Patterns(root, tuple(lines))))


EVERYTHING = Selection()
