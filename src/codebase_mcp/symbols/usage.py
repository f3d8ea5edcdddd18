"""Where is a definition used for certain? A few places, for a search that shows the definition.

The cost is bounded: of a common name some files are looked at, and of a very common one none.
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
# the standard library and some hundred packages are used in one file, 90 % in at most six.
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

    ``more`` places are like them, ``in_tests`` are in tests if these are not. Several uses within
    one definition are one place. Without ``is_all`` other files may use it too.
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
        one
        for one in meaning({target.key}, resolved)
        if one.confidence >= SURE and not _is_within(one, target)
    ]
    calls = [one for one in certain if one.kind in CALLS]
    places = _places(in_order(calls or certain))
    in_code = [place for place, is_test in places if not is_test]
    shown = in_code or [place for place, _ in places]
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
    found = [
        one
        for one in definitions
        if (one.path, one.qualified) == (path, qualified)
        and one.start_line <= last
        and one.end_line >= first
    ]
    # Of several with one name, such as overloads, the one that begins there.
    return min(found, key=lambda one: (one.start_line < first, one.start_line), default=None)


def _may_count(use: Use, target: Definition) -> bool:
    """Whether it is a use from outside, or an import under another name, which may have some."""
    return bool(use.alias) or (use.kind in _KINDS and not _is_within(use, target))


def _is_within(one: Use | FoundUse, target: Definition) -> bool:
    """Whether the definition uses itself."""
    return one.path == target.path and target.start_line <= one.line <= target.end_line


def _places(uses: Sequence[FoundUse]) -> list[tuple[UsingPlace, bool]]:
    """The definitions that some uses are in, each once, and whether it is a test.

    The first of each file come first.
    """
    found: dict[tuple[str, str | None], tuple[UsingPlace, bool]] = {}
    for one in uses:
        around = one.resolved.enclosing
        name = around.qualified if around else None
        found.setdefault((one.path, name), (UsingPlace(one.path, one.line, name), one.is_test))
    seen: set[str] = set()
    first: list[tuple[UsingPlace, bool]] = []
    others: list[tuple[UsingPlace, bool]] = []
    for place, is_test in found.values():
        (others if place.path in seen else first).append((place, is_test))
        seen.add(place.path)
    return [*first, *others]
