"""Which files of a tree are listed, in addition to its ignore files?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Patterns:
    """Lines in gitignore syntax, relative to a directory: the root of a tree or a parent of it."""

    directory: Path
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files are listed.

    Each of ``patterns`` excludes the files that it matches, independently of ignore files.
    ``shown_secrets`` match files that are listed although they are secrets; nothing in them is
    masked. ``chosen_by`` identifies the operator's part of these settings, without the repository's
    own.
    """

    max_file_bytes: int = MAX_FILE_BYTES
    patterns: tuple[Patterns, ...] = ()
    include_submodules: bool = False
    chosen_by: str = ""
    shown_secrets: Patterns | None = None

    def ignoring(self, root: Path, lines: Sequence[str]) -> Selection:
        """The selection without files that the patterns match, relative to the root of the tree."""
        if not lines:
            return self
        return replace(self, patterns=(*self.patterns, Patterns(root, tuple(lines))))


_SECRETS_OF = " with secrets of "


def joined_choice(choice: str, shown_secrets: Sequence[str]) -> str:
    """A choice of settings as text, with the patterns of the files whose secrets are shown."""
    return choice + (_SECRETS_OF + repr(list(shown_secrets)) if shown_secrets else "")


def secrets_in(choice: str) -> str:
    """The patterns in such a text; empty if there are none."""
    return choice.partition(_SECRETS_OF)[2]


EVERYTHING = Selection()
