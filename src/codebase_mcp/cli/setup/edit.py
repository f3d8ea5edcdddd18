"""What the ways to change a file of somebody else's have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

KeyPath = tuple[str, ...]


class Refused(Exception):
    """The text cannot be changed without a guess; ``line`` says where."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        place = "" if line is None else f"line {line}"
        if column is not None:
            place += f", column {column}"
        super().__init__(f"{place}: {reason}" if place else reason)


@dataclass(frozen=True, slots=True)
class Added:
    """A text with our part in it; ``created`` are the tables made around it."""

    text: str
    created: tuple[KeyPath, ...] = ()


class Edit(Protocol):
    """Puts one thing of ours into a text and takes it out again; everything else stays."""

    def add(self, text: str) -> Added:
        """The text with our part, added or brought up to date.

        Raises:
            Refused: the text is broken, or has no room for it.
        """

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        """The text without our part, and without what was made around it if that is empty."""

    def find(self, text: str) -> Any:
        """What stands in our place; None where nothing does."""

    def is_bare(self, text: str) -> bool:
        """Whether nothing is left that anybody else could have written."""


def refused_at(text: str, position: int, reason: str) -> Refused:
    """A refusal with the place as editors count it."""
    before = text[:position]
    return Refused(reason, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def newline_of(text: str) -> str:
    """How this text ends its lines."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def append_block(text: str, block: str) -> str:
    """A block of lines after a text, an empty line between; `cut_block` takes it out exactly."""
    newline = newline_of(text)
    block = block.replace("\n", newline)
    if not text:
        return block + newline
    if text.endswith("\n"):
        return text + newline + block + newline
    # The missing end of line marks, for the way back, that the text had none either.
    return text + newline + newline + block


def cut_block(text: str, start: int, end: int) -> str:
    """The text without a block, and without the lines' ends that came with it."""
    newline = newline_of(text)
    before, after = text[:start], text[end:]
    has_line_after = after.startswith(newline)
    after = after.removeprefix(newline)
    if before.endswith(newline * 2) and (has_line_after or not after):
        before = before[: -len(newline) * (1 if has_line_after else 2)]
    return before + after
