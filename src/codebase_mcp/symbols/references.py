"""Where is a definition used, and how sure is that?

`usage_of` gives a search that shows a definition a few certain uses. Its cost is bounded: of a
common name some files are read, of a very common name none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.candidates import BY_NAME, LEAST, LIKELY, SURE
from codebase_mcp.symbols.definition import (
    CALLS,
    Definition,
    DefinitionKey,
    File,
    FoundUse,
    ResolvedUse,
    Use,
)
from codebase_mcp.symbols.languages import language_of
from codebase_mcp.symbols.lookup import (
    name_parts,
    named,
    not_defined,
    resolve_loaded,
    resolve_names,
)
from codebase_mcp.symbols.storage import aside, load_names

_UNDEFINED = "not defined here, by its name alone"

# Of names that more definitions have, few uses are certain.
MAX_DEFINITIONS = 20
# Of names that more files use, this many files are looked at. Half of the names that are defined in
# the standard library and some hundred packages are used in a single file, 90 % in at most six.
MAX_FILES = 20
PLACES = 2

_COUNTED = frozenset(ReferenceKind) - {ReferenceKind.IMPORT}


@dataclass(frozen=True, slots=True)
class References:
    """The uses of some definitions: those of the product first, grouped by file.

    Uses that are only possible come last.

    ``unlikely`` uses of the name mean something else. ``unresolved`` uses may: their import or the
    type of their object is unknown. ``kinds`` counts ``uses`` by kind. ``elsewhere`` counts the
    uses in files that are not asked about.
    """

    definitions: tuple[Definition, ...]
    uses: tuple[FoundUse, ...]
    unlikely: int
    unresolved: int
    kinds: Mapping[ReferenceKind, int]
    elsewhere: int = 0


async def references_to(
    tx: Transaction,
    name: str,
    snapshot_ids: Sequence[int],
    *,
    only: Collection[Definition] = (),
    is_asked: Callable[[File], bool] = lambda _: True,
) -> References:
    """The uses in some files of what a name means, or of some definitions of this name.

    Raises:
        NotFound: nothing defines or uses the name.
    """
    parts = name_parts(name)
    definitions, uses = await resolve_names(tx, parts[-1:], snapshot_ids)
    targets = list(only) or named(definitions, parts)
    if targets and all(target.name != parts[-1] for target in targets):  # written in another case
        written = list(dict.fromkeys(target.name for target in targets))
        definitions, uses = await resolve_names(tx, written, snapshot_ids)
    if not targets and (len(parts) > 1 or not uses):
        raise await not_defined(tx, name, definitions, snapshot_ids)
    return await aside(len(uses), _references, targets, uses, is_asked)


def _references(
    targets: Sequence[Definition], uses: Sequence[ResolvedUse], is_asked: Callable[[File], bool]
) -> References:
    if targets:
        meanings = meaning({target.key for target in targets}, uses)
    else:
        meanings = [FoundUse(use.use, use.around, None, BY_NAME, _UNDEFINED) for use in uses]
    asked = {use.use.file: is_asked(use.use.file) for use in uses}
    there = [match for match in meanings if asked[match.use.file]]
    likely = in_order([match for match in there if match.confidence >= LEAST])
    uses = [use for use in uses if asked[use.use.file]]
    unresolved = _count_unresolved(targets, uses, len(there) - len(likely))
    return References(
        tuple(targets),
        tuple(likely),
        len(uses) - len(likely) - unresolved,
        unresolved,
        Counter(match.use.kind for match in likely),
        sum(not asked[match.use.file] and match.confidence >= LEAST for match in meanings),
    )


@dataclass(frozen=True, slots=True)
class Uses:
    """The uses of each of some definitions, and how many more of their names are unresolved.

    ``elsewhere`` counts the uses in files that are not asked about.
    """

    of: Mapping[DefinitionKey, Sequence[FoundUse]]
    unresolved: int
    elsewhere: int = 0


async def uses_of(
    tx: Transaction,
    targets: Sequence[Definition],
    snapshot_ids: Sequence[int],
    kinds: Collection[ReferenceKind],
    *,
    least: float = LEAST,
    most_uses: int | None = None,
    is_asked: Callable[[File], bool] = lambda _: True,
) -> Uses:
    """The uses of several definitions at once, in some ways and files, by the definition's key.

    Uses less sure than ``least`` count as unresolved. Names with more than ``most_uses`` uses are
    left out.
    """
    names = list(dict.fromkeys(target.name for target in targets))
    _, uses = await resolve_names(tx, names, snapshot_ids, kinds, most_uses=most_uses)
    return await aside(len(uses), _of_each, targets, uses, least, is_asked)


def _of_each(
    targets: Sequence[Definition],
    uses: Sequence[ResolvedUse],
    least: float,
    is_asked: Callable[[File], bool],
) -> Uses:
    by_definition: dict[DefinitionKey, list[FoundUse]] = {target.key: [] for target in targets}
    asked = {use.use.file: is_asked(use.use.file) for use in uses}
    unsure = elsewhere = 0
    for match in meaning(by_definition, uses):
        if not asked[match.use.file]:
            elsewhere += match.confidence >= least
        elif match.definition is not None and match.confidence >= least:
            by_definition[match.definition.key].append(match)
        else:
            unsure += 1
    uses = [use for use in uses if asked[use.use.file]]
    return Uses(by_definition, _count_unresolved(targets, uses, unsure), elsewhere)


def _count_unresolved(
    targets: Collection[Definition], uses: Iterable[ResolvedUse], unsure: int
) -> int:
    """How many uses may mean some definitions and are not shown: the unsure, and the open."""
    families = {language_of(target.file.language).family for target in targets}
    return unsure + sum(
        use.is_open and language_of(use.use.file.language).family in families for use in uses
    )


def meaning(targets: Collection[DefinitionKey], uses: Iterable[ResolvedUse]) -> list[FoundUse]:
    """The uses that may mean some definitions, each with the likeliest of them."""
    likeliest = (
        (use, next((c for c in use.candidates if c.definition.key in targets), None))
        for use in uses
    )
    return [use.with_meaning(candidate) for use, candidate in likeliest if candidate is not None]


def in_order(uses: Sequence[FoundUse]) -> list[FoundUse]:
    """By file: the product first, the surest and most used files first; there by kind and line.

    Uses that are only possible come last.
    """
    kinds = Counter(match.use.kind for match in uses)
    files = Counter(match.use.file for match in uses)
    ranks = {file: file.rank for file in files}
    sure: dict[File, float] = {}
    for match in uses:
        sure[match.use.file] = max(sure.get(match.use.file, 0.0), match.confidence)

    def order(match: FoundUse) -> tuple[Any, ...]:
        use, file = match.use, match.use.file
        by_file = ranks[file], -sure[file], -files[file], file
        return match.confidence < LIKELY, *by_file, -kinds[use.kind], use.kind, use.line

    return sorted(uses, key=order)


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
    outside = [use for use in uses if not _is_within(use, target)]
    # An import under another name may have uses.
    if not any(use.alias for use in uses) and not any(use.kind in _COUNTED for use in outside):
        return None
    resolved = await resolve_loaded(  # a search asks this for each of its hits
        tx, definitions, uses, [snapshot_id], _COUNTED, reads_types=False
    )
    certain = [
        match
        for match in meaning([target.key], resolved)
        if match.confidence >= SURE and not _is_within(match.use, target)
    ]
    calls = [match for match in certain if match.use.kind in CALLS]
    # Several uses within a definition count as one place.
    by_definition: dict[tuple[str, str | None], FoundUse] = {}
    for match in in_order(calls or certain):
        by_definition.setdefault((match.use.file.path, match.enclosing), match)
    places = list(by_definition.values())
    shown = [match for match in places if not match.use.file.is_test] or places
    if not shown:
        return None
    first_of = {match.use.file: match for match in reversed(shown)}
    shown.sort(key=lambda match: match is not first_of[match.use.file])
    return Usage(
        bool(calls),
        tuple(
            UsingPlace(match.use.file.path, match.use.line, match.enclosing)
            for match in shown[:PLACES]
        ),
        max(len(shown) - PLACES, 0),
        len(places) - len(shown),
        len({use.file.path for use in uses}) <= MAX_FILES,
    )


def _defined_at(
    definitions: Iterable[Definition], path: str, qualified: str, lines: tuple[int, int]
) -> Definition | None:
    first, last = lines
    overloads = [
        definition
        for definition in definitions
        if (definition.file.path, definition.qualified) == (path, qualified)
        and definition.start_line <= last
        and definition.end_line >= first
    ]
    # Of overloads, the definition that begins on this line.
    return min(
        overloads,
        key=lambda definition: (definition.start_line < first, definition.start_line),
        default=None,
    )


def _is_within(use: Use, target: Definition) -> bool:
    """Whether the definition uses itself."""
    return use.file.path == target.file.path and target.start_line <= use.line <= target.end_line
