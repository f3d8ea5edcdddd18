"""Where is a definition used, and how sure is that?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.aside import aside
from codebase_mcp.symbols.candidates import BY_NAME, LEAST
from codebase_mcp.symbols.definition import Candidate, Definition, DefinitionKey, ResolvedUse
from codebase_mcp.symbols.languages import language_of
from codebase_mcp.symbols.lookup import name_parts, named, not_defined, resolve_names

_UNDEFINED = "not defined here, by its name alone"


@dataclass(frozen=True, slots=True)
class FoundUse:
    """A use, and the likeliest of the definitions asked for that it may mean, if any."""

    resolved: ResolvedUse
    definition: Definition | None
    confidence: float
    reason: str

    @property
    def path(self) -> str:
        return self.resolved.use.path

    @property
    def line(self) -> int:
        return self.resolved.use.line

    @property
    def kind(self) -> ReferenceKind:
        return self.resolved.use.kind

    @property
    def is_test(self) -> bool:
        return self.resolved.use.file_kind == "test"


@dataclass(frozen=True, slots=True)
class References:
    """The uses of some definitions: those of code before those of tests, grouped by file.

    ``unlikely`` uses of the name mean something else. ``unresolved`` uses may: their import or the
    type of their object is unknown. ``kinds`` counts ``uses`` by kind.
    """

    definitions: tuple[Definition, ...]
    uses: tuple[FoundUse, ...]
    unlikely: int
    unresolved: int
    kinds: Mapping[ReferenceKind, int]


async def references_to(
    tx: Transaction,
    name: str,
    snapshot_ids: Sequence[int],
    *,
    only: Collection[Definition] = (),
) -> References:
    """The uses of what a name means, or of some definitions of this name.

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
    return await aside(len(uses), _references, targets, uses)


def _references(
    targets: Sequence[Definition], uses: Sequence[tuple[str, ResolvedUse]]
) -> References:
    if targets:
        meanings = meaning({target.key for target in targets}, uses)
    else:
        meanings = [FoundUse(use, None, BY_NAME, _UNDEFINED) for _, use in uses]
    likely = in_order([use for use in meanings if use.confidence >= LEAST])
    unresolved = _count_unresolved(targets, uses, len(meanings) - len(likely))
    return References(
        tuple(targets),
        tuple(likely),
        len(uses) - len(likely) - unresolved,
        unresolved,
        Counter(use.kind for use in likely),
    )


@dataclass(frozen=True, slots=True)
class Uses:
    """The uses of each of some definitions, and how many more of their names are unresolved."""

    of: Mapping[DefinitionKey, Sequence[FoundUse]]
    unresolved: int


async def uses_of(
    tx: Transaction,
    targets: Sequence[Definition],
    snapshot_ids: Sequence[int],
    kinds: Collection[ReferenceKind],
    *,
    least: float = LEAST,
    most_uses: int | None = None,
) -> Uses:
    """The uses of several definitions at once, in some ways, by the definition's key.

    Uses less sure than ``least`` count as unresolved. Names with more than ``most_uses`` uses are
    left out.
    """
    names = list(dict.fromkeys(target.name for target in targets))
    _, uses = await resolve_names(tx, names, snapshot_ids, kinds, most_uses=most_uses)
    return await aside(len(uses), _of_each, targets, uses, least)


def _of_each(
    targets: Sequence[Definition],
    uses: Sequence[tuple[str, ResolvedUse]],
    least: float,
) -> Uses:
    by_definition: dict[DefinitionKey, list[FoundUse]] = {target.key: [] for target in targets}
    unsure = 0
    for use in meaning(by_definition, uses):
        if use.definition is not None and use.confidence >= least:
            by_definition[use.definition.key].append(use)
        else:
            unsure += 1
    return Uses(by_definition, _count_unresolved(targets, uses, unsure))


def _count_unresolved(
    targets: Collection[Definition], uses: Iterable[tuple[str, ResolvedUse]], unsure: int
) -> int:
    """How many uses may mean some definitions and are not shown: the unsure, and the open."""
    families = {language_of(target.language).family for target in targets}
    return unsure + sum(
        use.is_open and language_of(use.use.language).family in families for _, use in uses
    )


def meaning(
    targets: Collection[DefinitionKey], uses: Sequence[tuple[str, ResolvedUse]]
) -> list[FoundUse]:
    """The uses that may mean some definitions, each with the likeliest of them."""
    meanings = []
    for _, use in uses:
        best: Candidate | None = None
        for candidate in use.candidates:
            if candidate.definition.key in targets:
                best = candidate
                break
        if best is not None:
            meanings.append(FoundUse(use, best.definition, best.confidence, best.reason))
    return meanings


def in_order(uses: Sequence[FoundUse]) -> list[FoundUse]:
    """By file: code before tests, the surest and most used files first; there by kind and line."""
    kinds = Counter(use.kind for use in uses)
    files = Counter((use.resolved.use.snapshot_id, use.path) for use in uses)
    sure: dict[tuple[int, str], float] = {}
    for use in uses:
        file = use.resolved.use.snapshot_id, use.path
        sure[file] = max(sure.get(file, 0.0), use.confidence)

    def order(found_use: FoundUse) -> tuple[Any, ...]:
        file = found_use.resolved.use.snapshot_id, found_use.path
        return (
            found_use.is_test,
            -sure[file],
            -files[file],
            file,
            -kinds[found_use.kind],
            found_use.kind,
            found_use.line,
        )

    return sorted(uses, key=order)
