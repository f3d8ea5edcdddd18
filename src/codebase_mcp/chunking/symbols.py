"""Which definitions does a syntax tree have, and by which names?

Reads the captures of a query (see ``syntax``). Only the tables below depend on a language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from codebase_mcp.chunking.syntax import Syntax
from codebase_mcp.model import FIELD_KINDS, Symbol

KINDS = FIELD_KINDS | frozenset(
    "class constant enum extension function interface key macro method module property section"
    " selector struct table trait type variable view".split()
)
"""The kinds of definitions, in all languages. An ``extension`` qualifies, but defines nothing."""

_TYPE_KINDS = frozenset({"class", "struct", "interface", "trait", "enum", "extension"})
_PROSE_KINDS = frozenset({"section", "key", "selector", "entry"})
_RECEIVERS_WITHOUT_NAME = frozenset({"module", "exports", "prototype", "this", "self", "window"})

# Languages in which several clauses in a row are a single definition.
_CLAUSE_LANGUAGES = frozenset({"elixir", "erlang", "haskell"})

# Languages in which some headings do not contain their section in the tree.
_HEADING_LANGUAGES = frozenset({"markdown", "rst"})

# Limits on names; a text that is not in the language may exceed them by far.
_NAME_CHARS = 200
_QUALIFIED_CHARS = 500
_PROSE_NAME_CHARS = 100

# A text with more entries is a table of data, or a lock file.
MAX_ENTRIES = 500

_SEPARATOR = re.compile(r"::|->|[.:\\]")
# C++: "operator==", "operator()", and the conversion "operator bool() const".
_OPERATOR = re.compile(r"\boperator\b(?: ?\(\)|[^(]*)")
# yesql, aiosql, sqlc: "-- name: GetUser :one"; HugSQL: "-- :name get-user".
_STATEMENT = re.compile(r"--\s*(?:name:|:name)\s+([\w.-]+)")
_WORD = re.compile(r"[\w.:\\']+")
# Type arguments in a name, or a tag in a heading.
_TAG = re.compile(r"<[^<>]*>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")

# start byte, minus end byte, name, receiver, kind, first and last row
_Definition = tuple[int, int, str, str, str, int, int]


def find_scopes(syntaxes: Sequence[Syntax], language: str, line_count: int) -> list[Symbol]:
    """Every definition and extension, by position, the outer before the inner."""
    scopes = _nested(sorted(definition for syntax in syntaxes for definition in _captured(syntax)))
    scopes = _without_repeated(scopes)
    if language in _CLAUSE_LANGUAGES:
        return _join_clauses(scopes)
    if language in _HEADING_LANGUAGES:
        return _extend_sections(scopes, line_count)
    if language == "sql" and (statements := _named_statements(syntaxes, line_count)):
        return sorted([*statements, *scopes], key=lambda scope: (scope.start_line, -scope.end_line))
    return scopes


def _captured(syntax: Syntax) -> list[_Definition]:
    """The definitions that the query captured; of several patterns for a name the first counts."""
    by_name: dict[int, tuple[int, _Definition]] = {}
    for pattern, captures in syntax.matches:
        names = captures.get("name")
        if names is None:
            continue
        name = names[0]
        text = syntax.text_of(name)[:_NAME_CHARS]
        # Where a name is missing, the parser inserts an empty name.
        if not text or text.isspace():
            continue
        if name.start_byte in by_name and by_name[name.start_byte][0] <= pattern:
            continue
        kind = next(capture for capture in captures if capture in KINDS)
        node = captures[kind][0]
        receivers = captures.get("receiver")
        by_name[name.start_byte] = (
            pattern,
            (
                node.start_byte,
                -node.end_byte,
                text,
                syntax.text_of(receivers[0]) if receivers else "",
                kind,
                node.start_point[0],
                node.end_point[0] - (node.end_point[1] == 0),
            ),
        )
    return [definition for _, definition in by_name.values()]


def _nested(definitions: Sequence[_Definition]) -> list[Symbol]:
    scopes: list[Symbol] = []
    enclosing: list[tuple[int, int, Symbol]] = []
    for start, minus_end, text, receiver, kind, first_row, last_row in definitions:
        # Of several names in a declaration, none is within another.
        while enclosing and (enclosing[-1][1] <= start or enclosing[-1][:2] == (start, -minus_end)):
            enclosing.pop()
        outer = _outer([symbol for _, _, symbol in enclosing], kind)
        if kind == "attribute" and outer is None:
            continue
        # Ruby: "attr_reader :name", "@name = 1"
        parts = _name_parts(text.lstrip(":@") if kind in FIELD_KINDS else text, kind)
        if receiver:
            owner = _name_parts(receiver, "")
            parts = [part for part in owner if part not in _RECEIVERS_WITHOUT_NAME] + parts
        qualified = ".".join(parts if outer is None else [outer.qualified, *parts])
        scope = Symbol(
            name=parts[-1],
            qualified=qualified[-_QUALIFIED_CHARS:],
            kind=_refined_kind(kind, parts, outer),
            start_line=first_row + 1,
            end_line=max(first_row, last_row) + 1,
            depth=len(enclosing) + len(parts) - 1,
        )
        scopes.append(scope)
        if kind not in FIELD_KINDS or kind == "entry":
            enclosing.append((start, -minus_end, scope))
    return scopes


def _outer(enclosing: Sequence[Symbol], kind: str) -> Symbol | None:
    """The definition that the qualified name of a definition of this kind begins with."""
    if kind == "attribute":
        return next((symbol for symbol in reversed(enclosing) if symbol.kind in _TYPE_KINDS), None)
    if kind == "field" and [symbol.kind for symbol in enclosing[-1:]] == ["method"]:
        enclosing = enclosing[:-1]  # a parameter of the constructor
    # A selector is not part of a qualified name.
    return enclosing[-1] if enclosing and kind != "selector" else None


def _refined_kind(kind: str, parts: Sequence[str], outer: Symbol | None) -> str:
    """A function of a type is a method, a variable in capitals a constant."""
    if kind == "function" and outer is not None and outer.kind in _TYPE_KINDS:
        return "method"
    if kind == "variable" and len(parts[-1]) > 1 and parts[-1].isupper():
        return "constant"
    return kind


def _name_parts(text: str, kind: str) -> list[str]:
    """The components of a name as written: ``A::B``, ``A.B`` and ``A\\B`` have two."""
    if text.isidentifier():
        return [text]
    text = " ".join(text.split())
    if kind in _PROSE_KINDS:
        return [_prose_name(text)]
    if kind == "extension" and (word := _WORD.search(text)):
        # An instance of a Haskell class may be for "(Maybe a)" or "[a]".
        text = word[0]
    if operator := _OPERATOR.search(text):
        owner = text[: operator.start()].removesuffix("::")
        return [*(_name_parts(owner, kind) if owner else ()), operator[0].rstrip()]
    while (bare := _TAG.sub("", text)) and bare != text:
        text = bare
    parts = [part.strip("\"'`[] ") for part in _SEPARATOR.split(text)]
    return parts if all(parts) else [text]


def _prose_name(text: str) -> str:
    """A heading, key or selector without markup, at most a line long."""
    bare = _LINK.sub(r"\1", _TAG.sub("", text)).replace("`", "").strip("#=\"' ")
    return (bare or text)[:_PROSE_NAME_CHARS]


def _without_repeated(scopes: Sequence[Symbol]) -> list[Symbol]:
    """Without further assignments to an attribute, and without the entries of a table of data."""
    counts = Counter(scope.kind for scope in scopes)
    if not (counts["attribute"] or counts["entry"]):
        return list(scopes)
    named = {scope.qualified for scope in scopes if scope.kind not in ("attribute", "entry")}
    kept = []
    for scope in scopes:
        if scope.kind in ("attribute", "entry"):
            if scope.qualified in named or counts[scope.kind] > MAX_ENTRIES:
                continue
            named.add(scope.qualified)
        kept.append(scope)
    return kept


def _join_clauses(scopes: Sequence[Symbol]) -> list[Symbol]:
    """The scopes, with a single scope for consecutive clauses of the same name."""
    joined: list[Symbol] = []
    last_at_depth: dict[int, int] = {}
    for scope in scopes:
        index = last_at_depth.get(scope.depth)
        first = joined[index] if index is not None else None
        if first is not None and (first.qualified, first.kind) == (scope.qualified, scope.kind):
            joined[index or 0] = replace(first, end_line=scope.end_line)
        else:
            last_at_depth[scope.depth] = len(joined)
            joined.append(scope)
    return joined


def _named_statements(syntaxes: Iterable[Syntax], line_count: int) -> list[Symbol]:
    """The statements that a comment names, each up to the next."""
    names = {
        node.start_point[0] + 1: match[1]
        for syntax in syntaxes
        for _, captures in syntax.matches
        for node in captures.get("comment", ())
        if (match := _STATEMENT.match(syntax.text_of(node)))
    }
    statements = [
        Symbol(name, name, "section", first, first, depth=0)
        for first, name in sorted(names.items())
    ]
    return _extend_sections(statements, line_count)


def _extend_sections(scopes: Sequence[Symbol], line_count: int) -> list[Symbol]:
    """The sections, each extended up to the next heading."""
    starts = [scope.start_line for scope in scopes] + [line_count + 1]
    return [
        replace(scope, end_line=max(scope.end_line, next_start - 1))
        for scope, next_start in zip(scopes, starts[1:], strict=True)
    ]
