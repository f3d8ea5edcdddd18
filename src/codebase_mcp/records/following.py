"""Updates the anchors of records after the code has changed.

Called after each index run. Anchors whose file has the same text as when they were last looked at
are not touched, so a run that changed nothing of theirs costs one statement.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.index.identity import View
from codebase_mcp.records.anchoring import (
    AnchorSpot,
    CodeReference,
    Content,
    Definition,
    Named,
    find_renamed,
    follow_file,
    follow_symbol,
    likely_moves,
    missing,
    most_alike,
    nearest,
)
from codebase_mcp.records.places import Several, last_parts, load_bodies, resolve
from codebase_mcp.text.tokens import fold

_SQL = load_queries("codebase_mcp.records", "following.sql")

# Definitions of one name that are held against the one that is gone.
_MOST_NAMESAKES = 50

# How many deleted files are compared at a time, each with some texts of up to a megabyte.
_BATCH = 8


@dataclass(frozen=True, slots=True)
class Tracked:
    """An anchor as it was last seen, and the file that is now at its path."""

    id: UUID
    spot: AnchorSpot
    here: Content | None


@dataclass(frozen=True, slots=True)
class _Tree:
    """The repository as the run left it: what was new in it, what was written at all."""

    snapshot_id: int
    added: frozenset[str]
    written: frozenset[str]
    failed: frozenset[str]


async def refresh_anchors(
    tx: Transaction,
    repository_id: UUID,
    *,
    added: Collection[str] = (),
    changed: Collection[str] = (),
    is_changed: bool = True,
) -> int:
    """Update the anchors in a repository; returns how many have changed.

    ``added`` and ``changed`` are the paths that the index run wrote. If it did nothing at all
    (``is_changed``), what was missing is still missing and is not looked for.
    """
    key = View(repository_id).parameters()
    _, snapshots, rows = await tx.fetch_many(
        [
            (_SQL["lock_anchors"], {}),
            (_SQL["snapshot"], key),
            (_SQL["affected"], {**key, "is_changed": is_changed}),
        ]
    )
    if not snapshots:
        return await tx.execute(_SQL["mark_unindexed"], repository_id=repository_id)
    if not rows:
        return 0
    [(snapshot_id, failures)] = snapshots
    tree = _Tree(
        snapshot_id,
        added=frozenset(added),
        written=frozenset(added).union(changed),
        failed=frozenset(path for path, _ in json.loads(failures)),
    )
    tracked = [_tracked(row) for row in rows]
    new = [a for a in tracked if a.spot.hash is None or a.spot.repository_id is None]
    known = [a for a in tracked if a.spot.hash is not None and a.spot.repository_id is not None]
    spots = await _resolve_again(tx, new) | await _follow(tx, tree, known)
    moved = {a.id: spots[a.id] for a in tracked if spots[a.id] != a.spot}
    if moved:
        await _store(tx, moved)
    return len(moved)


def _tracked(row: Row) -> Tracked:
    identity, *fields, blob_id, blob_hash = row
    spot = AnchorSpot(*fields)
    if blob_id is None or spot.file is None:
        return Tracked(identity, spot, None)
    return Tracked(identity, spot, Content(spot.file, blob_id, blob_hash))


async def _resolve_again(tx: Transaction, anchors: Sequence[Tracked]) -> dict[UUID, AnchorSpot]:
    """Anchors whose place was never found, or whose repository was not known."""
    if not anchors:
        return {}
    places = [
        CodeReference(a.spot.file, a.spot.symbol, None, a.spot.repository_id) for a in anchors
    ]
    found = await resolve(tx, places)
    return {a.id: _found(a.spot, now) for a, now in zip(anchors, found, strict=True)}


def _found(before: AnchorSpot, now: AnchorSpot | Several) -> AnchorSpot:
    if isinstance(now, Several):
        what = "symbol" if now.field == "symbol" else "file"
        return missing(before, f"{what} is in several places: name one of them")
    if before.hash is None:
        return now
    kept = replace(now, hash=before.hash, moved_from=before.moved_from)
    if now.is_missing or now.hash == before.hash:
        return kept
    return replace(kept, state="needs_review", reason=f"{now.symbol or 'the file'} changed")


async def _follow(
    tx: Transaction, tree: _Tree, anchors: Sequence[Tracked]
) -> dict[UUID, AnchorSpot]:
    """Anchors whose place was found before."""
    unread = {
        a.id: missing(a.spot, "the file could not be indexed")
        for a in anchors
        if a.here is None and a.spot.file in tree.failed
    }
    gone = [a for a in anchors if a.here is None and a.id not in unread]
    copies, moves = await _find_moves(tx, tree, gone)
    spots = dict(unread)
    for anchor in anchors:
        spot = anchor.spot
        if anchor.id in unread or spot.symbol is not None:
            continue
        if spot.file is not None and spot.hash is not None:
            copy = nearest(spot.file, copies.get(spot.hash, ()), tree.added)
            spots[anchor.id] = follow_file(spot, anchor.here, copy, moves.get(spot.file))
    symbols = [a for a in anchors if a.spot.symbol is not None and a.id not in unread]
    spots.update(await _follow_symbols(tx, tree, symbols, moves))
    return spots


async def _find_moves(
    tx: Transaction, tree: _Tree, gone: Sequence[Tracked]
) -> tuple[Mapping[bytes, Sequence[Content]], Mapping[str, Content]]:
    """Files by the texts that were confirmed, and what each file that is gone became."""
    if not gone:
        return {}, {}
    blobs = {a.spot.blob_id for a in gone if a.spot.blob_id is not None}
    hashes = {a.spot.hash for a in gone if a.spot.symbol is None}
    last_seen, files = await tx.fetch_many(
        [
            (_SQL["blob_hashes"], {"blobs": list(blobs)}),
            (
                _SQL["files_of_texts"],
                {"snapshot_id": tree.snapshot_id, "blobs": list(blobs), "hashes": list(hashes)},
            ),
        ]
    )
    copies: defaultdict[bytes, list[Content]] = defaultdict(list)
    for file in files:
        content = Content(*file)
        copies[content.hash].append(content)
    hash_of: dict[int, bytes] = dict(last_seen)
    moves: dict[str, Content] = {}
    changed: dict[str, int] = {}
    for anchor in gone:
        path, blob_id = anchor.spot.file, anchor.spot.blob_id
        if path is None or blob_id is None or blob_id not in hash_of:
            continue
        same = nearest(path, copies.get(hash_of[blob_id], ()), tree.added)
        if same is not None:
            moves[path] = same
        else:
            changed[path] = blob_id
    edited = {path: blob_id for path, blob_id in changed.items() if path not in moves}
    return copies, moves | await _find_edited(tx, tree, edited)


async def _find_edited(tx: Transaction, tree: _Tree, gone: Mapping[str, int]) -> dict[str, Content]:
    """Deleted files, by their last text, and the new file that each became."""
    if not gone or not tree.added:
        return {}
    rows = await tx.fetch_all(
        _SQL["new_files"], snapshot_id=tree.snapshot_id, paths=list(tree.added)
    )
    new = {row[0]: Content(*row) for row in rows}
    names: dict[int, list[str]] = dict(
        await tx.fetch_all(
            _SQL["defined_names"],
            blobs=[*gone.values(), *(content.blob_id for content in new.values())],
        )
    )
    new_names = {path: names.get(content.blob_id, ()) for path, content in new.items()}
    likely = {
        path: likely_moves(path, names.get(blob_id, ()), new_names)
        for path, blob_id in sorted(gone.items())
    }
    found: dict[str, Content] = {}
    paths = [path for path, candidates in likely.items() if candidates]
    for first in range(0, len(paths), _BATCH):
        batch = paths[first : first + _BATCH]
        blobs = {gone[path] for path in batch}
        blobs.update(new[other].blob_id for path in batch for other in likely[path])
        texts: dict[int, str] = dict(await tx.fetch_all(_SQL["texts"], blobs=list(blobs)))
        for path in batch:
            others = {other: texts.get(new[other].blob_id, "") for other in likely[path]}
            best = most_alike(texts.get(gone[path], ""), others)
            if best is not None:
                found[path] = new[best]
    return found


async def _follow_symbols(
    tx: Transaction, tree: _Tree, anchors: Sequence[Tracked], moves: Mapping[str, Content]
) -> dict[UUID, AnchorSpot]:
    here = await _definitions(
        tx,
        {
            (a.here.path, a.here.blob_id, a.spot.symbol)
            for a in anchors
            if a.here is not None and a.spot.symbol is not None
        },
    )
    in_place = {(d.path, d.qualified): d for d in here}
    spots: dict[UUID, AnchorSpot] = {}
    lost = []
    for anchor in anchors:
        spot = anchor.spot
        definition = in_place.get((spot.file or "", spot.symbol or ""))
        if definition is None:
            lost.append(anchor)
        else:
            spots[anchor.id] = follow_symbol(spot, definition)
    if lost:
        namesakes = await _find_namesakes(tx, tree, lost, moves)
        renamed = await _find_renamed(tx, lost)
        for anchor in lost:
            spot = anchor.spot
            move = moves.get(spot.file or "")
            spots[anchor.id] = follow_symbol(
                spot,
                None,
                elsewhere=namesakes.get(spot.symbol or "", ()),
                renamed=renamed.get(anchor.id),
                moved_to=move.path if move else None,
                written=tree.written,
            )
    return spots


async def _find_namesakes(
    tx: Transaction, tree: _Tree, lost: Sequence[Tracked], moves: Mapping[str, Content]
) -> dict[str, list[Definition]]:
    """Definitions that a symbol may have become: of its qualified name, or written by the run."""
    symbols = {a.spot.symbol for a in lost if a.spot.symbol is not None}
    named = [(symbol, part) for symbol in sorted(symbols) for part in last_parts(symbol) if part]
    rows = await tx.fetch_all(
        _SQL["namesakes"],
        snapshot_id=tree.snapshot_id,
        limit=_MOST_NAMESAKES,
        symbols=[symbol for symbol, _ in named],
        names=[part for _, part in named],
        folded=[fold(part) for _, part in named],
        written=sorted(tree.written.union(content.path for content in moves.values())),
    )
    found = await _definitions(tx, {(path, blob, qualified) for _, path, blob, qualified in rows})
    by_place = {(d.path, d.qualified): d for d in found}
    namesakes: defaultdict[str, list[Definition]] = defaultdict(list)
    for symbol, path, _, qualified in rows:
        if (path, qualified) in by_place:
            namesakes[symbol].append(by_place[path, qualified])
    return namesakes


async def _find_renamed(tx: Transaction, lost: Sequence[Tracked]) -> dict[UUID, Definition]:
    """Symbols that have a new name in their file, and are otherwise what was confirmed."""
    edited = [a for a in lost if a.here is not None and a.spot.blob_id is not None]
    if not edited:
        return {}
    now = [a.here.blob_id for a in edited if a.here is not None]
    outlines, texts = await tx.fetch_many(
        [
            (_SQL["outlines"], {"blobs": [*now, *(a.spot.blob_id for a in edited)]}),
            (_SQL["texts"], {"blobs": now}),
        ]
    )
    named: defaultdict[int | None, list[Named]] = defaultdict(list)
    for blob_id, *fields in outlines:
        named[blob_id].append(Named(*fields))
    lines = {blob_id: split_lines(text) for blob_id, text in texts}
    found: dict[UUID, Definition] = {}
    for anchor in edited:
        here, spot = anchor.here, anchor.spot
        if here is not None and here.blob_id in lines:
            renamed = find_renamed(
                spot, named[spot.blob_id], named[here.blob_id], lines[here.blob_id]
            )
            if renamed is not None:
                found[anchor.id] = Definition(here.path, here.blob_id, *renamed)
    return found


async def _definitions(
    tx: Transaction, wanted: Collection[tuple[str, int, str]]
) -> list[Definition]:
    """Definitions by path, text and qualified name, those that are there."""
    bodies = await load_bodies(tx, {(blob_id, qualified) for _, blob_id, qualified in wanted})
    return [
        Definition(path, blob_id, qualified, bodies[blob_id, qualified])
        for path, blob_id, qualified in sorted(wanted)
        if (blob_id, qualified) in bodies
    ]


async def _store(tx: Transaction, spots: Mapping[UUID, AnchorSpot]) -> None:
    values = spots.values()
    await tx.execute(
        _SQL["update_anchors"],
        ids=list(spots),
        repositories=[spot.repository_id for spot in values],
        files=[spot.file for spot in values],
        symbols=[spot.symbol for spot in values],
        starts=[spot.start_line for spot in values],
        ends=[spot.end_line for spot in values],
        hashes=[spot.hash for spot in values],
        blobs=[spot.blob_id for spot in values],
        missing=[spot.is_missing for spot in values],
        states=[spot.state for spot in values],
        reasons=[spot.reason for spot in values],
        moved=[spot.moved_from for spot in values],
    )
