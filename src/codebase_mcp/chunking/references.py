"""Which names does a text use that may be defined elsewhere, and how?

Reads the captures of a query (see ``syntax``). What stands before a name is read from the text, as
nearly all languages write it the same way.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter

from tree_sitter import Node

from codebase_mcp.chunking.scopes import LocalNames
from codebase_mcp.chunking.syntax import Syntax
from codebase_mcp.model import Reference, ReferenceKind, Symbol

UNNAMED = "?"
"""The receiver if it is an expression without a name: a literal, a call with arguments."""

_KINDS: Mapping[str, ReferenceKind] = {kind.value: kind for kind in ReferenceKind}
_IMPORTED = frozenset({"import", "part"})
_NAMES = frozenset({*_KINDS, *_IMPORTED, "own", "holder", "parameter", "local", "skip"})
_IMPORT, _TYPE, _USE = ReferenceKind.IMPORT, ReferenceKind.TYPE, ReferenceKind.USE
_OWN = frozenset({"self", "cls", "this"})

# Limits on names; a text that is not in the language may exceed them by far.
_NAME_CHARS = 200
_MODULE_CHARS = 200

# What stands before a name, read backwards: "self.", "super().", "Vec::<u8>::". Two dots are a
# range or a spread argument. An arrow ("pointer->member") is a separator in some languages; in
# others it precedes a type or a result.
_RECEIVER = r"""(?x)
    [ \t\n]*+ (?: \.(?!\.) | :: | \\ %s) [?!&]*+ (?: [ \t]*+ \n [ \t\n]*+ )?
    (?: (?: (?:::)? >[^<>()]{0,60}< (?:::)? )? ( (?:\)\()? [\w$\x80-\xff]{1,100} ) )?"""
_GAP = re.compile(r"[ \t\n]*")
_BEFORE_NAME = re.compile(_RECEIVER % "")
_BEFORE_NAME_OR_MEMBER = re.compile(_RECEIVER % "| >- ")
_ARROW_LANGUAGES = frozenset({"c", "cpp", "php"})

_PREFIX = re.compile(rb"(?:[\w$]+\.)+\Z")

# A name in quotes is the path of a file: slashes separate its parts.
_QUOTES = "\"'`<>"
_PATH_SEPARATORS = {"rust": "::", "php": "\\"}
_WILDCARDS = frozenset({"*", "_"})
_VERSIONED = re.compile(r"([^/]+?)[/.]v\d+\Z")
_QUALIFIED = re.compile(r"(.*?)(::|[.\\])([^.\\:]+)$", re.DOTALL)

_Found = tuple[int, str, Node, Node | None]
"""The number of the pattern, the capture, the node of the name, and that of an alias."""

_Lines = tuple[int, int]
"""The first and the last line of a definition."""

# So many definitions before a line are looked at for the one around it.
_NEAR = 100

_Statement = tuple[int, int, str]
"""First byte, end, and module of a statement that imports."""


def find_references(
    syntaxes: Iterable[Syntax], language: str, symbols: Iterable[Symbol]
) -> tuple[Reference, ...]:
    """The uses of names, in the order of their lines.

    A bare name that is only handed on is nearly always a local variable. It counts if it has an
    upper-case first letter, or if the text itself defines or imports it. A member of the own object
    that is read counts if the text defines it; a type does not within a definition that has a type
    parameter of its name, and a bare name not where a local one hides it.
    """
    symbols = sorted(symbols, key=attrgetter("start_line"))
    before = _BEFORE_NAME_OR_MEMBER if language in _ARROW_LANGUAGES else _BEFORE_NAME
    found: list[Reference] = []
    for syntax in syntaxes:
        captured = sorted(_captured(syntax).items())
        statements = _statements(syntax)
        imports = list(_imports(syntax, captured, statements, language))
        local_names = LocalNames(syntax, language, _declared(captured, statements))
        known = {symbol.name for symbol in symbols}
        known.update(use.alias or use.name for use in imports)
        hidden = _hidden(syntax, captured, symbols)
        found += imports
        found += (
            use
            for use in _uses(syntax, captured, before, known, local_names)
            if use.kind is not _TYPE or not _is_within(use.line, hidden.get(use.name, ()))
        )
    return tuple(sorted(found, key=itemgetter(0)))


def _hidden(
    syntax: Syntax, captured: Iterable[tuple[int, _Found]], symbols: Sequence[Symbol]
) -> Mapping[str, list[_Lines]]:
    """Where each type parameter hides a type of its name: in the innermost definition around it."""
    hidden: dict[str, list[_Lines]] = defaultdict(list)
    starts = [symbol.start_line for symbol in symbols]
    for _, (_, capture, node, _) in captured:
        if capture != "parameter":
            continue
        line = node.start_point[0] + 1
        before = bisect_right(starts, line)
        near = reversed(symbols[max(0, before - _NEAR) : before])
        around = next((symbol for symbol in near if symbol.end_line >= line), None)
        if around is None:
            continue
        lines = hidden[syntax.text_of(node)]
        if lines and around.start_line <= lines[-1][1]:
            lines[-1] = (lines[-1][0], max(lines[-1][1], around.end_line))
        else:
            lines.append((around.start_line, around.end_line))
    return hidden


def _is_within(line: int, ranges: Sequence[_Lines]) -> bool:
    at = bisect_right(ranges, line, key=itemgetter(0))
    return at > 0 and ranges[at - 1][1] >= line


def _uses(
    syntax: Syntax,
    captured: Iterable[tuple[int, _Found]],
    before: re.Pattern[str],
    known: Collection[str],
    local_names: LocalNames,
) -> Iterator[Reference]:
    """All but imports; of the names that are only handed on, those that are known."""
    text = syntax.source.decode("latin-1")  # a character per byte, faster to slice than bytes
    size, backwards = len(text), text[::-1]
    own_objects = _OwnObjects(syntax)
    for start, (_, capture, node, _) in captured:
        kind = _USE if capture in ("own", "holder") else _KINDS.get(capture)
        name = _utf8(text[start : node.end_byte])
        if kind is None or kind is _IMPORT or not 0 < len(name) <= _NAME_CHARS:
            continue
        if capture == "own" and name not in known:
            continue
        if capture == "holder" and not name[0].isupper():
            continue
        found = before.match(backwards, size - start)
        if found and not _is_in_comment(syntax, backwards, start):
            receiver = _utf8(found[1][::-1]) if found[1] else UNNAMED
            if own_objects.is_own(start, receiver) and backwards[found.end()] != ".":
                receiver = "self"
            if capture == "own" and receiver not in _OWN:
                continue
            yield Reference(node.start_point[0] + 1, name, kind, receiver)
        elif kind is _TYPE or (
            (kind is not _USE or name in known or name[0].isupper())
            and not local_names.hide(name, start)
        ):
            yield Reference(node.start_point[0] + 1, name, kind)


def _is_in_comment(syntax: Syntax, backwards: str, start: int) -> bool:
    """Whether what separates a name from a receiver is the full stop of a comment above it."""
    size = len(backwards)
    gap = _GAP.match(backwards, size - start)
    if gap is None or "\n" not in gap[0]:
        return False
    place = size - gap.end() - 1
    node = syntax.root.descendant_for_byte_range(place, place + 1)
    return node is not None and "comment" in node.type


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace")


def _imports(
    syntax: Syntax,
    captured: Iterable[tuple[int, _Found]],
    statements: Sequence[_Statement],
    language: str,
) -> Iterator[Reference]:
    modules = _Modules(statements, _PATH_SEPARATORS.get(language, "."))
    for start, (_, capture, node, alias) in captured:
        text = _path(syntax, node)[-_NAME_CHARS:] if capture in _IMPORTED else ""
        if text:
            name, path = _split(text)
            module = path if text[0] in _QUOTES else modules.around(start, path)
            if not name or (capture == "part" and not module):
                continue
            if name == "self" and module:  # Rust: "use std::io::{self}"
                name, module = _split(module)
            local = syntax.text_of(alias)[:_NAME_CHARS] if alias else ""
            if language == "go" and not local and (found := _VERSIONED.search(f"{module}/{name}")):
                local = found[1]  # "ex.org/shop/v2" and "ex.org/shop.v2" are called shop
            line = node.start_point[0] + 1
            yield Reference(line, name, _IMPORT, "", module[-_MODULE_CHARS:], local)


def _declared(
    captured: Iterable[tuple[int, _Found]], statements: Sequence[_Statement]
) -> Iterator[Node]:
    """The local names: also parts of a pattern that imports nothing."""
    modules = _Modules(statements, "")
    for start, (_, capture, node, _) in captured:
        if capture in ("local", "part") and not modules.around(start, ""):
            yield node


def _path(syntax: Syntax, node: Node) -> str:
    """A name with what stands before it: Scala writes "a.b.C" as three nodes."""
    start = node.start_byte
    text = syntax.text_of(node)
    if syntax.source[start - 1 : start] != b".":
        return text
    prefix = _PREFIX.search(syntax.source, max(0, start - _MODULE_CHARS), start)
    return prefix[0].decode("utf-8", "replace") + text if prefix else text


def _captured(syntax: Syntax) -> dict[int, _Found]:
    """What the query captured, by the position of the name."""
    found: dict[int, _Found] = {}
    for pattern, captures in syntax.uses:
        alias = captures.get("alias")
        for capture, nodes in captures.items():
            if capture in _NAMES:
                node = nodes[0]
                start = node.start_byte
                if start not in found or pattern < found[start][0]:
                    found[start] = (pattern, capture, node, alias[0] if alias else None)
    # The name of a definition is no use of it; "const a = require('a')" is both, and what adds to a
    # type uses it.
    for _, captures in syntax.matches:
        if "extension" in captures:
            continue
        for node in captures.get("name", ()):
            if node.start_byte in found and found[node.start_byte][1] != "import":
                del found[node.start_byte]
    return found


def _statements(syntax: Syntax) -> list[_Statement]:
    return sorted(
        (
            captures["statement"][0].start_byte,
            captures["statement"][0].end_byte,
            _path(syntax, captures["from"][0]).strip(_QUOTES),
        )
        for _, captures in syntax.uses
        if "from" in captures
    )


class _Modules:
    """Which module is imported from at a position? Asked in ascending order."""

    def __init__(self, statements: Sequence[_Statement], separator: str) -> None:
        self._coming = list(reversed(statements))
        self._open: list[_Statement] = []
        self._separator = separator

    def around(self, start: int, path: str) -> str:
        """The modules of the statements around a position, the outer ones first, and a path."""
        while self._coming and self._coming[-1][0] <= start:
            self._open.append(self._coming.pop())
        self._open = [statement for statement in self._open if statement[1] > start]
        parts = [*(module for _, _, module in self._open), path]
        return self._separator.join(part for part in parts if part)


class _OwnObjects:
    """What methods call their own object, in a language where it has no fixed name."""

    def __init__(self, syntax: Syntax) -> None:
        self._methods = sorted(
            (one["within"][0].start_byte, one["within"][0].end_byte, syntax.text_of(one["self"][0]))
            for _, one in syntax.uses
            if "within" in one
        )

    def is_own(self, start: int, name: str) -> bool:
        """Whether a name at a position is that of the own object."""
        at = bisect_right(self._methods, start, key=itemgetter(0)) - 1
        return at >= 0 and start < self._methods[at][1] and name == self._methods[at][2]


def _split(name: str) -> tuple[str, str]:
    """The last part of what is imported, and the parts before it."""
    if name in _WILDCARDS:
        return "*", ""
    if name[0] in _QUOTES:
        folder, _, last = name.strip(_QUOTES).rpartition("/")
        return last, folder
    if found := _QUALIFIED.fullmatch(name):
        return "*" if found[3] in _WILDCARDS else found[3], found[1] or found[2]
    return name, ""
