"""Adds a server's entry to a JSON configuration, and removes it.

The text is edited in place, in its own style. It is not parsed and rewritten, as that would change
the user's comments, order, indentation and line endings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codebase_mcp.cli.setup.edit import Added, KeyPath, Refused, newline_of
from codebase_mcp.cli.setup.jsonc import Member, Node, parse, skip_on_line


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """A server's entry in a section; of several sections, the first that the text has."""

    sections: tuple[KeyPath, ...]
    name: str
    value: Mapping[str, Any]

    def add(self, text: str) -> Added:
        """The text with our entry."""
        text = text if parse_or_blank(text) else "{}" + newline_of(text)
        section = self._section(parse(text))
        return set_member(text, section, self.name, dict(self.value))

    def remove(self, text: str, created: Sequence[KeyPath]) -> str:
        """The text without our entry."""
        if parse_or_blank(text) is None:
            return text
        for section in self.sections:
            text = remove_member(text, section, self.name)
        for path in sorted(created, key=len, reverse=True):
            node = _descend(parse(text), path)
            if node is not None and node.is_object and not node.members:
                text = remove_member(text, path[:-1], path[-1])
        return text

    def find(self, text: str) -> Any:
        """The entry of our name."""
        root = parse_or_blank(text)
        for section in self.sections if root else ():
            assert root is not None
            node = _descend(root, (*section, self.name))
            if node is not None:
                return node.value
        return None

    def is_bare(self, text: str) -> bool:
        """Whether the text has no content."""
        root = parse_or_blank(text)
        return root is None or text.strip() == "{}"

    def _section(self, root: Node) -> KeyPath:
        for section in self.sections[:-1]:
            node = _descend(root, section)
            # A server may have the name of a section; a server has a type, a section does not.
            if node is not None and node.is_object and "type" not in node.value:
                return section
        return self.sections[-1]


def parse_or_blank(text: str) -> Node | None:
    """The tree of a text that must be an object; None if the text is blank."""
    if not text.strip(" \t\r\n\ufeff"):
        return None
    root = parse(text)
    if not root.is_object:
        raise Refused("the file does not contain a JSON object", 1)
    return root


def set_member(text: str, section: KeyPath, name: str, value: Any) -> Added:
    """The text with a member at a path; missing objects on the path are created."""
    node, created = parse(text), []
    for depth, key in enumerate((*section, name)):
        if not node.is_object:
            raise Refused(f"{'.'.join(section[:depth])} is not a JSON object")
        member = node.member(key)
        if member is None:
            created = [section[:end] for end in range(depth + 1, len(section) + 1)]
            for inner in reversed((*section, name)[depth + 1 :]):
                value = {inner: value}
            return Added(_insert(text, node, key, value), tuple(created))
        node = member.node
    if node.value == value:
        return Added(text)
    member_indent = _indent_at(text, member.start) if member else None
    shown = _dumped(text, value, member_indent)
    return Added(text[: node.start] + shown + text[node.end :])


def remove_member(text: str, section: KeyPath, name: str) -> str:
    """The text without a member, even if it occurs several times."""
    while True:
        node = _descend(parse(text), section)
        member = node.member(name) if node is not None else None
        if node is None or member is None:
            return text
        text = _cut(text, node, member)


def _descend(node: Node, path: KeyPath) -> Node | None:
    for key in path:
        member = node.member(key)
        if member is None:
            return None
        node = member.node
    return node


def _insert(text: str, node: Node, key: str, value: Any) -> str:
    if not node.members:
        return _insert_only(text, node, key, value)
    newline, last = newline_of(text), node.members[-1]
    indent = _indent_at(text, node.members[0].start)
    end = last.node.end if last.comma is None else last.comma + 1
    comma_before, comma_after = (",", "") if last.comma is None else ("", ",")
    shown = f"{json.dumps(key)}: {_dumped(text, value, indent)}{comma_after}"
    if indent is None:
        return f"{text[:end]}{comma_before} {shown}{text[end:]}"
    place = skip_on_line(text, end)
    return f"{text[:end]}{comma_before}{text[end:place]}{newline}{indent}{shown}{text[place:]}"


def _insert_only(text: str, node: Node, key: str, value: Any) -> str:
    """The first member of an empty object."""
    newline, inside = newline_of(text), text[node.start + 1 : node.end - 1]
    root = parse(text)
    if root.start != node.start and "\n" not in text[root.start : root.end]:
        return f"{text[: node.end - 1]}{json.dumps(key)}: {json.dumps(value)}{text[node.end - 1 :]}"
    line = text[text.rfind("\n", 0, node.start) + 1 : node.start]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    indent = outer + _unit(text)
    shown = f"{newline}{indent}{json.dumps(key)}: {_dumped(text, value, indent)}"
    place = node.start + 1 + len(inside.rstrip(" \t\r\n"))
    rest = (
        text[place:] if "\n" in text[place : node.end] else newline + outer + text[node.end - 1 :]
    )
    return text[:place] + shown + rest


def _cut(text: str, node: Node, member: Member) -> str:
    start, end = member.start, member.node.end
    indent = _indent_at(text, start)
    if indent is not None:
        start -= len(indent) + (2 if text[: start - len(indent)].endswith("\r\n") else 1)
    elif member is not node.members[0]:
        start = len(text[:start].rstrip(" \t"))
    previous = node.members[node.members.index(member) - 1] if member != node.members[0] else None
    if member.comma is not None:
        end = member.comma + 1
        if indent is None and previous is None:
            end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    elif previous is not None and previous.comma is not None:
        start_before = previous.comma
        return text[:start_before] + text[start_before + 1 : start] + text[end:]
    cut = text[:start] + text[end:]
    if len(node.members) > 1:
        return cut
    closing = node.end - (end - start)
    inside = cut[node.start + 1 : closing - 1]
    return cut if inside.strip() else cut[: node.start + 1] + cut[closing - 1 :]


def _indent_at(text: str, position: int) -> str | None:
    """The indentation of a line up to a position; None if other text, or no line, precedes it."""
    line_start = text.rfind("\n", 0, position) + 1
    before = text[line_start:position]
    return before if line_start and not before.strip(" \t") else None


def _unit(text: str) -> str:
    """One level of indentation in the style of the text."""
    root = parse(text)
    found = _indent_at(text, root.members[0].start) if root.members else None
    return found if found and re.fullmatch(r"[ \t]+", found) else "  "


def _dumped(text: str, value: Any, indent: str | None) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return (newline_of(text) + indent).join(lines)
