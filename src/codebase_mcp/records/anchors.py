"""Anchors of records: the code that a record is about, and whether it has changed.

A client names a file, a symbol or a commit. `set_anchors` resolves the names with the index: a
symbol by its qualified name, or the last parts of it, in the given file or anywhere in the project.
`following` updates the anchors after index runs. `notes_on` lists the records about code in search
results.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Literal
from uuid import UUID, uuid4

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import WORKTREE
from codebase_mcp.records.anchoring import (
    Anchor,
    AnchorSpot,
    AnchorState,
    Body,
    CodeReference,
    body_of,
    missing,
)
from codebase_mcp.search.hits import Hit
from codebase_mcp.text.tokens import fold
from codebase_mcp.values import grouped

_SQL = load_queries("codebase_mcp.records", "anchors.sql")

RecordKind = Literal["task", "observation", "entity", "work_item"]

# How many candidates for an ambiguous name are listed.
_LISTED = 10

# How many definitions of a name are loaded: enough to say that it is not unique.
_MOST_DEFINITIONS = 50

# How many texts are loaded at once: some may have a megabyte.
_BATCH = 50

# Longer qualified names do not occur in practice.
_MOST_PARTS = 20

_SEPARATOR = re.compile(r"::|->|[.:#\\]")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or a definition that a reference could mean.

    A file has a ``hash``. A definition has a ``symbol`` and a ``line``; ``is_part`` says that its
    name only ends with the given name.
    """

    repository_id: UUID
    file: str
    blob_id: int
    hash: bytes | None
    symbol: str | None = None
    line: int | None = None
    is_prose: bool = False
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A reference that could mean several candidates, and the field that would tell them apart."""

    field: Literal["repository_id", "symbol"]
    candidates: tuple[Candidate, ...]


async def set_anchors(
    tx: Transaction, kind: RecordKind, record_id: UUID, references: Sequence[CodeReference]
) -> tuple[Anchor, ...]:
    """Replace the anchors of a record by these references, resolved with the index.

    A reference to code outside the index is stored as it is; a later index run may resolve it.

    Raises:
        InvalidInput: a reference is ambiguous, or an absolute path is in no repository.
    """
    if not references:
        await tx.execute(_SQL["delete_anchors"], record_id=record_id)
        return ()
    _, _, rows = await tx.fetch_many(
        [
            (_SQL["share_anchors"], {}),
            (_SQL["lock_record"], {"record_id": record_id}),
            (_SQL["repositories"], {}),
        ]
    )
    roots: dict[UUID, str] = dict(rows)
    relative = [_relative(n, reference, roots) for n, reference in enumerate(references)]
    spots = []
    for n, spot in enumerate(await resolve(tx, relative)):
        if isinstance(spot, Ambiguous):
            raise _ambiguous(n, references[n], spot, roots)
        spots.append(spot)
    ids = [uuid4() for _ in spots]
    columns = {"kind": kind, "record_id": record_id, "id": ids, **spot_columns(spots)}
    await tx.fetch_many(
        [(_SQL["delete_anchors"], {"record_id": record_id}), (_SQL["insert_anchors"], columns)]
    )
    return tuple(Anchor(*(getattr(spot, f.name) for f in fields(Anchor))) for spot in spots)


def anchors_from(rows: Sequence[Row]) -> tuple[Anchor, ...]:
    """The anchors of a record, from the column that its statements select."""
    return tuple(Anchor(UUID(row[0]) if row[0] else None, *row[1:]) for row in rows)


def spot_columns(spots: Collection[AnchorSpot]) -> dict[str, object]:
    """The arrays from which SQL inserts or updates anchors, by the names of the fields."""
    return {f.name: [getattr(spot, f.name) for spot in spots] for f in fields(AnchorSpot)}


def _relative(n: int, reference: CodeReference, roots: Mapping[UUID, str]) -> CodeReference:
    """Make an absolute path relative to the innermost indexed repository around it."""
    if reference.file is None or not reference.file.startswith("/"):
        return reference
    around = [
        (len(root), repository_id)
        for repository_id, root in roots.items()
        if reference.file.startswith(root.rstrip("/") + "/")
        and reference.repository_id in (None, repository_id)
    ]
    if not around:
        raise InvalidInput.of(
            f"anchors.{n}.file",
            reference.file,
            f"File is in no indexed repository: {reference.file}",
            rule="relative to the repository's root",
            hint="Pass the path relative to the repository's root, or index the repository first.",
        )
    _, repository_id = max(around)
    path = reference.file[len(roots[repository_id].rstrip("/")) + 1 :]
    return replace(reference, file=path, repository_id=repository_id)


def _ambiguous(
    n: int, reference: CodeReference, ambiguous: Ambiguous, roots: Mapping[UUID, str]
) -> InvalidInput:
    listed = ambiguous.candidates[:_LISTED]
    more = ", and more" if len(ambiguous.candidates) > _LISTED else ""
    if ambiguous.field == "repository_id":
        value = None
        message = f"{reference.file or reference.symbol} is in several repositories"
        rule = "repository_id of one of them"
        names = [f"{each.repository_id} ({roots.get(each.repository_id)})" for each in listed]
    else:
        value = reference.symbol
        message = f"{reference.symbol} is defined in several places"
        rule = "a name that means one definition"
        names = [f"{each.symbol} in {each.file}:{each.line}" for each in listed]
    hint = f"Name one of: {', '.join(names)}{more}."
    field, places = f"anchors.{n}.{ambiguous.field}", [_as_details(each) for each in listed]
    return InvalidInput.of(field, value, message, rule=rule, hint=hint, places=places)


def _as_details(candidate: Candidate) -> dict[str, object]:
    details = {
        "repository_id": str(candidate.repository_id),
        "file": candidate.file,
        "symbol": candidate.symbol,
        "start_line": candidate.line,
    }
    return {name: value for name, value in details.items() if value is not None}


async def resolve(
    tx: Transaction, references: Sequence[CodeReference]
) -> list[AnchorSpot | Ambiguous]:
    """The current location of each reference; code outside the index is missing."""
    with_file = [(n, each) for n, each in enumerate(references) if each.file is not None]
    names = [
        (n, each, spelling, fold(part))
        for n, each in enumerate(references)
        if each.symbol is not None
        for spelling in _spellings(each.symbol)
        for part in last_parts(spelling)
        if part
    ]
    file_rows, definition_rows = await tx.fetch_many(
        [
            (
                _SQL["files_named"],
                {
                    "view": WORKTREE,
                    "positions": [n for n, _ in with_file],
                    "paths": [each.file for _, each in with_file],
                    "repositories": [each.repository_id for _, each in with_file],
                },
            ),
            (
                _SQL["definitions_named"],
                {
                    "view": WORKTREE,
                    "limit": _MOST_DEFINITIONS,
                    "positions": [n for n, _, _, _ in names],
                    "names": [spelling for _, _, spelling, _ in names],
                    "folded": [folded for _, _, _, folded in names],
                    "paths": [each.file for _, each, _, _ in names],
                    "repositories": [each.repository_id for _, each, _, _ in names],
                },
            ),
        ]
    )
    files = grouped((n, Candidate(*row)) for n, *row in file_rows)
    definitions = grouped((n, Candidate(*row)) for n, *row in definition_rows)
    chosen = [_choose(each, files[n], definitions[n]) for n, each in enumerate(references)]
    return await _with_bodies(tx, chosen)


def _choose(
    reference: CodeReference, files: Sequence[Candidate], definitions: Sequence[Candidate]
) -> AnchorSpot | Ambiguous:
    """The location of a reference, without the lines of a symbol."""
    spot = AnchorSpot(reference.repository_id, reference.file, reference.symbol, reference.commit)
    if reference.file is None and reference.symbol is None:
        return spot
    if reference.file is not None and not files:
        return missing(spot, "file is not in the index")
    if reference.symbol is not None and definitions:
        return _choose_definition(spot, definitions)
    if len(files) > 1:
        return Ambiguous("repository_id", tuple(files))
    for file in files:
        spot = replace(spot, repository_id=file.repository_id, blob_id=file.blob_id)
        if reference.symbol is None:
            return replace(spot, hash=file.hash)
    return missing(spot, "symbol is not in the index")


def _choose_definition(
    spot: AnchorSpot, definitions: Sequence[Candidate]
) -> AnchorSpot | Ambiguous:
    best = min((each.is_prose, each.is_part) for each in definitions)
    # Overloads and other definitions of the same name in a file share an anchor.
    distinct = {
        (each.repository_id, each.file, each.symbol): each
        for each in reversed(definitions)
        if (each.is_prose, each.is_part) == best
    }
    candidates = tuple(reversed(distinct.values()))
    if len(candidates) > 1:
        is_same_path = len({(each.file, each.symbol) for each in candidates}) == 1
        return Ambiguous("repository_id" if is_same_path else "symbol", candidates)
    [definition] = candidates
    return replace(
        spot,
        repository_id=definition.repository_id,
        file=definition.file,
        symbol=definition.symbol,
        blob_id=definition.blob_id,
    )


async def _with_bodies(
    tx: Transaction, chosen: Sequence[AnchorSpot | Ambiguous]
) -> list[AnchorSpot | Ambiguous]:
    """Add the lines and hashes of the symbols that have a definition."""
    definitions = {
        n: (spot.blob_id, spot.symbol)
        for n, spot in enumerate(chosen)
        if isinstance(spot, AnchorSpot) and not spot.is_missing and spot.blob_id and spot.symbol
    }
    bodies = await load_bodies(tx, set(definitions.values()))
    resolved = list(chosen)
    for n, definition in definitions.items():
        spot, body = chosen[n], bodies.get(definition)
        assert isinstance(spot, AnchorSpot)
        if body is None:  # an index run removed it meanwhile
            resolved[n] = missing(spot, "symbol is not in the index")
        else:
            start, end = body.start_line, body.end_line
            resolved[n] = replace(spot, start_line=start, end_line=end, hash=body.hash)
    return resolved


async def load_bodies(
    tx: Transaction, definitions: Collection[tuple[int, str]]
) -> dict[tuple[int, str], Body]:
    """The bodies of definitions, by the id of their text and their qualified name."""
    names = grouped(definitions)
    bodies: dict[tuple[int, str], Body] = {}
    rest = iter(sorted(names))
    while batch := list(islice(rest, _BATCH)):
        pairs = [(blob_id, name) for blob_id in batch for name in names[blob_id]]
        texts, rows = await tx.fetch_many(
            [
                (_SQL["texts"], {"blobs": batch}),
                (_SQL["spans"], {"blobs": [b for b, _ in pairs], "names": [n for _, n in pairs]}),
            ]
        )
        spans = grouped(((b, qualified), (first, last)) for b, qualified, first, last in rows)
        lines = {blob_id: split_lines(text) for blob_id, text in texts}
        for key in spans:
            if key[0] in lines:
                bodies[key] = body_of(lines[key[0]], spans[key])
    return bodies


def last_parts(name: str) -> list[str]:
    """A dotted name without its first parts, the whole name first: a.b.c, b.c, c."""
    parts = name.split(".")
    first = max(len(parts) - _MOST_PARTS, 0)
    return [name, *(".".join(parts[i:]) for i in range(max(first, 1), len(parts)))]


def _spellings(symbol: str) -> list[str]:
    """A name as written, and as the index joins names: Session::close() is Session.close."""
    dotted = ".".join(part for part in _SEPARATOR.split(symbol.removesuffix("()")) if part)
    return [symbol] if dotted in ("", symbol) else [symbol, dotted]


MAX_NOTES = 5
MAX_NOTES_IN_FILE = 50
_TITLE_CHARS = 100


@dataclass(frozen=True, slots=True)
class Note:
    """A record about some lines, or about a whole file, whose ``symbol`` is None.

    Tasks and work items have a ``status``; observations, entities and work items a ``type``.
    """

    record_kind: RecordKind
    id: UUID
    title: str
    status: str | None
    type: str | None
    state: AnchorState
    reason: str | None
    symbol: str | None
    start_line: int | None
    end_line: int | None


async def notes_on(tx: Transaction, hits: Sequence[Hit]) -> list[tuple[Note, ...]]:
    """The newest records about the lines or the file of each hit; none that needs review."""
    spans = [(hit.repository_id, hit.file_path, hit.start_line, hit.end_line) for hit in hits]
    notes: list[list[Note]] = [[] for _ in hits]
    for position, note in await _notes(tx, spans, MAX_NOTES):
        notes[position].append(note)
    return [tuple(of_hit) for of_hit in notes]


async def notes_in_file(tx: Transaction, repository_id: UUID, path: str) -> list[Note]:
    """The records about a file or any of its lines."""
    span = (repository_id, path, 1, 2**31 - 1)
    return [note for _, note in await _notes(tx, [span], MAX_NOTES_IN_FILE)]


async def _notes(
    tx: Transaction, spans: Sequence[tuple[UUID, str, int, int]], limit: int
) -> list[tuple[int, Note]]:
    if not spans:
        return []
    repositories, files, starts, ends = map(list, zip(*spans, strict=True))
    rows = await tx.fetch_all(
        _SQL["notes_on"],
        limit=limit,
        repositories=repositories,
        files=files,
        starts=starts,
        ends=ends,
    )
    return [(n, Note(kind, id_, short_title(title), *rest)) for n, kind, id_, title, *rest in rows]


def short_title(text: str) -> str:
    """The beginning of a text as a single line, cut after a word."""
    line = " ".join(text.split())
    if len(line) <= _TITLE_CHARS:
        return line
    head, _, _ = line[: _TITLE_CHARS + 1].rpartition(" ")
    return (head or line[:_TITLE_CHARS]) + "…"
