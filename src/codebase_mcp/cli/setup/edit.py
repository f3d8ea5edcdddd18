"""Edits of a user's file: shared text operations, the block of instructions, tables of TOML.

An edit has four methods. ``add`` returns the text with our part, added or updated. ``remove``
returns the text without it, and without the created sections that are empty then. ``find`` returns
our part or an entry of the same name, or None. ``is_bare`` tells whether the text has
no content besides our part. Everything else stays unchanged. All raise `Refused` for an invalid
text.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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


_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
_HEADER = re.compile(r"^(\ufeff?[ \t]*)\[", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TomlEntry:
    """A server's table in a section of a TOML file, ``[section.name]``.

    The text is edited line by line, and `tomllib` checks that nothing else has changed. tomlkit
    assigns the comments before the next table to ours, and would delete them with it.
    """

    section: str
    name: str
    value: Mapping[str, Any]

    def add(self, text: str) -> Added:
        content = _load(text)
        servers = content.setdefault(self.section, {})
        if not isinstance(servers, dict):
            raise Refused(f"{self.section} is not a table")
        if servers.get(self.name) == self.value:
            return Added(text)
        servers[self.name] = dict(self.value)
        ranges = self._ranges(text)
        new = self._without(text, ranges[1:])
        if ranges:
            start, end = ranges[0]
            new = new[:start] + self._block().replace("\n", newline_of(text)) + new[end:]
        else:
            new = append_block(text, self._block())
        if not _holds(new, content):
            raise Refused(
                f"a table cannot be added to {self.section} as it is written; add this manually:"
                f"\n{self._block()}"
            )
        return Added(new)

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        del created  # a table needs no section around it
        content = _load(text)
        if self.find(text) is None:
            return text
        new = self._without(text, self._ranges(text))
        del content[self.section][self.name]
        if not _holds(new, content):
            raise Refused(f"{self.section}.{self.name} is not a separate table; remove it manually")
        return new

    def find(self, text: str) -> Any:
        section = _load(text).get(self.section)
        return section.get(self.name) if isinstance(section, dict) else None

    def is_bare(self, text: str) -> bool:
        return not text.strip()

    def _block(self) -> str:
        lines = [f"[{self.section}.{self.name}]"]
        lines += [f"{key} = {_shown(value)}" for key, value in self.value.items()]
        return "\n".join(lines)

    def _without(self, text: str, ranges: Sequence[tuple[int, int]]) -> str:
        for start, end in reversed(ranges):
            text = cut_block(text, start, end)
        return text

    def _ranges(self, text: str) -> list[tuple[int, int]]:
        """The ranges of our table and its subtables, each up to its last line with content."""
        plain = _STRING_OR_COMMENT.sub(_masked, text)
        starts = [match.end(1) for match in _HEADER.finditer(plain)]
        ranges = []
        for start, next_start in pairwise([*starts, len(text)]):
            if self._is_header_of_ours(text[start:].partition("\n")[0].rstrip()):
                end = start + len(plain[start:next_start].rstrip())
                ranges.append((start, end + len(text[end:].partition("\n")[0].rstrip())))
        return ranges

    def _is_header_of_ours(self, line: str) -> bool:
        try:
            return self.name in tomllib.loads(line).get(self.section, ())
        except tomllib.TOMLDecodeError:  # the line of an array
            return False


def _masked(match: re.Match[str]) -> str:
    """A comment as blanks, a string as letters, both without line ends."""
    return (" " if match[0][0] == "#" else "x") * len(match[0])


def _load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"the file is not valid TOML: {error}") from None


def _holds(text: str, content: Mapping[str, Any]) -> bool:
    """Whether a text has this content; empty tables make no difference."""
    try:
        loaded = _load(text)
    except Refused:
        return False
    return all(
        loaded.get(key, {}) == content.get(key, {}) for key in loaded.keys() | content.keys()
    )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_shown(v)}" for key, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(v) for v in value) + "]"
    # JSON's escapes are valid in TOML; only DEL must be escaped in TOML, and JSON does not do it.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
