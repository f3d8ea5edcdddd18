"""Where does the name of a parameter or a local variable hide what is defined further out?

Only the tables below depend on a language.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from tree_sitter import Node

from codebase_mcp.chunking.syntax import Syntax
from codebase_mcp.values import grouped

Range = tuple[int, int]
"""The first line or byte, and the end, which is not included."""


@dataclass(frozen=True, slots=True)
class _Scopes:
    """The types of nodes that names are local to.

    Declarations in a node of ``hoisted`` are local to the function, not to the block. With
    ``ahead`` a name is also local above its declaration, in ``after`` only below it.
    """

    functions: frozenset[str]
    blocks: frozenset[str]
    hoisted: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
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
_PYTHON = _Scopes(frozenset({"function_definition", "lambda"}), frozenset(), ahead=True)
_GO = _Scopes(
    frozenset({"function_declaration", "method_declaration", "func_literal"}),
    frozenset({"block", "if_statement", "for_statement", "expression_switch_statement",
               "type_switch_statement", "expression_case", "default_case", "type_case",
               "communication_case"}),
    after=frozenset({"short_var_declaration", "var_spec", "const_spec", "range_clause"}),
)  # fmt: skip
_JAVA = _Scopes(
    frozenset({"method_declaration", "constructor_declaration", "lambda_expression",
               "compact_constructor_declaration"}),
    frozenset({"block", "constructor_body", "for_statement", "enhanced_for_statement",
               "try_with_resources_statement", "catch_clause", "switch_block_statement_group",
               "switch_rule"}),
)  # fmt: skip
_CSHARP = _Scopes(
    frozenset({"method_declaration", "constructor_declaration", "local_function_statement",
               "lambda_expression", "anonymous_method_expression", "indexer_declaration",
               "operator_declaration", "delegate_declaration"}),
    frozenset({"block", "for_statement", "foreach_statement", "catch_clause", "switch_section",
               "using_statement"}),
)  # fmt: skip
_LANGUAGES: Mapping[str, _Scopes] = {
    "python": _PYTHON,
    "go": _GO,
    "java": _JAVA,
    "csharp": _CSHARP,
    "javascript": _ECMASCRIPT,
    "typescript": _ECMASCRIPT,
    "tsx": _ECMASCRIPT,
    "c": _C,
    "cpp": _C,
}


class LocalNames:
    """Where local names hide outer names. Scopes are only computed for requested names."""

    def __init__(self, syntax: Syntax, language: str, declared: Iterable[Node]) -> None:
        self._root = syntax.root
        self._scopes = _LANGUAGES.get(language)
        nodes = declared if self._scopes else ()
        self._declared = grouped((syntax.text_of(node), node) for node in nodes)
        self._ranges: dict[str, list[Range]] = {}

    def __contains__(self, name: object) -> bool:
        """Whether a name is local anywhere."""
        return name in self._declared

    def hide(self, name: str, start: int) -> bool:
        """Whether a name at a position is within the scope of a local name like it."""
        if name not in self._declared:
            return False
        if name not in self._ranges:
            self._ranges[name] = self._ranges_of(self._declared[name])
        return range_at(self._ranges[name], start) is not None

    def _ranges_of(self, declared: Iterable[Node]) -> list[Range]:
        """Where a name is local, by position; a declaration within such a range adds nothing."""
        ranges: list[Range] = []
        for node in declared:
            is_within = ranges and node.start_byte < ranges[-1][1]
            if not is_within and (scope := self._scope_of(node)):
                while ranges and ranges[-1][0] >= scope[0]:
                    ranges.pop()
                ranges.append(scope)
        return ranges

    def _scope_of(self, node: Node) -> Range | None:
        """The innermost scope around a declaration, from the root down; ``parent`` is slower."""
        assert self._scopes
        function = scope = None
        start = node.start_byte
        around: Node | None = self._root
        while around is not None and around != node:
            kind = around.type
            if kind in self._scopes.functions:
                function = scope = around
            elif kind in self._scopes.blocks:
                scope = around
            elif kind in self._scopes.hoisted:
                scope = function
            elif kind in self._scopes.after:
                start = around.end_byte
            around = around.child_with_descendant(node)
        if scope is None:
            return None
        return scope.start_byte if self._scopes.ahead else start, scope.end_byte


def range_at(ranges: Sequence[Range], position: int) -> Range | None:
    """The last of the sorted ranges that begin at or before a position, if it contains it."""
    index = bisect_right(ranges, position, key=itemgetter(0)) - 1
    return ranges[index] if index >= 0 and position < ranges[index][1] else None
