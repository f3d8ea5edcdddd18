"""Resolves references to code with the index.

A file is where its path is, a symbol where its name, or the last parts of it, is defined: in the
file that was named with it, or anywhere in the project.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal
from uuid import UUID

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.model import WORKTREE
from codebase_mcp.records.anchoring import AnchorSpot, Body, CodeReference, Span, body_of, missing
from codebase_mcp.text.tokens import fold

_SQL = load_queries("codebase_mcp.records", "places.sql")

# Definitions looked at for one name: enough to say that it is not unique.
_MOST_DEFINITIONS = 50

# Texts read at a time: some may have a megabyte.
_BATCH = 50

# Longer qualified names do not occur in practice.
_MOST_PARTS = 20

_SEPARATOR = re.compile(r"::|->|[.:#\\]")


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the places that a name could mean."""

    repository_id: UUID
    file: str
    symbol: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Several:
    """An ambiguous name, and the field that would resolve it."""

    field: Literal["repository_id", "symbol"]
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class _Holder:
    """A repository that holds the file of a place."""

    repository_id: UUID
    blob_id: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class _Match:
    """A definition that a symbol could mean; ``is_part`` says that its name only ends so."""

    repository_id: UUID
    path: str
    blob_id: int
    qualified: str
    line: int
    is_prose: bool
    is_part: bool

    @property
    def rank(self) -> tuple[bool, bool]:
        """The lower, the better the match."""
        return self.is_prose, self.is_part


async def resolve(tx: Transaction, places: Sequence[CodeReference]) -> list[AnchorSpot | Several]:
    """Where each of these places is now; a place that is not in the index is missing."""
    holders: defaultdict[int, list[_Holder]] = defaultdict(list)
    matches: defaultdict[int, list[_Match]] = defaultdict(list)
    files, definitions = await tx.fetch_many(
        [
            (_SQL["files_named"], _files_wanted(places)),
            (_SQL["definitions_named"], _definitions_wanted(places)),
        ]
    )
    for position, *holder in files:
        holders[position].append(_Holder(*holder))
    for position, *match in definitions:
        matches[position].append(_Match(*match))
    chosen = [
        _choose(place, holders[position], matches[position])
        for position, place in enumerate(places)
    ]
    return await _with_bodies(tx, chosen)


def _choose(
    place: CodeReference, holders: Sequence[_Holder], matches: Sequence[_Match]
) -> AnchorSpot | Several:
    """The spot that a place means, a symbol's lines not yet known."""
    spot = AnchorSpot(place.repository_id, place.file, place.symbol)
    if place.file is None and place.symbol is None:
        return spot
    if place.file is not None and not holders:
        return missing(spot, "file is not in the index")
    if place.symbol is not None and matches:
        return _choose_definition(spot, matches)
    if len(holders) > 1 and place.file is not None:
        choices = tuple(Choice(holder.repository_id, place.file) for holder in holders)
        return Several("repository_id", choices)
    for holder in holders:
        spot = replace(spot, repository_id=holder.repository_id, blob_id=holder.blob_id)
        if place.symbol is None:
            return replace(spot, hash=holder.hash)
    return missing(spot, "symbol is not in the index")


def _choose_definition(spot: AnchorSpot, matches: Sequence[_Match]) -> AnchorSpot | Several:
    best = min(match.rank for match in matches)
    # Overloads and other definitions of one name in one file are one place.
    distinct = {
        (match.repository_id, match.path, match.qualified): match
        for match in reversed(matches)
        if match.rank == best
    }
    if len(distinct) == 1:
        [match] = distinct.values()
        return replace(
            spot,
            repository_id=match.repository_id,
            file=match.path,
            symbol=match.qualified,
            blob_id=match.blob_id,
        )
    is_one_path = len({(path, qualified) for _, path, qualified in distinct}) == 1
    choices = tuple(
        Choice(match.repository_id, match.path, match.qualified, match.line)
        for match in reversed(distinct.values())
    )
    return Several("repository_id" if is_one_path else "symbol", choices)


async def _with_bodies(
    tx: Transaction, chosen: Sequence[AnchorSpot | Several]
) -> list[AnchorSpot | Several]:
    """Symbols that were found get their lines and their hash."""
    keys = [_definition_of(spot) for spot in chosen]
    bodies = await load_bodies(tx, {key for key in keys if key is not None})
    resolved: list[AnchorSpot | Several] = []
    for spot, key in zip(chosen, keys, strict=True):
        body = bodies.get(key) if key is not None else None
        if key is None or isinstance(spot, Several):
            resolved.append(spot)
        elif body is None:  # an index run removed it meanwhile
            resolved.append(missing(spot, "symbol is not in the index"))
        else:
            start, end = body.start_line, body.end_line
            resolved.append(replace(spot, start_line=start, end_line=end, hash=body.hash))
    return resolved


def _definition_of(spot: AnchorSpot | Several) -> tuple[int, str] | None:
    """The text and the qualified name of a symbol that was found."""
    if isinstance(spot, Several) or spot.is_missing or spot.symbol is None or spot.blob_id is None:
        return None
    return spot.blob_id, spot.symbol


async def load_bodies(
    tx: Transaction, wanted: Collection[tuple[int, str]]
) -> dict[tuple[int, str], Body]:
    """The lines of definitions by text and qualified name, and their hashes."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    for blob_id, qualified in wanted:
        names[blob_id].append(qualified)
    bodies: dict[tuple[int, str], Body] = {}
    for batch in _batches(names):
        texts, found = await tx.fetch_many(
            [
                (_SQL["texts"], {"blobs": batch}),
                (
                    _SQL["spans"],
                    {
                        "blobs": [blob_id for blob_id in batch for _ in names[blob_id]],
                        "names": [name for blob_id in batch for name in names[blob_id]],
                    },
                ),
            ]
        )
        spans: defaultdict[tuple[int, str], list[Span]] = defaultdict(list)
        for blob_id, qualified, first, last in found:
            spans[blob_id, qualified].append((first, last))
        lines = {blob_id: split_lines(text) for blob_id, text in texts}
        for key, places in spans.items():
            if key[0] in lines:
                bodies[key] = body_of(lines[key[0]], places)
    return bodies


def last_parts(name: str) -> list[str]:
    """A dotted name without its first parts, the whole name first: a.b.c, b.c, c."""
    parts = name.split(".")
    first = max(len(parts) - _MOST_PARTS, 0)
    return [name, *(".".join(parts[i:]) for i in range(max(first, 1), len(parts)))]


def _files_wanted(places: Sequence[CodeReference]) -> dict[str, object]:
    named = [(i, place) for i, place in enumerate(places) if place.file is not None]
    return {
        "view": WORKTREE,
        "positions": [i for i, _ in named],
        "paths": [place.file for _, place in named],
        "repositories": [place.repository_id for _, place in named],
    }


def _definitions_wanted(places: Sequence[CodeReference]) -> dict[str, object]:
    named = [
        (i, place, spelling, fold(part))
        for i, place in enumerate(places)
        if place.symbol is not None
        for spelling in _spellings(place.symbol)
        for part in last_parts(spelling)
        if part
    ]
    return {
        "view": WORKTREE,
        "limit": _MOST_DEFINITIONS,
        "positions": [i for i, _, _, _ in named],
        "names": [spelling for _, _, spelling, _ in named],
        "folded": [folded for _, _, _, folded in named],
        "paths": [place.file for _, place, _, _ in named],
        "repositories": [place.repository_id for _, place, _, _ in named],
    }


def _spellings(symbol: str) -> list[str]:
    """A name as it was written, and as the index joins names: Session::close() is Session.close."""
    dotted = ".".join(part for part in _SEPARATOR.split(symbol.removesuffix("()")) if part)
    return [symbol] if dotted in ("", symbol) else [symbol, dotted]


def _batches(blobs: Collection[int]) -> Iterator[list[int]]:
    rest = iter(sorted(blobs))
    while batch := list(islice(rest, _BATCH)):
        yield batch
