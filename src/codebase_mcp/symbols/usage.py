"""A few certain uses of a definition, for a search that shows it.

The cost is bounded: of a common name some files are read, of a very common name none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.definition import CALLS, Definition, Use
from codebase_mcp.symbols.lookup import name_parts, resolve_loaded
from codebase_mcp.symbols.references import FoundUse, in_order, meaning
from codebase_mcp.symbols.resolve import SURE
from codebase_mcp.symbols.storage import load_names

# Of names that more definitions have, few uses are certain.
MAX_DEFINITIONS = 20
# Of names that more files use, this many files are looked at. Half of the names that are defined in
# the standard library and some hundred packages are used in a single file, 90 % in at most six.
MAX_FILES = 20
PLACES = 2

_KINDS = frozenset(ReferenceKind) - {ReferenceKind.IMPORT}


@dataclass(frozen=True, slots=True)
class UsingPlace:
    """A line that uses a definition, and the definition around that line."""

    path: str
    line: int
    symbol: str | None


@dataclass(frozen=True, slots=True)
class Usage:
    """The first places that use a definition, those in code if there are any.

    ``more`` counts further places of that kind, ``in_tests`` places in tests. Several uses within a
    definition count as one place. Without ``is_all`` further files may use it.
    """

    is_called: bool
    places: tuple[UsingPlace, ...]
    more: int
    in_tests: int
    is_all: bool


async def usage_of(
    tx: Transaction, snapshot_id: int, path: str, qualified: str, lines: tuple[int, int]
) -> Usage | None:
    """The usage of the definition of this name that lies at some lines of a file.

    Only certain uses count, calls if there are any. None: nothing is certain.
    """
    definitions, uses = await load_names(
        tx,
        name_parts(qualified)[-1:],
        [snapshot_id],
        most_definitions=MAX_DEFINITIONS + 1,
        most_files=MAX_FILES + 1,
    )
    target = _defined_at(definitions, path, qualified, lines)
    if target is None or len(definitions) > MAX_DEFINITIONS:
        return None
    if not any(_may_count(use, target) for _, use in uses):
        return None
    resolved = await resolve_loaded(tx, definitions, uses, [snapshot_id], _KINDS)
    certain = [
        use
        for use in meaning({target.key}, resolved)
        if use.confidence >= SURE and not _is_within(use, target)
    ]
    calls = [use for use in certain if use.kind in CALLS]
    places = _places(in_order(calls or certain))
    in_code = [site for site, is_test in places if not is_test]
    shown = in_code or [site for site, _ in places]
    if not shown:
        return None
    return Usage(
        bool(calls),
        tuple(shown[:PLACES]),
        max(len(shown) - PLACES, 0),
        len(places) - len(shown),
        len({use.path for _, use in uses}) <= MAX_FILES,
    )


def _defined_at(
    definitions: Iterable[Definition], path: str, qualified: str, lines: tuple[int, int]
) -> Definition | None:
    first, last = lines
    overloads = [
        definition
        for definition in definitions
        if (definition.path, definition.qualified) == (path, qualified)
        and definition.start_line <= last
        and definition.end_line >= first
    ]
    # Of overloads, the definition that begins on this line.
    return min(
        overloads,
        key=lambda definition: (definition.start_line < first, definition.start_line),
        default=None,
    )


def _may_count(use: Use, target: Definition) -> bool:
    """Whether it is a use from outside, or an import under another name, which may have some."""
    return bool(use.alias) or (use.kind in _KINDS and not _is_within(use, target))


def _is_within(use: Use | FoundUse, target: Definition) -> bool:
    """Whether the definition uses itself."""
    return use.path == target.path and target.start_line <= use.line <= target.end_line


def _places(uses: Sequence[FoundUse]) -> list[tuple[UsingPlace, bool]]:
    """The definitions that some uses are in, each once, and whether it is a test.

    The first of each file come first.
    """
    by_definition: dict[tuple[str, str | None], tuple[UsingPlace, bool]] = {}
    for use in uses:
        around = use.resolved.enclosing
        name = around.qualified if around else None
        by_definition.setdefault(
            (use.path, name), (UsingPlace(use.path, use.line, name), use.is_test)
        )
    seen: set[str] = set()
    first: list[tuple[UsingPlace, bool]] = []
    others: list[tuple[UsingPlace, bool]] = []
    for site, is_test in by_definition.values():
        (others if site.path in seen else first).append((site, is_test))
        seen.add(site.path)
    return [*first, *others]
