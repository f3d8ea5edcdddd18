"""Where a local name hides what is defined further out: parameters and variables of a function.

Reads the captures ``@local`` of a query (see ``syntax``). A name of the whole file hides nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from tree_sitter import Node

from codebase_mcp.chunking.syntax import Syntax


@dataclass(frozen=True, slots=True)
class _Scopes:
    """The types of nodes that names are local to.

    What is declared in a node of ``hoisted`` is local to the function, not to the block. ``ahead``
    tells whether a name is local above its declaration too.
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


class LocalNames:
    """Which uses of a name mean a local one? Scopes are looked for when a name is asked for."""

    def __init__(self, syntax: Syntax, language: str, declared: Iterable[Node]) -> None:
        self._root = syntax.root
        self._scopes = _LANGUAGES.get(language)
        self._declared: dict[str, list[Node]] = defaultdict(list)
        if self._scopes:
            for node in declared:
                self._declared[syntax.text_of(node)].append(node)
        self._ranges: dict[str, list[tuple[int, int]]] = {}

    def hide(self, name: str, start: int) -> bool:
        """Whether a name at a position is within the scope of a local one."""
        if name not in self._declared:
            return False
        if name not in self._ranges:
            self._ranges[name] = self._ranges_of(self._declared[name])
        ranges = self._ranges[name]
        at = bisect_right(ranges, start, key=itemgetter(0)) - 1
        return at >= 0 and start < ranges[at][1]

    def _ranges_of(self, declared: Iterable[Node]) -> list[tuple[int, int]]:
        """Where a name is local, by position; a declaration within such a range adds nothing."""
        ranges: list[tuple[int, int]] = []
        for node in declared:
            is_within = ranges and node.start_byte < ranges[-1][1]
            if not is_within and (found := self._scope_of(node)):
                while ranges and ranges[-1][0] >= found[0]:
                    ranges.pop()
                ranges.append(found)
        return ranges

    def _scope_of(self, node: Node) -> tuple[int, int] | None:
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
