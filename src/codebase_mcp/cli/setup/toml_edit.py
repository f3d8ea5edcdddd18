"""Adds a server's table to a TOML configuration, and removes it.

The text is edited directly, and the result is checked by parsing it. Libraries that write TOML
assign the comments before the next table to ours, and would delete them with it.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codebase_mcp.cli.setup.edit import Added, KeyPath, Refused, append_block, cut_block, newline_of

_BLANK = re.compile(r"[ \t\r\n\ufeff]+|#[^\n]*")
_PIECE = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|.|\n',
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TomlEntry:
    """A server's table in a section, ``[section.name]``."""

    section: str
    name: str
    value: Mapping[str, Any]

    def add(self, text: str) -> Added:
        """The text with our table."""
        content = _parse(text)
        wanted = copy.deepcopy(content)
        wanted.setdefault(self.section, {})
        if not isinstance(wanted[self.section], dict):
            raise Refused(f"{self.section} is not a table")
        if wanted[self.section].get(self.name) == self.value:
            return Added(text)
        wanted[self.section][self.name] = dict(self.value)
        spans = self._spans(text)
        if spans:
            start, end = spans[0]
            block = self.block().replace("\n", newline_of(text))
            new = self._without(text, spans[1:])
            new = new[:start] + block + new[end:]
        else:
            new = append_block(text, self.block())
        if _parse_or_none(new) != wanted:
            raise Refused(
                f"a table cannot be added to {self.section} as it is written; add this manually:"
                f"\n{self.block()}"
            )
        return Added(new)

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        """The text without our table."""
        del created  # a table needs no section around it
        content = _parse(text)
        if self.find(text) is None:
            return text
        new = self._without(text, self._spans(text))
        wanted = copy.deepcopy(content)
        del wanted[self.section][self.name]
        if _full(_parse_or_none(new)) != _full(wanted):
            raise Refused(f"{self.section}.{self.name} is not a separate table; remove it manually")
        return new

    def find(self, text: str) -> Any:
        """The table of our name."""
        section = _parse(text).get(self.section)
        return section.get(self.name) if isinstance(section, dict) else None

    def is_bare(self, text: str) -> bool:
        """Whether the text has no content."""
        return not text.strip()

    def block(self) -> str:
        """Our table as lines."""
        lines = [f"[{self.section}.{self.name}]"]
        lines += [f"{key} = {_shown(value)}" for key, value in self.value.items()]
        return "\n".join(lines)

    def _without(self, text: str, spans: Sequence[tuple[int, int]]) -> str:
        for start, end in reversed(spans):
            text = cut_block(text, start, end)
        return text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """The ranges of our table and its subtables, each up to its last line with content."""
        spans: list[tuple[int, int]] = []
        is_ours = False
        for start, end in _statements(text):
            if text[start] == "[":
                is_ours = _header(text[start:end])[:2] == (self.section, self.name)
                if is_ours:
                    spans.append((start, end))
            elif is_ours:
                spans[-1] = (spans[-1][0], end)
        return spans


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """The range of each header and each assignment in a valid text."""
    position = 0
    while position < len(text):
        if blank := _BLANK.match(text, position):
            position = blank.end()
            continue
        start, end, depth = position, position, 0
        while found := _PIECE.match(text, position):
            piece = found.group()
            if piece == "\n" and depth <= 0:
                break
            depth += (piece in "[{") - (piece in "]}")
            position = found.end()
            if not piece.isspace():
                end = position
        yield start, end


def _header(line: str) -> KeyPath:
    """The names in ``[a.b]`` or ``[[a.b]]``."""
    path: list[str] = []
    node: Any = tomllib.loads(line)
    while node:
        if isinstance(node, list):
            node = node[0]
            continue
        (name, node), *_ = node.items()
        path.append(name)
    return tuple(path)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"the file is not valid TOML: {error}") from None


def _parse_or_none(text: str) -> dict[str, Any] | None:
    try:
        return _parse(text)
    except Refused:
        return None


def _full(content: dict[str, Any] | None) -> dict[str, Any] | None:
    """The content without empty tables, as these make no difference."""
    return None if content is None else {k: v for k, v in content.items() if v != {}}


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_shown(v)}" for key, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(v) for v in value) + "]"
    # JSON's escapes are valid in TOML; only DEL must be escaped in TOML, and JSON does not do it.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
