"""Which names does a text use that may be defined elsewhere, and how?

Reads the captures of a query (see ``syntax``). What stands before a name is read from the text, as
nearly all languages write it the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from tree_sitter import Node

from codebase_mcp.chunking.syntax import Syntax
from codebase_mcp.model import Reference, ReferenceKind, Symbol

UNNAMED = "?"
"""The receiver if it is an expression without a name: a literal, a call with arguments."""

_KINDS: Mapping[str, ReferenceKind] = {kind.value: kind for kind in ReferenceKind}
_NAMES = frozenset({*_KINDS, "skip"})
_IMPORT, _USE = ReferenceKind.IMPORT, ReferenceKind.USE

# Limits on names; a text that is not in the language may exceed them by far.
_NAME_CHARS = 200
_MODULE_CHARS = 200

# Languages in which a name without a receiver is local, or the text itself says where it is from.
_NAMED_LANGUAGES = frozenset({"python", "javascript", "typescript", "tsx"})

# What stands before a name, read backwards: "self.", "super().", "Vec::<u8>::". Two dots are a
# range or a spread argument. An arrow ("pointer->member") is a separator in some languages; in
# others it precedes a type or a result.
_RECEIVER = rb"""(?x)
    [ \t\n]*+ (?: \.(?!\.) | :: | \\ %s) [?!& \t\n]*+
    (?: (?: (?:::)? >[^<>()]{0,60}< (?:::)? )? ( (?:\)\()? [\w$\x80-\xff]{1,100} ) )?"""
_BEFORE_NAME = re.compile(_RECEIVER % b"")
_BEFORE_NAME_OR_MEMBER = re.compile(_RECEIVER % b"| >- ")
_ARROW_LANGUAGES = frozenset({"c", "cpp", "php"})

# A name in quotes is the path of a file: only slashes separate its parts.
_QUOTES = "\"'`<>"
_PATH = re.compile(r"(.*)(/)([^/]+)", re.DOTALL)
_QUALIFIED = re.compile(r"(.*?)(::|[.\\])([^.\\:]+)$", re.DOTALL)

_Statement = tuple[int, int, str]
"""First byte, end, and module of a statement that imports."""


def find_references(
    syntaxes: Iterable[Syntax], language: str, symbols: Iterable[Symbol]
) -> tuple[Reference, ...]:
    """The uses of names, in the order of their lines.

    Where a name must be defined or imported in the text itself, one that is not is a local variable
    and left out, if it is only handed on.
    """
    receiver = _BEFORE_NAME_OR_MEMBER if language in _ARROW_LANGUAGES else _BEFORE_NAME
    found = [use for syntax in syntaxes for use in _references(syntax, receiver)]
    if language in _NAMED_LANGUAGES:
        known = {symbol.name for symbol in symbols}
        known.update(use.alias or use.name for use in found if use.kind is _IMPORT)
        if "*" not in known:
            found = [u for u in found if u.kind is not _USE or u.receiver or u.name in known]
    return tuple(sorted(found, key=itemgetter(0)))


def _references(syntax: Syntax, receiver: re.Pattern[bytes]) -> Iterator[Reference]:
    source = syntax.source
    size, backwards = len(source), source[::-1]
    modules = _Modules(_statements(syntax))
    for start, (_, capture, node, alias) in sorted(_captured(syntax).items()):
        if capture == "skip":
            continue
        name = source[start : node.end_byte].decode("utf-8", "replace")
        if not 0 < len(name) <= _NAME_CHARS:
            continue
        line = node.start_point[0] + 1
        kind = _KINDS[capture]
        if kind is _IMPORT:
            name, module = _split(name, modules.at(start))
            local = syntax.text_of(alias)[:_NAME_CHARS] if alias else ""
            yield Reference(line, name, kind, "", module[-_MODULE_CHARS:], local)
        elif before := receiver.match(backwards, size - start):
            object_name = before[1][::-1].decode("utf-8", "replace") if before[1] else UNNAMED
            yield Reference(line, name, kind, object_name)
        else:
            yield Reference(line, name, kind)


def _captured(syntax: Syntax) -> dict[int, tuple[int, str, Node, Node | None]]:
    """The number of the pattern, the capture, name and alias, by the position of the name."""
    found: dict[int, tuple[int, str, Node, Node | None]] = {}
    for pattern, captures in syntax.uses:
        alias = captures.get("alias")
        for capture, nodes in captures.items():
            if capture in _NAMES:
                node = nodes[0]
                start = node.start_byte
                if start not in found or pattern < found[start][0]:
                    found[start] = (pattern, capture, node, alias[0] if alias else None)
    for _, captures in syntax.matches:  # the name of a definition is no use of it
        for node in captures.get("name", ()):
            found.pop(node.start_byte, None)
    return found


def _statements(syntax: Syntax) -> list[_Statement]:
    return sorted(
        (
            captures["statement"][0].start_byte,
            captures["statement"][0].end_byte,
            syntax.text_of(captures["from"][0]).strip(_QUOTES),
        )
        for _, captures in syntax.uses
        if "from" in captures
    )


class _Modules:
    """Which module is imported from at a position? Asked in ascending order."""

    def __init__(self, statements: Sequence[_Statement]) -> None:
        self._coming = list(reversed(statements))
        self._open: list[_Statement] = []

    def at(self, start: int) -> str:
        """The modules of the statements around a position, the outer ones first."""
        while self._coming and self._coming[-1][0] <= start:
            self._open.append(self._coming.pop())
        self._open = [statement for statement in self._open if statement[1] > start]
        module = ""
        for _, _, text in self._open:
            module = _joined(module, text)
        return module


def _split(name: str, module: str) -> tuple[str, str]:
    """The last part of an imported name, and the module with the parts before it."""
    pattern = _PATH if name[0] in _QUOTES else _QUALIFIED
    name = name.strip(_QUOTES)
    if found := pattern.fullmatch(name):
        return found[3], _joined(module, found[1] or found[2])
    return name, module


def _joined(outer: str, inner: str) -> str:
    separator = "::" if "::" in outer + inner else "\\" if "\\" in outer + inner else "."
    return f"{outer}{separator}{inner}" if outer and inner else outer or inner
