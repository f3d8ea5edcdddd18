"""Which names does a text use that may be defined elsewhere, and how?

Reads the captures of a query (see ``syntax``). The receiver before a name is read from the text, as
nearly all languages write it the same way.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter

from tree_sitter import Node

from codebase_mcp.chunking.local_names import LocalNames, Range, range_at
from codebase_mcp.chunking.syntax import Syntax
from codebase_mcp.model import FIELD_KINDS, Reference, ReferenceKind, Symbol

UNNAMED = "?"
"""The receiver if it is an expression without a name: a literal, a call with arguments."""

_KINDS: Mapping[str, ReferenceKind] = {kind.value: kind for kind in ReferenceKind}
_IMPORTED = frozenset({"import", "part", "export"})
_NAMES = frozenset(
    {
        *_KINDS, *_IMPORTED, "result", "member", "key", "case", "read", "holder", "parameter",
        "local", "skip",
    }
)  # fmt: skip
_IMPORT, _TYPE, _USE = ReferenceKind.IMPORT, ReferenceKind.TYPE, ReferenceKind.USE
_OWN = frozenset({"self", "this"})
_MEMBERS = frozenset({"member", "key"})
_READ_AS: Mapping[str, ReferenceKind] = {
    **{kind: use for kind, use in _KINDS.items() if use is not _IMPORT},
    "result": _TYPE,
    **dict.fromkeys((*_MEMBERS, "case", "read", "holder"), _USE),
}
_DECLARING = frozenset({"type", "result", "call", "new"})
_FIELD_PATTERNS = frozenset({"shorthand_property_identifier_pattern", "property_identifier"})

# Languages in which a field is read by its name alone in a method.
_BARE_FIELDS = frozenset({"java", "csharp", "cpp"})
# Languages in which a name of another file is read without an import, whatever its first letter.
_SEEN_FROM_AFAR = frozenset({"go", "java"})
# Python: what takes the fields of its first argument's class as keywords.
_COPIES = frozenset({"replace", "_replace", "evolve"})

# Limits on names; a text that is not in the language may exceed them by far.
_NAME_CHARS = 200
_MODULE_CHARS = 200

# The receiver before a name, read backwards: "self.", "super().", "Vec::<u8>::". Two dots are a
# range or a spread argument. An arrow ("pointer->member") is a separator in some languages; in
# the remaining languages it precedes a type or a result.
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

# These captures count only where no other pattern has one.
_WEAK = frozenset({"member", "read"})
_LAST = 1_000

_Capture = tuple[int, str, Node, Node | None]
"""The rank of the pattern, the capture, the node of the name, and that of another name:
of an alias, of an owner, or of what is declared."""

# How many definitions before a line are searched for the definition around it.
_NEAR = 100

_Statement = tuple[int, int, str]
"""First byte, end, and module of a statement that imports."""


def find_references(
    syntaxes: Iterable[Syntax], language: str, symbols: Iterable[Symbol]
) -> tuple[Reference, ...]:
    """The uses of names, in the order of their lines.

    A bare name that is only read is nearly always a local variable. It counts if it has an
    upper-case first letter, or if the text itself defines or imports it. A type does not count
    within a definition that has a type parameter of its name, nor a bare name where a local name
    hides it.
    """
    symbols = sorted(symbols, key=attrgetter("start_line"))
    outer = [symbol for symbol in symbols if symbol.kind not in FIELD_KINDS]
    declared = {symbol.name for symbol in symbols if _is_bare(symbol.kind, language)}
    references: list[Reference] = []
    for syntax in syntaxes:
        captured = sorted(_captured(syntax).items())
        statements = _statements(syntax)
        imports = list(_imports(syntax, captured, statements, language))
        local = list(_declared(captured, statements))
        imported = {use.alias or use.name for use in imports if use.kind is _IMPORT}
        hidden = _hidden(syntax, captured, outer)
        reader = _Reader(
            syntax,
            language,
            declared | imported,
            # In Go only packages are imported.
            frozenset(imported if language == "go" else ()),
            LocalNames(syntax, language, local),
        )
        references += imports
        references += (
            use
            for use in reader.uses(captured)
            if use.kind is not _TYPE or not range_at(hidden.get(use.name, ()), use.line)
        )
        references += _of_objects(syntax, captured, local)
    attributes = {(s.start_line, s.name) for s in symbols if s.kind == "attribute"}
    return tuple(
        use
        for use in sorted(references, key=itemgetter(0))
        if use.receiver not in _OWN or use[:2] not in attributes
    )


def _is_bare(kind: str, language: str) -> bool:
    """Whether definitions of a kind are read by their name alone."""
    if kind == "field":
        return language in _BARE_FIELDS
    return kind not in FIELD_KINDS or kind == "enumerator"


def _of_objects(
    syntax: Syntax, captured: Iterable[tuple[int, _Capture]], local: Iterable[Node]
) -> Iterator[Reference]:
    """The fields that stand for a variable of their name.

    A pattern takes them from an object (``const {name} = shop``), or makes an object of them.
    """
    made = (node for _, (_, _, node, _) in captured if node.type == "shorthand_property_identifier")
    for node in (*made, *(node for node in local if node.type in _FIELD_PATTERNS)):
        name = syntax.text_of(node)[:_NAME_CHARS]
        yield Reference(node.start_point[0] + 1, name, _USE, UNNAMED)


def _hidden(
    syntax: Syntax, captured: Iterable[tuple[int, _Capture]], symbols: Sequence[Symbol]
) -> Mapping[str, list[Range]]:
    """Where each type parameter hides a type of its name: in the innermost definition around it."""
    hidden: dict[str, list[Range]] = defaultdict(list)
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
        end = around.end_line + 1
        if lines and around.start_line < lines[-1][1]:
            lines[-1] = (lines[-1][0], max(lines[-1][1], end))
        else:
            lines.append((around.start_line, end))
    return hidden


class _Reader:
    """Reads all uses of a text except imports."""

    def __init__(
        self,
        syntax: Syntax,
        language: str,
        declared: Collection[str],
        packages: Collection[str],
        local_names: LocalNames,
    ) -> None:
        self._syntax = syntax
        self._language = language
        self._before = _BEFORE_NAME_OR_MEMBER if language in _ARROW_LANGUAGES else _BEFORE_NAME
        self._declared = declared
        self._packages = packages
        self._local_names = local_names
        self._own_objects = _own_objects(syntax)
        self._methods = sorted(filter(None, self._own_objects))

    def uses(self, captured: Iterable[tuple[int, _Capture]]) -> Iterator[Reference]:
        """The uses; of bare names that are only read, those that may be defined elsewhere."""
        text = self._syntax.source.decode("latin-1")  # a character per byte, faster to slice
        size, backwards = len(text), text[::-1]
        for start, (_, capture, node, other) in captured:
            kind = _READ_AS.get(capture)
            if kind is None:
                continue
            name = _utf8(text[start : node.end_byte])
            if not 0 < len(name) <= _NAME_CHARS:
                continue
            if capture == "read" and not self._may_be_outer(name):  # most are local variables
                continue
            if capture == "holder" and not name[0].isupper():
                continue
            receiver = self._owner(other) if capture == "key" else ""
            if capture == "case":
                receiver = UNNAMED
            prefix = None if receiver else self._before.match(backwards, size - start)
            if prefix and not _is_in_comment(self._syntax, backwards, start):
                if capture == "read":
                    continue
                receiver = _utf8(prefix[1][::-1]) if prefix[1] else UNNAMED
                if self._methods and receiver == self._own_object(start):
                    receiver = receiver if backwards[prefix.end()] == "." else "self"
            if receiver or (capture not in _MEMBERS and self._is_outer(name, kind, start)):
                declared = self._declared_as(capture, other) if capture in _DECLARING else ""
                yield Reference(node.start_point[0] + 1, name, kind, receiver, "", declared)

    def _declared_as(self, capture: str, node: Node | None) -> str:
        """What a type is the declared type of: ``name``, ``name()``, or ``.name`` of an object.

        ``name=`` of a call is what gets its result.
        """
        if node is None:
            return ""
        name = self._syntax.text_of(node)[:_NAME_CHARS].lstrip("$")
        if capture == "result":
            return f"{name}()"
        if capture != "type":
            name += "="
        is_attribute = self._syntax.source[node.start_byte - 1 : node.start_byte] == b"."
        return f".{name}" if is_attribute else name

    def _own_object(self, start: int) -> str | None:
        """What the method around a position calls its own object, if it has a name for it."""
        return self._own_objects.get(range_at(self._methods, start))

    def _is_outer(self, name: str, kind: ReferenceKind, start: int) -> bool:
        """Whether a bare name may be defined outside of the scopes around it."""
        if kind is _TYPE or (kind is ReferenceKind.CALL and self._language == "java"):
            return True  # no variable hides these
        if kind is _USE and not self._may_be_outer(name):
            return False
        return not self._local_names.hide(name, start)

    def _may_be_outer(self, name: str) -> bool:
        """Whether a bare name that is read may be defined elsewhere, by the name alone."""
        if name in self._packages:
            return False
        if name in self._declared or name[0].isupper():
            return True
        # Scopes of all local variables would take a third of the time.
        return self._language in _SEEN_FROM_AFAR and name not in self._local_names

    def _owner(self, node: Node | None) -> str:
        """The type of the object that a key belongs to; empty if there is no such object."""
        if node is None:
            return UNNAMED
        owner = self._syntax.text_of(node)
        if self._language != "python" or owner == "cls" or owner[:1].isupper():
            return owner
        return UNNAMED if owner in _COPIES else ""


def _is_in_comment(syntax: Syntax, backwards: str, start: int) -> bool:
    """Whether the full stop of a comment above a name was mistaken for a separator."""
    size = len(backwards)
    gap = _GAP.match(backwards, size - start)
    if gap is None or "\n" not in gap[0]:
        return False
    position = size - gap.end() - 1
    node = syntax.root.descendant_for_byte_range(position, position + 1)
    return node is not None and "comment" in node.type


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace")


def _imports(
    syntax: Syntax,
    captured: Iterable[tuple[int, _Capture]],
    statements: Sequence[_Statement],
    language: str,
) -> Iterator[Reference]:
    modules = _Modules(statements, _PATH_SEPARATORS.get(language, "."))
    for start, (_, capture, node, alias) in captured:
        text = _path(syntax, node)[-_NAME_CHARS:] if capture in _IMPORTED else ""
        if text:
            name, path = _split(text)
            module = path if text[0] in _QUOTES else modules.around(start, path)
            line = node.start_point[0] + 1
            if name and capture == "export" and not module:
                yield Reference(line, name, _USE)
            if not name or (capture in ("part", "export") and not module):
                continue
            if name == "self" and module:  # Rust: "use std::io::{self}"
                name, module = _split(module)
            local = syntax.text_of(alias)[:_NAME_CHARS] if alias else ""
            if language == "go" and not local and (match := _VERSIONED.search(f"{module}/{name}")):
                local = match[1]  # "ex.org/shop/v2" and "ex.org/shop.v2" are called shop
            yield Reference(line, name, _IMPORT, "", module[-_MODULE_CHARS:], local)


def _declared(
    captured: Iterable[tuple[int, _Capture]], statements: Sequence[_Statement]
) -> Iterator[Node]:
    """The declarations of local names, also in parts of a pattern that imports nothing."""
    modules = _Modules(statements, "")
    for start, (_, capture, node, _) in captured:
        if capture in ("local", "part") and not modules.around(start, ""):
            yield node


def _path(syntax: Syntax, node: Node) -> str:
    """A name with its qualifiers: in Scala "a.b.C" is three nodes."""
    start = node.start_byte
    text = syntax.text_of(node)
    if syntax.source[start - 1 : start] != b".":
        return text
    prefix = _PREFIX.search(syntax.source, max(0, start - _MODULE_CHARS), start)
    return prefix[0].decode("utf-8", "replace") + text if prefix else text


def _captured(syntax: Syntax) -> dict[int, _Capture]:
    """The captures of the query, by the position of the name."""
    by_start: dict[int, _Capture] = {}
    for pattern, captures in syntax.uses:
        alias = captures.get("alias") or captures.get("owner") or captures.get("declared")
        for capture, nodes in captures.items():
            if capture in _NAMES:
                node = nodes[0]
                start = node.start_byte
                is_weak = capture in _WEAK or (capture == "key" and alias is None)
                rank = pattern + _LAST if is_weak else pattern
                if start not in by_start or rank < by_start[start][0]:
                    by_start[start] = (rank, capture, node, alias[0] if alias else None)
    # The name of a definition is no use of it, except in an extension, which uses the type that it
    # adds to, in "const a = require('a')", which is both, and in assignments to an attribute, of
    # which only the first defines it.
    for _, captures in syntax.matches:
        if "extension" in captures or "attribute" in captures:
            continue
        for node in captures.get("name", ()):
            if node.start_byte in by_start and by_start[node.start_byte][1] != "import":
                del by_start[node.start_byte]
    return by_start


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
        """The modules of the statements around a position, from the outside in, and a path."""
        while self._coming and self._coming[-1][0] <= start:
            self._open.append(self._coming.pop())
        self._open = [statement for statement in self._open if statement[1] > start]
        parts = [*(module for _, _, module in self._open), path]
        return self._separator.join(part for part in parts if part)


def _own_objects(syntax: Syntax) -> dict[Range | None, str]:
    """The names that methods give their own object, in languages without a fixed name for it."""
    return {
        (captures["within"][0].start_byte, captures["within"][0].end_byte): syntax.text_of(
            captures["self"][0]
        )
        for _, captures in syntax.uses
        if "within" in captures
    }


def _split(name: str) -> tuple[str, str]:
    """The last part of an imported name, and the parts before it."""
    if name in _WILDCARDS:
        return "*", ""
    if name[0] in _QUOTES:
        folder, _, last = name.strip(_QUOTES).rpartition("/")
        return last, folder
    if parts := _QUALIFIED.fullmatch(name):
        return "*" if parts[3] in _WILDCARDS else parts[3], parts[1] or parts[2]
    return name, ""
