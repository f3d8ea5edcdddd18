"""Adds a server's entry to a JSON configuration, with or without comments, and removes it.

The text is edited in place: parsing and rewriting it would lose the user's comments, order and
indentation. Positions in the text are found by `json` itself, in a copy in which comments and
trailing commas are blanks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codebase_mcp.cli.setup.edit import Added, KeyPath, Refused, newline_of

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/|\A\ufeff", re.DOTALL)
# A comma after another separator is no trailing comma, so it stays for `json` to refuse.
_TRAILING_COMMA = re.compile(rf"{_STRING}|[{{\[,:]\s*,|,(?=\s*[}}\]])", re.DOTALL)
_INDENTED_KEY = re.compile(r'\n([ \t]+)"')
_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """A server's entry in a section; of several sections, the first that the text has."""

    sections: tuple[KeyPath, ...]
    name: str
    value: Mapping[str, Any]

    def add(self, text: str) -> Added:
        """The text with our entry, first in its section; missing sections are created."""
        text = text if _strict(text).strip() else "{}" + newline_of(text)
        path = (*self._section(text), self.name)
        node, depth = _descend(text, path[:-1])
        member = node.member(path[depth])
        value: Any = dict(self.value)
        if member is None:
            for key in reversed(path[depth + 1 :]):
                value = {key: value}
            created = tuple(path[:end] for end in range(depth + 1, len(path)))
            return Added(_insert(text, node, path[depth], value), created)
        if depth < len(path) - 1:
            raise Refused(f"{'.'.join(path[: depth + 1])} is not a JSON object")
        if member.value == value:
            return Added(text)
        shown = _dumped(text, value, _indent(text, member.start))
        return Added(text[: member.value_start] + shown + text[member.end :])

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        """The text without our entry, and without the created sections that are empty now."""
        for section in self.sections:
            text = _remove(text, (*section, self.name))
        for path in sorted(created, key=len, reverse=True):
            node, depth = _descend(text, path)
            if depth == len(path) and not node.members:
                text = _remove(text, path)
        return text

    def find(self, text: str) -> Any:
        for section in self.sections:
            node, depth = _descend(text, section)
            if depth == len(section) and (member := node.member(self.name)):
                return member.value
        return None

    def is_bare(self, text: str) -> bool:
        return text.strip() in ("", "{}")

    def _section(self, text: str) -> KeyPath:
        for section in self.sections[:-1]:
            node, depth = _descend(text, section)
            # A server may have the name of a section; a server has a type, a section does not.
            if depth == len(section) and node.member("type") is None:
                return section
        return self.sections[-1]


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object; ``comma`` is the position of the comma after it."""

    key: str
    value: Any
    start: int
    value_start: int
    end: int
    comma: int | None


@dataclass(frozen=True, slots=True)
class _Object:
    """The range of an object in the text, braces included, and its members in order."""

    start: int
    end: int
    members: list[_Member]

    def member(self, key: str) -> _Member | None:
        """The member of this name; of several, the last, as JSON parsers do."""
        return next((m for m in reversed(self.members) if m.key == key), None)


def load(text: str) -> dict[str, Any]:
    """The content of a text; a blank text is an empty object.

    Raises:
        Refused: the text is invalid, or not an object.
    """
    strict = _strict(text)
    try:
        content = json.loads(strict) if strict.strip() else {}
    except json.JSONDecodeError as error:
        raise Refused(error.msg, error.lineno, error.colno) from None
    except RecursionError:
        raise Refused("the file is nested too deeply") from None
    if not isinstance(content, dict):
        raise Refused("the file does not contain a JSON object", 1)
    return content


def _plain(text: str) -> str:
    """The text with its comments replaced by as many blanks."""
    return _COMMENT.sub(
        lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\r\n]", " ", match[0]), text
    )


def _strict(text: str) -> str:
    """The text as `json` reads it, each character in its position."""
    return _TRAILING_COMMA.sub(lambda match: " " if match[0] == "," else match[0], _plain(text))


def _descend(text: str, path: KeyPath) -> tuple[_Object, int]:
    """The innermost object on a path, and how many keys of the path lead to it."""
    load(text)  # refuses an invalid text
    plain, strict = _plain(text), _strict(text)
    if not strict.strip():
        return _Object(0, 0, []), 0
    node = _object_at(plain, strict, _skip(strict, 0))
    for depth, key in enumerate(path):
        member = node.member(key)
        if member is None or not isinstance(member.value, dict):
            return node, depth
        node = _object_at(plain, strict, member.value_start)
    return node, len(path)


def _object_at(plain: str, strict: str, start: int) -> _Object:
    members = []
    position = _skip(strict, start + 1)
    while strict[position] != "}":
        key, end = _DECODER.raw_decode(strict, position)
        value_start = _skip(strict, _skip(strict, end) + 1)
        value, end = _DECODER.raw_decode(strict, value_start)
        after = _skip(plain, end)
        comma = after if plain[after] == "," else None
        members.append(_Member(key, value, position, value_start, end, comma))
        position = _skip(strict, after if comma is None else comma + 1)
    return _Object(start, position + 1, members)


def _skip(text: str, position: int) -> int:
    blanks = _BLANKS.match(text, position)
    assert blanks is not None
    return blanks.end()


def _insert(text: str, node: _Object, key: str, value: Any) -> str:
    """The text with a new first member in an object."""
    inside, newline, outer = node.start + 1, newline_of(text), _indent(text, node.start)
    if outer is None and text.strip() != "{}":
        entry = f"{json.dumps(key)}: {_dumped(text, value, None)}"
    else:
        outer = outer or ""
        indent = outer + _unit(text)
        if node.members and "\n" in text[inside : node.members[0].start]:
            indent = _indent(text, node.members[0].start) or ""
        entry = f"{newline}{indent}{json.dumps(key)}: {_dumped(text, value, indent)}"
        if "\n" not in text[inside : node.end] and not node.members:
            entry += newline + outer
    return text[:inside] + entry + ("," if node.members else "") + text[inside:]


def _remove(text: str, path: KeyPath) -> str:
    """The text without a member, even if it occurs several times."""
    while True:
        node, depth = _descend(text, path[:-1])
        member = node.member(path[-1])
        if depth < len(path) - 1 or member is None:
            return text
        text = _cut(text, node, node.members.index(member))


def _cut(text: str, node: _Object, index: int) -> str:
    """The text without a member, its line and its comma."""
    member = node.members[index]
    before, after = text[: member.start], text[member.end :]
    if before.rstrip(" \t").endswith("\n"):
        before = before.rstrip(" \t").removesuffix("\n").removesuffix("\r")
    elif index > 0:
        before = before.rstrip(" \t")
    if member.comma is not None:
        after = text[member.comma + 1 :]
    elif index > 0 and (comma := node.members[index - 1].comma) is not None:
        before = before[:comma] + before[comma + 1 :]
    elif not (text[node.start + 1 : len(before)] + after[: node.end - 1 - member.end]).strip():
        before, after = text[: node.start + 1], text[node.end - 1 :]
    return before + after


def _indent(text: str, position: int) -> str | None:
    """The indentation of the line of a position; None in a text of a single line."""
    if "\n" not in text.strip():
        return None
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    indented = _INDENTED_KEY.search(text)
    return indented[1] if indented else "  "


def _dumped(text: str, value: Any, indent: str | None) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return (newline_of(text) + indent).join(lines)
