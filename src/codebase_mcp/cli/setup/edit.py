"""Edits of a user's file: shared text operations, and the block of instructions.

An edit has four methods. ``add`` returns the text with our part, added or updated. ``remove``
returns the text without it, and without the created sections that are empty then. ``find`` returns
our part or an entry of the same name, or None. ``is_bare`` tells whether the text has
no content besides our part. Everything else stays unchanged. All raise `Refused` for an invalid
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

KeyPath = tuple[str, ...]


class Refused(Exception):
    """The text cannot be edited safely; ``line`` and ``column`` say where."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        position = "" if line is None else f"line {line}"
        if column is not None:
            position += f", column {column}"
        super().__init__(f"{position}: {reason}" if position else reason)


@dataclass(frozen=True, slots=True)
class Added:
    """A text with our part in it; ``created`` are the sections created around it."""

    text: str
    created: tuple[KeyPath, ...] = ()


def newline_of(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def append_block(text: str, block: str) -> str:
    """A text with a block after an empty line; `cut_block` restores the text exactly."""
    newline = newline_of(text)
    block = block.replace("\n", newline)
    if not text:
        return block + newline
    if text.endswith("\n"):
        return text + newline + block + newline
    # No line ending after the block, so that `cut_block` knows that the text had none.
    return text + newline + newline + block


def cut_block(text: str, start: int, end: int) -> str:
    """The text without a block, and without the line endings added with it."""
    newline = newline_of(text)
    before, after = text[:start], text[end:]
    has_line_after = after.startswith(newline)
    after = after.removeprefix(newline)
    if has_line_after and before.endswith(f"\n{newline}"):  # the text's own end may differ
        before = before.removesuffix(newline)
    elif not has_line_after and not after and before.endswith(newline * 2):
        before = before.removesuffix(newline * 2)
    return before + after


BEGIN = "<!-- codebase-mcp begin: written by codebase-mcp setup -->"
END = "<!-- codebase-mcp end -->"


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions; ``header`` is the beginning of a file that contains nothing else."""

    instructions: str
    header: str = ""

    def add(self, text: str) -> Added:
        span = _span(text)
        block = f"{BEGIN}\n{self.instructions}\n{END}"
        if span is None:
            return Added(append_block(text or self.header, block))
        start, end = span
        return Added(text[:start] + block.replace("\n", newline_of(text)) + text[end:])

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        del created  # a block creates nothing around it
        while span := _span(text):
            text = cut_block(text, *span)
        return text

    def find(self, text: str) -> Any:
        span = _span(text)
        return None if span is None else text[slice(*span)]

    def is_bare(self, text: str) -> bool:
        """Whether nothing but our header is left."""
        return text.strip() in ("", self.header.strip())


@dataclass(frozen=True, slots=True)
class SkillFile(Block):
    """A skill file, which an agent reads on demand; ``header`` is its front matter.

    Everything up to the end of our block is ours. A file of this name without the block belongs to
    the user, and is not changed.
    """

    def add(self, text: str) -> Added:
        span = _span(text)
        if text and span is None:
            return Added(text)
        rest = text[span[1] :] if span else "\n"
        ours = f"{self.header}{BEGIN}\n{self.instructions}\n{END}"
        return Added(ours.replace("\n", newline_of(text)) + rest)

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        del created
        span = _span(text)
        return text if span is None else text[span[1] :].lstrip("\r\n")


def _span(text: str) -> tuple[int, int] | None:
    start = text.find(BEGIN)
    if start < 0:
        return None
    end = text.find(END, start)
    if end < 0:
        column = start - text.rfind("\n", 0, start)
        reason = f"the end marker of our block is missing: {END}"
        raise Refused(reason, text.count("\n", 0, start) + 1, column)
    return start, end + len(END)
