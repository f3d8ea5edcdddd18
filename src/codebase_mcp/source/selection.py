"""What of a tree is to be listed, beside what its ignore files say?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Patterns:
    """Lines in gitignore syntax, relative to a directory: the root of a tree or one above it."""

    directory: Path
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """What is listed: files up to a size that no pattern leaves out; submodules where wanted.

    Each of ``patterns`` leaves out what it names, whatever the others and the ignore files say.
    ``chosen_by`` is what the operator's settings say about it, whatever the repository's say.
    """

    max_file_bytes: int = MAX_FILE_BYTES
    patterns: tuple[Patterns, ...] = ()
    include_submodules: bool = False
    chosen_by: str = ""


EVERYTHING = Selection()
