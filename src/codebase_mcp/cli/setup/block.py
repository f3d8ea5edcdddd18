"""Adds our instructions to an agent's instruction file, between two markers, and removes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codebase_mcp.cli.setup.edit import (
    Added,
    KeyPath,
    append_block,
    cut_block,
    newline_of,
    refused_at,
)

BEGIN = "<!-- codebase-mcp begin: written by codebase-mcp setup -->"
END = "<!-- codebase-mcp end -->"


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions; ``header`` is the beginning of a file that contains nothing else."""

    instructions: str
    header: str = ""

    def add(self, text: str) -> Added:
        """The text with our block."""
        span = _span(text)
        block = f"{BEGIN}\n{self.instructions}\n{END}"
        if span is None:
            return Added(append_block(text or self.header, block))
        start, end = span
        return Added(text[:start] + block.replace("\n", newline_of(text)) + text[end:])

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        """The text without our block."""
        del created  # a block creates nothing around it
        while span := _span(text):
            text = cut_block(text, *span)
        return text

    def find(self, text: str) -> Any:
        """The block, if there is one."""
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
        """The updated file; text below our block is kept."""
        span = _span(text)
        if text and span is None:
            return Added(text)
        rest = text[span[1] :] if span else "\n"
        ours = f"{self.header}{BEGIN}\n{self.instructions}\n{END}"
        return Added(ours.replace("\n", newline_of(text)) + rest)

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        """The text below our block."""
        del created
        span = _span(text)
        return text if span is None else text[span[1] :].lstrip("\r\n")


def _span(text: str) -> tuple[int, int] | None:
    start = text.find(BEGIN)
    if start < 0:
        return None
    end = text.find(END, start)
    if end < 0:
        raise refused_at(text, start, f"the end marker of our block is missing: {END}")
    return start, end + len(END)
