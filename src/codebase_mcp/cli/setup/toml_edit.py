"""Adds a server's table to a TOML configuration, and removes it.

The text is edited line by line, and `tomllib` checks that nothing else has changed. tomlkit
assigns the comments before the next table to ours, and would delete them with it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from codebase_mcp.cli.setup.edit import Added, Refused, append_block, cut_block, newline_of

_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*',
    re.DOTALL,
)
_HEADER = re.compile(r"^(\ufeff?[ \t]*)\[", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TomlEntry:
    """A server's table in a section, ``[section.name]``."""

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

    def remove(self, text: str, created: Sequence[tuple[str, ...]]) -> str:
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
