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
    """A use that may mean what was asked for; ``definition`` is the likeliest, if there is one."""

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

    ``unlikely`` uses of the name are of something else, and ``unresolved`` ones may be: what they
    import, or the object that they are of, is not known here. ``kinds`` counts the others.
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
    if targets and not any(one.name == parts[-1] for one in targets):  # written in another case
        written = list(dict.fromkeys(one.name for one in targets))
        definitions, uses = await resolve_names(tx, written, snapshot_ids)
    if not targets and (len(parts) > 1 or not uses):
        raise await not_defined(tx, name, definitions, snapshot_ids)
    return await aside(len(uses), _references, targets, uses)


def _references(
    targets: Sequence[Definition], uses: Sequence[tuple[str, ResolvedUse]]
) -> References:
    if targets:
        found = meaning({one.key for one in targets}, uses)
    else:
        found = [FoundUse(one, None, BY_NAME, _UNDEFINED) for _, one in uses]
    likely = in_order([one for one in found if one.confidence >= LEAST])
    unresolved = _count_unresolved(targets, uses, len(found) - len(likely))
    return References(
        tuple(targets),
        tuple(likely),
        len(uses) - len(likely) - unresolved,
        unresolved,
        Counter(one.kind for one in likely),
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
    """The uses of several definitions at once, in some ways; for each its own, by its key.

    Those that are less sure than ``least`` are unresolved. With ``most_uses`` those of a name that
    has more uses are left out.
    """
    names = list(dict.fromkeys(one.name for one in targets))
    _, uses = await resolve_names(tx, names, snapshot_ids, kinds, most_uses=most_uses)
    return await aside(len(uses), _of_each, targets, uses, least)


def _of_each(
    targets: Sequence[Definition],
    uses: Sequence[tuple[str, ResolvedUse]],
    least: float,
) -> Uses:
    found: dict[DefinitionKey, list[FoundUse]] = {one.key: [] for one in targets}
    unsure = 0
    for one in meaning(found, uses):
        if one.definition is not None and one.confidence >= least:
            found[one.definition.key].append(one)
        else:
            unsure += 1
    return Uses(found, _count_unresolved(targets, uses, unsure))


def _count_unresolved(
    targets: Collection[Definition], uses: Iterable[tuple[str, ResolvedUse]], unsure: int
) -> int:
    """How many uses may mean some definitions and are not shown: the unsure, and the open."""
    families = {language_of(one.language).family for one in targets}
    return unsure + sum(
        one.is_open and language_of(one.use.language).family in families for _, one in uses
    )


def meaning(
    targets: Collection[DefinitionKey], uses: Sequence[tuple[str, ResolvedUse]]
) -> list[FoundUse]:
    """The uses that may mean one of some definitions, by their keys; the likeliest of each."""
    found = []
    for _, one in uses:
        best: Candidate | None = None
        for candidate in one.candidates:
            if candidate.definition.key in targets:
                best = candidate
                break
        if best is not None:
            found.append(FoundUse(one, best.definition, best.confidence, best.reason))
    return found


def in_order(uses: Sequence[FoundUse]) -> list[FoundUse]:
    """By file: code before tests, the surest and most used files first; there by kind and line."""
    kinds = Counter(one.kind for one in uses)
    files = Counter((one.resolved.use.snapshot_id, one.path) for one in uses)
    sure: dict[tuple[int, str], float] = {}
    for one in uses:
        file = one.resolved.use.snapshot_id, one.path
        sure[file] = max(sure.get(file, 0.0), one.confidence)

    def order(one: FoundUse) -> tuple[Any, ...]:
        file = one.resolved.use.snapshot_id, one.path
        return one.is_test, -sure[file], -files[file], file, -kinds[one.kind], one.kind, one.line

    return sorted(uses, key=order)
