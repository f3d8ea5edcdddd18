"""Updates the anchors of records after the code has changed.

Called after each index run. Anchors whose file has the same text as before are not loaded, so a run
that changed none of their files costs one statement.
"""

from __future__ import annotations

import json
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
from codebase_mcp.records.anchors import (
    Ambiguous,
    last_parts,
    load_bodies,
    resolve,
    spot_columns,
)
from codebase_mcp.text.tokens import fold
from codebase_mcp.values import grouped

_SQL = load_queries("codebase_mcp.records", "following.sql")

# How many definitions of a name are compared with a deleted definition.
_MOST_NAMESAKES = 50

# How many deleted files are compared at a time, each with some texts of up to a megabyte.
_BATCH = 8


@dataclass(frozen=True, slots=True)
class Tracked:
    """An anchor with its last location, and the file that is now at its path."""

    id: UUID
    spot: AnchorSpot
    file: Content | None


@dataclass(frozen=True, slots=True)
class _Tree:
    """The repository after the run: the paths that it added, added or changed, failed to index."""

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

    ``added`` and ``changed`` are the paths that the index run wrote. If it changed nothing
    (``is_changed`` is false), missing code is not looked for.
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
    resolved = [a for a in tracked if a.spot.hash is not None and a.spot.repository_id is not None]
    spots = await _resolve_again(tx, new) | await _follow(tx, tree, resolved)
    moved = {a.id: spots[a.id] for a in tracked if spots[a.id] != a.spot}
    if moved:
        await tx.execute(_SQL["update_anchors"], id=list(moved), **spot_columns(moved.values()))
    return len(moved)


def _tracked(row: Row) -> Tracked:
    identity, *fields, blob_id, blob_hash = row
    spot = AnchorSpot(*fields)
    if blob_id is None or spot.file is None:
        return Tracked(identity, spot, None)
    return Tracked(identity, spot, Content(spot.file, blob_id, blob_hash))


async def _resolve_again(tx: Transaction, anchors: Sequence[Tracked]) -> dict[UUID, AnchorSpot]:
    """Resolve anchors whose code or repository was not in the index yet."""
    if not anchors:
        return {}
    references = [
        CodeReference(a.spot.file, a.spot.symbol, a.spot.commit, a.spot.repository_id)
        for a in anchors
    ]
    spots = await resolve(tx, references)
    return {a.id: _resolved(a.spot, now) for a, now in zip(anchors, spots, strict=True)}


def _resolved(before: AnchorSpot, now: AnchorSpot | Ambiguous) -> AnchorSpot:
    if isinstance(now, Ambiguous):
        subject = "symbol" if now.field == "symbol" else "file"
        return missing(before, f"{subject} is in several places: name one of them")
    if before.hash is None:
        return now
    kept = replace(now, hash=before.hash, moved_from=before.moved_from)
    if now.is_missing or now.hash == before.hash:
        return kept
    return replace(kept, state="needs_review", reason=f"{now.symbol or 'the file'} changed")


async def _follow(
    tx: Transaction, tree: _Tree, anchors: Sequence[Tracked]
) -> dict[UUID, AnchorSpot]:
    """Follow anchors whose code was in the index before."""
    unread = {
        a.id: missing(a.spot, "the file could not be indexed")
        for a in anchors
        if a.file is None and a.spot.file in tree.failed
    }
    gone = [a for a in anchors if a.file is None and a.id not in unread]
    copies, moves = await _find_moves(tx, tree, gone)
    spots = dict(unread)
    for anchor in anchors:
        spot = anchor.spot
        if anchor.id in unread or spot.symbol is not None:
            continue
        if spot.file is not None and spot.hash is not None:
            copy = nearest(spot.file, copies.get(spot.hash, ()), tree.added)
            spots[anchor.id] = follow_file(spot, anchor.file, copy, moves.get(spot.file))
    symbols = [a for a in anchors if a.spot.symbol is not None and a.id not in unread]
    spots.update(await _follow_symbols(tx, tree, symbols, moves))
    return spots


async def _find_moves(
    tx: Transaction, tree: _Tree, gone: Sequence[Tracked]
) -> tuple[Mapping[bytes, Sequence[Content]], Mapping[str, Content]]:
    """Files by their hashes, and the new file of each deleted file."""
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
    copies = grouped((content.hash, content) for content in (Content(*file) for file in files))
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
    """The new file of each deleted file (a path and its last text), by similarity."""
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
    moves: dict[str, Content] = {}
    paths = [path for path, candidates in likely.items() if candidates]
    for first in range(0, len(paths), _BATCH):
        batch = paths[first : first + _BATCH]
        blobs = {gone[path] for path in batch}
        blobs.update(new[candidate].blob_id for path in batch for candidate in likely[path])
        texts: dict[int, str] = dict(await tx.fetch_all(_SQL["texts"], blobs=list(blobs)))
        for path in batch:
            candidates = {name: texts.get(new[name].blob_id, "") for name in likely[path]}
            best = most_alike(texts.get(gone[path], ""), candidates)
            if best is not None:
                moves[path] = new[best]
    return moves


async def _follow_symbols(
    tx: Transaction, tree: _Tree, anchors: Sequence[Tracked], moves: Mapping[str, Content]
) -> dict[UUID, AnchorSpot]:
    definitions = await _definitions(
        tx,
        {
            (a.file.path, a.file.blob_id, a.spot.symbol)
            for a in anchors
            if a.file is not None and a.spot.symbol is not None
        },
    )
    unmoved = {(d.path, d.qualified): d for d in definitions}
    spots: dict[UUID, AnchorSpot] = {}
    lost = []
    for anchor in anchors:
        spot = anchor.spot
        definition = unmoved.get((spot.file or "", spot.symbol or ""))
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
    """Definitions that a symbol may have become: with its qualified name, or in written files."""
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
    keys = {(path, blob_id, qualified) for _, path, blob_id, qualified in rows}
    loaded = {(d.path, d.qualified): d for d in await _definitions(tx, keys)}
    return grouped(
        (symbol, loaded[path, qualified])
        for symbol, path, _, qualified in rows
        if (path, qualified) in loaded
    )


async def _find_renamed(tx: Transaction, lost: Sequence[Tracked]) -> dict[UUID, Definition]:
    """Symbols that have a new name in their file, and otherwise the confirmed body."""
    edited = [a for a in lost if a.file is not None and a.spot.blob_id is not None]
    if not edited:
        return {}
    now = [a.file.blob_id for a in edited if a.file is not None]
    outlines, texts = await tx.fetch_many(
        [
            (_SQL["outlines"], {"blobs": [*now, *(a.spot.blob_id for a in edited)]}),
            (_SQL["texts"], {"blobs": now}),
        ]
    )
    named = grouped((blob_id, Named(*fields)) for blob_id, *fields in outlines)
    lines = {blob_id: split_lines(text) for blob_id, text in texts}
    definitions: dict[UUID, Definition] = {}
    for anchor in edited:
        file, spot = anchor.file, anchor.spot
        if file is not None and file.blob_id in lines:
            renamed = find_renamed(
                spot, named[spot.blob_id], named[file.blob_id], lines[file.blob_id]
            )
            if renamed is not None:
                definitions[anchor.id] = Definition(file.path, file.blob_id, *renamed)
    return definitions


async def _definitions(tx: Transaction, keys: Collection[tuple[str, int, str]]) -> list[Definition]:
    """The existing definitions of paths, texts and qualified names."""
    bodies = await load_bodies(tx, {(blob_id, qualified) for _, blob_id, qualified in keys})
    return [
        Definition(path, blob_id, qualified, bodies[blob_id, qualified])
        for path, blob_id, qualified in sorted(keys)
        if (blob_id, qualified) in bodies
    ]
