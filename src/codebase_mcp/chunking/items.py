"""Which entries does a long literal have, and which branches a long switch?

The definition around a line of a table of 400 lines says little; its entry says what the line is
about. Reads the nodes of the syntax tree that have many lines, by their types, which most grammars
share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tree_sitter import Node

from codebase_mcp.chunking.syntax import Syntax
from codebase_mcp.model import FIELD_KINDS, ITEM, Symbol

# Shorter literals and switches are read as a whole.
_LONG_LINES = 60

# An entry of a single line is named by the line itself.
_ENTRY_LINES = 2

_LEAST_ENTRIES = 3

# A literal with more entries is a table of data.
_MAX_ENTRIES = 500

_NAME_CHARS = 60

# An entry is named by one of its first strings or names: by the first of them that tells most of
# the entries apart, as the path of a route does and its method does not.
_COLUMNS = 3
_TELLING_SHARE = 0.8
_MOST_NODES = 60

_LITERALS = frozenset(
    "argument_list arguments array array_creation_expression array_expression array_initializer"
    " array_literal collection_expression dictionary enum_body enum_variant_list enumerator_list"
    " field_initializer_list hash initializer_expression initializer_list keywords list"
    " list_literal literal_value map_content object set set_or_map_literal table_constructor tuple"
    " value_arguments".split()
)
_BRANCHES = frozenset(
    "case_clause case_item case_statement communication_case default_case default_statement"
    " expression_case match_arm match_conditional_expression match_default_expression in_clause"
    " stab_clause switch_block_statement_group switch_case switch_default switch_entry"
    " switch_expression_arm switch_rule switch_section switch_statement_case"
    " switch_statement_default type_case when when_entry".split()
)
# Their literals are data, or names already.
_DATA_LANGUAGES = frozenset({"json", "jsonc", "markdown", "rst", "toml", "yaml"})

# In Bash a "case_statement" is the whole of it.
_NO_BRANCHES = {"bash": frozenset({"case_statement"})}

# What a branch is for, by the names of fields.
_PATTERNS = "pattern value type condition communication left conditional_expressions".split()

_KEYS = ("key", "designator", "field")

# Entries whose field "name" is what they are called, as it is not in a call.
_NAMED = frozenset(
    "argument enum_assignment enum_constant enum_variant enumerator field field_initializer"
    " keyword_argument method_definition named_argument".split()
)
_NO_ENTRIES = re.compile(r"comment|declarations$|spread|splat|ERROR")
_STRING = re.compile(r"(?<!concatenated_)string(?:_literal)?$|^quoted_atom$")
_IDENTIFIER = re.compile(r"identifier$|^(?:name|constant|atom|simple_symbol|hash_key_symbol)$")
_MEMBER_KEYS = re.compile(
    r"^(?:property_identifier|field_identifier|field_designator|hash_key_symbol|keyword)$"
)
_DEFAULT = re.compile(rb"(?:default|else)\b")
_LEAD = re.compile(r"^(?:case|when|in)\b\s*")
# Python: r"…", Rust: b"…"
_PREFIX = re.compile(r"^[A-Za-z]{1,2}(?=[\"'])")
_MARKS = "\"'`:"


class _Label(NamedTuple):
    """What an entry is called, and the same as it continues a qualified name."""

    name: str
    suffix: str


class _Entry(NamedTuple):
    first_line: int
    minus_last_line: int
    label: _Label


def find_items(
    syntaxes: Iterable[Syntax], language: str, definitions: Iterable[Symbol]
) -> list[Symbol]:
    """The named entries of long literals, and the branches of long switches, by their lines.

    ``definitions`` are all of the text; an entry that is one itself is left out, unless it is a
    field.
    """
    if language in _DATA_LANGUAGES:
        return []
    entries = sorted({entry for syntax in syntaxes for entry in _entries(syntax, language)})
    items: list[Symbol] = []
    coming = sorted(definitions, key=_position, reverse=True) if entries else []
    enclosing: list[Symbol] = []
    for entry in entries:
        position = entry.first_line, entry.minus_last_line
        while coming and _position(coming[-1]) <= position:
            enclosing.append(coming.pop())
        enclosing = [symbol for symbol in enclosing if symbol.end_line >= entry.first_line]
        around = [symbol for symbol in enclosing if symbol.end_line >= -entry.minus_last_line]
        same = [symbol for symbol in around if _position(symbol) == position]
        if any(symbol.kind == ITEM or symbol.kind not in FIELD_KINDS for symbol in same):
            continue
        outer = max(
            (symbol for symbol in around if symbol not in same),
            key=lambda symbol: symbol.depth,
            default=None,
        )
        item = Symbol(
            entry.label.name,
            ((outer.qualified if outer else "") + entry.label.suffix).lstrip(" ."),
            ITEM,
            entry.first_line,
            -entry.minus_last_line,
            outer.depth + 1 if outer else 0,
        )
        items.append(item)
        enclosing.append(item)
    return items


def _position(symbol: Symbol) -> tuple[int, int]:
    return symbol.start_line, -symbol.end_line


def _entries(syntax: Syntax, language: str) -> Iterator[_Entry]:
    branches = _BRANCHES - _NO_BRANCHES.get(language, frozenset())
    work = [syntax.root]
    while work:
        node = work.pop()
        if _line_count(node) <= _LONG_LINES:
            continue
        children = node.named_children
        work += children
        if node.type in _LITERALS:
            yield from _of_literal(syntax, children)
        else:
            yield from _of_switch(syntax, [n for n in children if n.type in branches])


def _line_count(node: Node) -> int:
    return node.end_point[0] - node.start_point[0] + 1


def _of_literal(syntax: Syntax, children: Iterable[Node]) -> list[_Entry]:
    nodes = [
        child
        for child in children
        if _line_count(child) >= _ENTRY_LINES and not _NO_ENTRIES.search(child.type)
    ]
    if not _LEAST_ENTRIES <= len(nodes) <= _MAX_ENTRIES:
        return []
    labels = [_key(syntax, node) for node in nodes]
    if None in labels:
        rows = [_columns(syntax, node) for node in nodes]
        column = _telling(rows)
        labels = [
            label or row[column] or next(filter(None, row), None)
            for label, row in zip(labels, rows, strict=True)
        ]
    return _named(nodes, labels)


def _of_switch(syntax: Syntax, nodes: Sequence[Node]) -> list[_Entry]:
    nodes = [node for node in nodes if _line_count(node) >= _ENTRY_LINES]
    if not _LEAST_ENTRIES <= len(nodes) <= _MAX_ENTRIES:
        return []
    return _named(nodes, [_pattern(syntax, node) for node in nodes])


def _named(nodes: Iterable[Node], labels: Iterable[_Label | None]) -> list[_Entry]:
    entries = [
        _Entry(node.start_point[0] + 1, -node.end_point[0] - (node.end_point[1] > 0), label)
        for node, label in zip(nodes, labels, strict=True)
        if label is not None
    ]
    return entries if len(entries) >= _LEAST_ENTRIES else []


def _key(syntax: Syntax, node: Node) -> _Label | None:
    """The key of an entry, or the name of an argument or of a constant."""
    key = next(filter(None, (node.child_by_field_name(field) for field in _KEYS)), None)
    if key is None and node.type in _NAMED:
        name = node.child_by_field_name("name")
        return _label(syntax, name, is_member=True) if name else None
    if key is None:
        return None
    while key.named_child_count == 1 and not _STRING.search(key.type):
        key = key.named_children[0]
    return _label(syntax, key, is_member=_MEMBER_KEYS.match(key.type) is not None)


def _label(syntax: Syntax, node: Node, *, is_member: bool = False) -> _Label | None:
    text = _PREFIX.sub("", " ".join(syntax.text_of(node).split()))
    name = text.strip(_MARKS)[:_NAME_CHARS].strip()
    if not name:
        return None
    if _STRING.search(node.type):
        return _Label(name, f'["{name}"]')
    return _Label(name, f".{name}" if is_member else f"[{name}]")


def _columns(syntax: Syntax, node: Node) -> list[_Label | None]:
    """The first strings of an entry, then its first names; None where it has fewer."""
    strings: list[_Label | None] = []
    names: list[_Label | None] = []
    work = [node]
    for _ in range(_MOST_NODES):
        if not work or len(strings) == _COLUMNS:
            break
        part = work.pop()
        if _STRING.search(part.type):
            strings.append(_label(syntax, part))
        elif _IDENTIFIER.search(part.type):
            names.append(_label(syntax, part))
        else:
            work += reversed(part.named_children)
    strings += [None] * (_COLUMNS - len(strings))
    return [*strings, *names[:_COLUMNS], *[None] * (_COLUMNS - len(names))]


def _telling(rows: Sequence[Sequence[_Label | None]]) -> int:
    """The first column that tells most entries apart."""
    for column in range(2 * _COLUMNS):
        if len({row[column] for row in rows} - {None}) >= _TELLING_SHARE * len(rows):
            return column
    return 0


def _pattern(syntax: Syntax, node: Node) -> _Label | None:
    """What a branch is for."""
    if _DEFAULT.match(syntax.source, node.start_byte):
        return _Label("default", " default")
    parts = next(filter(None, (node.children_by_field_name(f) for f in _PATTERNS)), [])
    if not parts:
        parts = [part for part in node.named_children if part.type != "case_builtin"][:1]
    if not parts:
        return None
    source = syntax.source[parts[0].start_byte : parts[-1].end_byte].decode("utf-8", "replace")
    name = _LEAD.sub("", " ".join(source.split()))[:_NAME_CHARS].strip()
    if name in ("default", "else"):
        return _Label("default", " default")
    return _Label(name, f" case {name}") if name else None
