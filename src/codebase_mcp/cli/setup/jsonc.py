"""Parses JSON with comments and trailing commas, as VS Code and Zed use it, with text positions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from codebase_mcp.cli.setup.edit import refused_at

# No client nests deeper; without a limit, Python's recursion limit would be exceeded.
MAX_DEPTH = 100

_BLANK = re.compile(r"[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its position, and the ``members`` of an object in order."""

    start: int
    end: int
    value: Any
    members: list[Member] = field(default_factory=list)

    @property
    def is_object(self) -> bool:
        """Whether it can hold members."""
        return isinstance(self.value, dict)

    def member(self, key: str) -> Member | None:
        """The member of this name; of several, the last one."""
        return next((m for m in reversed(self.members) if m.key == key), None)


@dataclass(frozen=True, slots=True)
class Member:
    """A key with its value; ``comma`` is the position of the comma after it."""

    key: str
    start: int
    node: Node
    comma: int | None


def parse(text: str) -> Node:
    """The tree of a text.

    Raises:
        Refused: the text is invalid; the message says where.
    """
    reader = _Reader(text)
    root = reader.value(reader.skip(0), 0)
    end = reader.skip(root.end)
    if end < len(text):
        raise refused_at(text, end, "unexpected text after the end of the JSON value")
    return root


def skip_on_line(text: str, position: int) -> int:
    """The position after the blanks and comments that follow on the same line."""
    while True:
        found = re.compile(r"[ \t]+|//[^\r\n]*|/\*[^\n]*?\*/").match(text, position)
        if found is None:
            return position
        position = found.end()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, position: int) -> int:
        while found := _BLANK.match(self._text, position):
            position = found.end()
        return position

    def value(self, position: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise refused_at(self._text, position, f"nested more than {MAX_DEPTH} levels deep")
        match self._text[position : position + 1]:
            case "{":
                return self._object(position, depth)
            case "[":
                return self._array(position, depth)
            case '"':
                value, end = self._string(position)
                return Node(position, end, value)
        scalar = _SCALAR.match(self._text, position)
        if scalar is None:
            raise refused_at(self._text, position, "a value is missing or invalid")
        return Node(position, scalar.end(), json.loads(scalar.group()))

    def _object(self, start: int, depth: int) -> Node:
        members: list[Member] = []
        position = self.skip(start + 1)
        while self._text[position : position + 1] != "}":
            key_start = position
            key, position = self._string(position)
            position = self.skip(position)
            if self._text[position : position + 1] != ":":
                raise refused_at(self._text, position, 'a ":" is missing after a key')
            node = self.value(self.skip(position + 1), depth + 1)
            position, comma = self._after(node.end, "}")
            members.append(Member(key, key_start, node, comma))
        value = {member.key: member.node.value for member in members}
        return Node(start, position + 1, value, members)

    def _array(self, start: int, depth: int) -> Node:
        values = []
        position = self.skip(start + 1)
        while self._text[position : position + 1] != "]":
            node = self.value(position, depth + 1)
            values.append(node.value)
            position, _ = self._after(node.end, "]")
        return Node(start, position + 1, values)

    def _after(self, position: int, closing: str) -> tuple[int, int | None]:
        """The position of the next element or of the end, and of the comma before it."""
        position = self.skip(position)
        if self._text[position : position + 1] == ",":
            return self.skip(position + 1), position
        if self._text[position : position + 1] != closing:
            raise refused_at(self._text, position, f'"," or "{closing}" is missing')
        return position, None

    def _string(self, position: int) -> tuple[str, int]:
        found = _STRING.match(self._text, position)
        try:
            if found is not None:
                return json.loads(found.group()), found.end()
        except ValueError:
            pass
        raise refused_at(self._text, position, "a string in double quotes is missing or invalid")
