"""Which names does a text use that may be defined elsewhere, and how?

Reads the captures of a query (see ``syntax``). The receiver before a name is read from the text, as
nearly all languages write it the same way.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from tree_sitter import Node

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

_Capture = tuple[int, str, Node, Node | None]
"""The number of the pattern, the capture, the node of the name, and that of an alias."""

_Range = tuple[int, int]
"""The first line or byte, and the end, which is not included."""

# How many definitions before a line are searched for the definition around it.
_NEAR = 100

_Statement = tuple[int, int, str]
"""First byte, end, and module of a statement that imports."""


@dataclass(frozen=True, slots=True)
class _Scopes:
    """The types of nodes that names are local to.

    Declarations in a node of ``hoisted`` are local to the function, not to the block. With
    ``ahead`` a name is also local above its declaration.
    """

    functions: frozenset[str]
    blocks: frozenset[str]
    hoisted: frozenset[str] = frozenset()
    ahead: bool = False


_ECMASCRIPT = _Scopes(
    frozenset({
        "function_declaration", "function_expression", "generator_function_declaration",
        "generator_function", "arrow_function", "method_definition", "function_type",
        "function_signature", "method_signature", "abstract_method_signature", "call_signature",
        "construct_signature", "constructor_type", "class_static_block",
    }),
    frozenset({
        "statement_block", "for_statement", "for_in_statement", "catch_clause", "switch_body",
    }),
    frozenset({"variable_declaration"}),
    ahead=True,
)  # fmt: skip
_C = _Scopes(
    frozenset({"function_definition", "lambda_expression"}),
    frozenset({"compound_statement", "for_statement", "for_range_loop", "catch_clause",
               "if_statement", "while_statement", "switch_statement"}),
)  # fmt: skip
_LANGUAGES: Mapping[str, _Scopes] = {
    "javascript": _ECMASCRIPT,
    "typescript": _ECMASCRIPT,
    "tsx": _ECMASCRIPT,
    "c": _C,
    "cpp": _C,
}


def find_references(
    syntaxes: Iterable[Syntax], language: str, symbols: Iterable[Symbol]
) -> tuple[Reference, ...]:
    """The uses of names, in the order of their lines.

    A bare name that is only passed on is nearly always a local variable. It counts if it has an
    upper-case first letter, or if the text itself defines or imports it. A member of the own object
    that is read counts if the text defines it. A type does not count within a definition that has a
    type parameter of its name, nor a bare name where a local name hides it.
    """
    symbols = sorted(symbols, key=attrgetter("start_line"))
    before = _BEFORE_NAME_OR_MEMBER if language in _ARROW_LANGUAGES else _BEFORE_NAME
    references: list[Reference] = []
    for syntax in syntaxes:
        captured = sorted(_captured(syntax).items())
        statements = _statements(syntax)
        imports = list(_imports(syntax, captured, statements, language))
        local_names = _LocalNames(syntax, language, _declared(captured, statements))
        declared = {symbol.name for symbol in symbols}
        declared.update(use.alias or use.name for use in imports)
        hidden = _hidden(syntax, captured, symbols)
        references += imports
        references += (
            use
            for use in _uses(syntax, captured, before, declared, local_names)
            if use.kind is not _TYPE or not _range_at(hidden.get(use.name, ()), use.line)
        )
    return tuple(sorted(references, key=itemgetter(0)))


def _hidden(
    syntax: Syntax, captured: Iterable[tuple[int, _Capture]], symbols: Sequence[Symbol]
) -> Mapping[str, list[_Range]]:
    """Where each type parameter hides a type of its name: in the innermost definition around it."""
    hidden: dict[str, list[_Range]] = defaultdict(list)
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


def _uses(
    syntax: Syntax,
    captured: Iterable[tuple[int, _Capture]],
    before: re.Pattern[str],
    declared: Collection[str],
    local_names: _LocalNames,
) -> Iterator[Reference]:
    """All uses except imports; of names that are only passed on, those that the text declares."""
    text = syntax.source.decode("latin-1")  # a character per byte, faster to slice than bytes
    size, backwards = len(text), text[::-1]
    own_objects = _own_objects(syntax)
    methods = sorted(filter(None, own_objects))
    for start, (_, capture, node, _) in captured:
        kind = _USE if capture in ("own", "holder") else _KINDS.get(capture)
        name = _utf8(text[start : node.end_byte])
        if kind is None or kind is _IMPORT or not 0 < len(name) <= _NAME_CHARS:
            continue
        if capture == "own" and name not in declared:
            continue
        if capture == "holder" and not name[0].isupper():
            continue
        prefix = before.match(backwards, size - start)
        if prefix and not _is_in_comment(syntax, backwards, start):
            receiver = _utf8(prefix[1][::-1]) if prefix[1] else UNNAMED
            own_object = own_objects.get(_range_at(methods, start))
            if receiver == own_object and backwards[prefix.end()] != ".":
                receiver = "self"
            if capture == "own" and receiver not in _OWN:
                continue
            yield Reference(node.start_point[0] + 1, name, kind, receiver)
        elif kind is _TYPE or (
            (kind is not _USE or name in declared or name[0].isupper())
            and not local_names.hide(name, start)
        ):
            yield Reference(node.start_point[0] + 1, name, kind)


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
            if not name or (capture == "part" and not module):
                continue
            if name == "self" and module:  # Rust: "use std::io::{self}"
                name, module = _split(module)
            local = syntax.text_of(alias)[:_NAME_CHARS] if alias else ""
            if language == "go" and not local and (match := _VERSIONED.search(f"{module}/{name}")):
                local = match[1]  # "ex.org/shop/v2" and "ex.org/shop.v2" are called shop
            line = node.start_point[0] + 1
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
        alias = captures.get("alias")
        for capture, nodes in captures.items():
            if capture in _NAMES:
                node = nodes[0]
                start = node.start_byte
                if start not in by_start or pattern < by_start[start][0]:
                    by_start[start] = (pattern, capture, node, alias[0] if alias else None)
    # The name of a definition is no use of it, except in an extension, which uses the type that it
    # adds to, and in "const a = require('a')", which is both.
    for _, captures in syntax.matches:
        if "extension" in captures:
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


def _own_objects(syntax: Syntax) -> dict[_Range | None, str]:
    """The names that methods give their own object, in languages without a fixed name for it."""
    return {
        (captures["within"][0].start_byte, captures["within"][0].end_byte): syntax.text_of(
            captures["self"][0]
        )
        for _, captures in syntax.uses
        if "within" in captures
    }


def _range_at(ranges: Sequence[_Range], position: int) -> _Range | None:
    """The last of the sorted ranges that begin at or before a position, if it contains it."""
    index = bisect_right(ranges, position, key=itemgetter(0)) - 1
    return ranges[index] if index >= 0 and position < ranges[index][1] else None


class _LocalNames:
    """Where local names hide outer names. Scopes are only computed for requested names."""

    def __init__(self, syntax: Syntax, language: str, declared: Iterable[Node]) -> None:
        self._root = syntax.root
        self._scopes = _LANGUAGES.get(language)
        self._declared: dict[str, list[Node]] = defaultdict(list)
        if self._scopes:
            for node in declared:
                self._declared[syntax.text_of(node)].append(node)
        self._ranges: dict[str, list[_Range]] = {}

    def hide(self, name: str, start: int) -> bool:
        """Whether a name at a position is within the scope of a local name like it."""
        if name not in self._declared:
            return False
        if name not in self._ranges:
            self._ranges[name] = self._ranges_of(self._declared[name])
        return _range_at(self._ranges[name], start) is not None

    def _ranges_of(self, declared: Iterable[Node]) -> list[_Range]:
        """Where a name is local, by position; a declaration within such a range adds nothing."""
        ranges: list[_Range] = []
        for node in declared:
            is_within = ranges and node.start_byte < ranges[-1][1]
            if not is_within and (scope := self._scope_of(node)):
                while ranges and ranges[-1][0] >= scope[0]:
                    ranges.pop()
                ranges.append(scope)
        return ranges

    def _scope_of(self, node: Node) -> _Range | None:
        """The innermost scope around a declaration, from the root down; ``parent`` is slower."""
        assert self._scopes
        function = scope = None
        around: Node | None = self._root
        while around is not None and around != node:
            kind = around.type
            if kind in self._scopes.functions:
                function = scope = around
            elif kind in self._scopes.blocks:
                scope = around
            elif kind in self._scopes.hoisted:
                scope = function
            around = around.child_with_descendant(node)
        if scope is None:
            return None
        first = scope if self._scopes.ahead else node
        return first.start_byte, scope.end_byte


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
