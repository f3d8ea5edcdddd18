"""Parses a text, and finds definitions, comments and uses of names in its syntax tree.

The grammars come with the package ``semble_grammars``. One query per language in ``queries/`` finds
the definitions; ``symbols`` reads these captures:

- ``@name`` the name of a definition, and the node that is the definition under its kind
  (``@function``, ``@class``, …, see ``symbols.KINDS``);
- ``@extension`` a block that adds to a type defined elsewhere: it qualifies, but defines nothing;
- ``@receiver`` the type of a definition that is written outside of that type;
- ``@comment`` a comment or docstring; ``@lead`` another node that belongs to the code below it;
- ``@embedded.<language>`` text in another language; ``@keyword`` the argument of a predicate.

The queries in ``queries/references/`` find the uses of names; ``references`` reads these captures.
Both form a single query, so that the tree is walked once:

- a name under the kind of its use (``@call``, ``@import``, …, see ``model.ReferenceKind``); of
  several patterns for a name the first counts;
- ``@result`` the same as ``@type``; ``@declared`` in the same pattern is a function that returns
  this type; beside ``@type`` it is a name that is declared to have it, and beside ``@call`` or
  ``@new`` a name that gets the result;
- ``@alias`` what an import calls the name in this text;
- ``@from`` the module of every import within the node ``@statement``. One pattern for a list of
  names with the text after the list would take quadratic time;
- ``@part`` a name that is an import if it is within such a statement;
- ``@export`` the same, and a use if it is not within such a statement;
- ``@self`` what a method calls its own object, in the node ``@within``;
- ``@member`` what is read or written behind an object: a use, whatever the object;
- ``@key`` a field in an object that is made of the type ``@owner``, or of an unknown type;
- ``@case`` the value of a branch, which may be a member although it has no object;
- ``@read`` any other name: a use unless it is local;
- ``@holder`` the qualified name before a member: a use if its upper-case first letter makes it a
  type;
- ``@parameter`` the name of a type parameter: in its definition it hides a type of that name;
- ``@local`` the name of a parameter or variable: in its scope it hides outer definitions
  (see ``references``);
- ``@skip`` a name that is no use.

The only predicate is ``#one-of?``: the text of its capture equals a string. The predicates of
the binding (0.26) must not be used: they crash the process on a tree that was read through a
callback, as does a progress callback for the query.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby
from operator import attrgetter

from semble_grammars import GrammarLoadError, UnsupportedPlatformError, get_language
from tree_sitter import Language, Node, Parser, Point, Query, QueryCursor, Range

from codebase_mcp.chunking.grammars import in_environment
from codebase_mcp.errors import IndexingFailed

# Languages that use or extend the query of another language.
_QUERY_FILES: Mapping[str, tuple[str, ...]] = {
    "javascript": ("ecmascript", "javascript", "jsx"),
    "typescript": ("ecmascript", "typescript"),
    "tsx": ("ecmascript", "typescript", "jsx"),
    "cpp": ("cpp", "c"),
    "scss": ("css", "scss"),
    "jsonc": ("json",),
    "php_only": ("php",),
}

# Some grammars take quadratic time on a text with errors (a minute for 200 kB). The limit is about
# ten times what a slow grammar needs for a valid text; it is CPU time, so that the load of the
# machine does not change the result.
_BUDGET_S = 0.5
_BUDGET_S_PER_BYTE = 4e-6

# The parser calls back about every 170 bytes; reading the CPU time costs more than the call.
_CALLS_PER_CLOCK = 16

# The query takes quadratic time in the depth of the tree; real code is far less deep.
_MAX_DEPTH = 250

_TOKEN_RUN = 10_000

_ONE_OF = re.compile(r"\(#one-of\? @(\w+)((?:\s+\"[^\"]*\")+)\)")

# The scanners of some grammars write past a fixed-size buffer, and some parsers take quadratic time
# in a single step that cannot be interrupted. Found by feeding each grammar nested and repeated
# tokens. Each limit is well below what its grammar tolerates, and far above real code.

# About 250 nested blocks crash the process: in Markdown, where a tab may open two, and in YAML, by
# the indentation of a line or by the indicators in it.
_DEEP_MARKDOWN = re.compile(r"^(?:>|[-+*][ \t]|[0-9]{1,9}[.)][ \t]|[ \t]){120}", re.MULTILINE)
_YAML_INDENT = re.compile(r"[ \t?:-]{100}")
_YAML_INDICATOR = re.compile(r"[?:-](?=\s)")
# The length of a heredoc's word is kept in a byte.
_LONG_HEREDOC = re.compile(r"<<[~-]?[\"'`]?[^\s\"'`]{200}")
# Unclosed type arguments: 20,000 of them take twelve seconds.
_OPEN_TYPE_ARGUMENTS = re.compile(r"(?:<[^<>;{}()]{0,80}){300}")
_HAZARDS: Mapping[str, re.Pattern[str]] = {
    "csharp": _OPEN_TYPE_ARGUMENTS,
    "java": _OPEN_TYPE_ARGUMENTS,
    "markdown": _DEEP_MARKDOWN,
    "perl": _LONG_HEREDOC,
    "ruby": _LONG_HEREDOC,
}

# These scanners pass any character to C's isdigit() and similar functions, which index a table of
# 256 entries. A large code point reads invalid memory and may crash the process.
_ASCII_ONLY = frozenset({"bash", "cmake", "markdown", "perl"})
_NOT_ASCII = bytes(range(128)) + b"x" * 128

# After a syntax error this scanner reads uninitialised memory.
_RANDOM_AFTER_ERRORS = frozenset({"cmake"})

Match = tuple[int, Mapping[str, Sequence[Node]]]
"""The number of a pattern, and the nodes under the names of its captures."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """A parsed text: the root of its tree, its bytes, and the matches of the query.

    ``matches`` are those of definitions and comments, ``uses`` those of references.
    """

    root: Node
    source: bytes
    matches: Sequence[Match]
    uses: Sequence[Match] = ()

    def text_of(self, node: Node) -> str:
        """The text of a node."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Grammar:
    language: Language
    query: Query
    first_use: int
    """The first pattern of references."""
    allowed: Mapping[int, tuple[str, frozenset[str]]]
    """By pattern with ``#one-of?``: a capture, and the texts that its node may have."""


def _mask_unsafe(source: bytes, language: str) -> bytes:
    """The text with unsafe bytes replaced; every byte keeps its position."""
    return source.translate(_NOT_ASCII) if language in _ASCII_ONLY else source


def is_hazardous(text: str, language: str) -> bool:
    """Whether the text must not be passed to the grammar of this language."""
    if language == "yaml":
        return any(
            _YAML_INDENT.match(line) is not None or len(_YAML_INDICATOR.findall(line)) > 50
            for line in text.split("\n")
            if len(line) >= 100
        )
    hazard = _HAZARDS.get(language)
    return hazard is not None and hazard.search(text) is not None


def parse_embedded(outer: Syntax, nodes: Sequence[Node], language: str) -> Syntax | None:
    """The syntax of the parts of a text in another language; rows count from the whole text."""
    ranges = [Range(n.start_point, n.end_point, n.start_byte, n.end_byte) for n in nodes]
    return parse(outer.source, language, ranges)


def parse(source: bytes, language: str, ranges: Sequence[Range] = ()) -> Syntax | None:
    """The syntax of a text, or of ranges of it; None without a query or a reliable tree in time.

    Raises:
        IndexingFailed: the grammar cannot be loaded on this machine.
    """
    grammar = _grammar(language)
    if grammar is None:
        return None
    # A stopped parser would resume the old text when given the next, so parsers are not reused.
    parser = Parser(grammar.language)
    if ranges:
        parser.included_ranges = ranges
    root = _root_within_budget(parser, _mask_unsafe(source, language))
    if root is None or _has_long_token_run(root):
        return None
    if root.has_error and language in _RANDOM_AFTER_ERRORS:
        return None
    matches = list(_matches(grammar, root, source))
    return Syntax(
        root,
        source,
        [match for match in matches if match[0] < grammar.first_use],
        [match for match in matches if match[0] >= grammar.first_use],
    )


def _root_within_budget(parser: Parser, source: bytes) -> Node | None:
    view = memoryview(source)
    deadline = time.thread_time() + _BUDGET_S + _BUDGET_S_PER_BYTE * len(source)
    expired = False
    calls = 0

    def read(offset: int, _position: Point) -> memoryview:
        return view[offset:]

    def is_out_of_time(_offset: int, _has_error: bool) -> bool:
        nonlocal calls, expired
        calls += 1
        if calls % _CALLS_PER_CLOCK == 0:
            expired = time.thread_time() > deadline
        return expired

    try:
        return parser.parse(read, encoding="utf8", progress_callback=is_out_of_time).root_node
    except ValueError:
        if expired:
            return None
        raise


def _matches(grammar: _Grammar, root: Node, source: bytes) -> Iterator[Match]:
    """The matches whose captures have an allowed text.

    Predicates within a query are no way: those of our own leak the tree, and the library's crash
    on a text that was read in pieces.
    """
    cursor = QueryCursor(grammar.query)
    cursor.set_max_start_depth(_MAX_DEPTH)
    for pattern, captures in cursor.matches(root):
        rule = grammar.allowed.get(pattern)
        if rule is not None:
            node = captures[rule[0]][0]
            if source[node.start_byte : node.end_byte].decode("utf-8", "replace") not in rule[1]:
                continue
        yield pattern, captures


def _has_long_token_run(root: Node) -> bool:
    """Whether a node has thousands of anonymous tokens in a row.

    From each of them the query scans for the next named node: quadratic time, and it cannot be
    interrupted. Such runs come from texts that are not in the language at all.
    """
    work = [root] if root.descendant_count > _TOKEN_RUN else []
    while work:
        children = work.pop().children
        if len(children) > _TOKEN_RUN:
            by_kind = groupby(children, attrgetter("is_named"))
            runs = (sum(1 for _ in run) for is_named, run in by_kind if not is_named)
            if max(runs, default=0) > _TOKEN_RUN:
                return True
        work += [child for child in children if child.descendant_count > _TOKEN_RUN]
    return False


@cache
def _grammar(name: str) -> _Grammar | None:
    definitions = _query_source(name, "queries")
    if not definitions:
        return None
    references = _query_source(name, "queries/references")
    try:
        with in_environment():
            language = get_language(name)
    except (GrammarLoadError, UnsupportedPlatformError, RuntimeError) as error:
        raise IndexingFailed(
            f"The grammar for {name} cannot be loaded: {error}",
            hint="Set SEMBLE_GRAMMARS_CACHE_DIR to a writable directory",
        ) from error
    text = f"{definitions}\n{references}"
    query = Query(language, _ONE_OF.sub(lambda match: " " * len(match[0]), text))
    allowed = {
        pattern: (match[1], frozenset(re.findall(r'"([^"]*)"', match[2])))
        for pattern in range(query.pattern_count)
        if (match := _ONE_OF.search(text, *_range_of(query, pattern)))
    }
    first_use = Query(language, _ONE_OF.sub("", definitions)).pattern_count
    return _Grammar(language, query, first_use, allowed)


def _range_of(query: Query, pattern: int) -> tuple[int, int]:
    """Where a pattern is in the text of a query, which is ASCII."""
    return query.start_byte_for_pattern(pattern), query.end_byte_for_pattern(pattern)


def _query_source(name: str, folder: str) -> str:
    root = resources.files("codebase_mcp.chunking") / folder
    files = [root / f"{part}.scm" for part in _QUERY_FILES.get(name, (name,))]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
