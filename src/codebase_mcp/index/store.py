"""Stores the result of a run, batch by batch.

Every function is a step inside a transaction of the caller. Batches of a project are written under
its write lock, one after another. So a blob that a batch reads as stored is still stored when the
batch commits, and the sweep never runs during a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import numpy as np

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.nearest import drop_near_indexes
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import SnapshotDropped
from codebase_mcp.index import rows
from codebase_mcp.index.identity import View
from codebase_mcp.index.plan import PathScope, RunCounts, RunRequest, StoredFile, trusted_mtime
from codebase_mcp.index.prepare import PreparedBlob
from codebase_mcp.index.runs import forget_run
from codebase_mcp.model import SourceFile, extension_of
from codebase_mcp.source.classify import CLASSIFY_VERSION
from codebase_mcp.text.tokens import ALL_CHUNKS, aggressive_stem, path_parts, term_id

_SQL = load_queries("codebase_mcp.index", "store.sql")

WRITE_LOCK = "write"

# The rows that are derived from a text are deleted with it.
_DERIVED = ("delete_chunks", "delete_vectors", "delete_symbols", "delete_references")

# How long a blob without a file is kept, so that going back to an earlier state embeds nothing.
GRACE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot that a run writes to."""

    id: int
    view: View
    generation: int
    profile: Profile
    active: bool
    same_classifier: bool = True

    @property
    def is_rebuild(self) -> bool:
        """Whether it is to replace the snapshot that is searched."""
        return not self.active and self.view.is_worktree


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file to store: its listing entry, its blob, and when it was read (ns since 1970)."""

    source: SourceFile
    blob_id: int
    read_at_ns: int


@dataclass(frozen=True, slots=True)
class StoredRepository:
    """The settings of a repository's last run, and the profile of its index; None without index."""

    selected_by: str = ""
    ignore_patterns: Sequence[str] = ()
    profile: Profile | None = None


async def open_repository(tx: Transaction, request: RunRequest) -> str:
    """Create the repository if it is new, and store the settings of the run; returns its name."""
    root, patterns = request.root, request.ignore_patterns
    [(_, name)] = await tx.fetch_all(
        _SQL["upsert_repository"],
        id=request.repository_id,
        root=str(root),
        name=request.name or root.name or str(root),
        given_name=request.name,
        selected_by=request.selection.chosen_by,
        ignore_patterns=None if patterns is None else list(patterns),
    )
    return str(name)


async def load_repository(tx: Transaction, repository_id: UUID) -> StoredRepository:
    """The stored state of a repository; empty if it is new."""
    row = await tx.fetch_one(_SQL["repository"], id=repository_id)
    if row is None:
        return StoredRepository()
    return StoredRepository(row[0], row[1], Profile.from_row(row[2:]) if row[2] else None)


async def open_snapshot(
    tx: Transaction, view: View, profile: Profile, *, rebuild: bool
) -> Snapshot:
    """The snapshot to write to: the active snapshot, a first one, or a rebuild next to it.

    A rebuild is a new generation of everything; an incomplete rebuild is continued.
    """
    stored = replace(profile, id=await store_profile(tx, profile))
    row = await tx.fetch_one(_SQL["active_snapshot"], **view.parameters())
    is_active = row is None or not rebuild
    if row is not None and rebuild:
        begun = {"profile_id": stored.id, "generation": row[1]}
        row = await tx.fetch_one(_SQL["begun_rebuild"], **view.parameters(), **begun)
    if row is None:
        [row] = await tx.fetch_all(
            _SQL["create_snapshot"],
            **view.parameters(),
            profile_id=stored.id,
            active=is_active,
            classifier=CLASSIFY_VERSION,
        )
    return Snapshot(row[0], view, row[1], stored, is_active, row[2] == CLASSIFY_VERSION)


async def store_profile(tx: Transaction, profile: Profile) -> int:
    """The id of a profile in this project; a new profile is stored."""
    if profile.id:
        return profile.id
    [[profile_id]] = await tx.fetch_all(
        _SQL["insert_profile"],
        fingerprint=profile.fingerprint,
        model=profile.model,
        dimension=profile.dimension,
        provider=profile.recipe.provider,
        source=profile.recipe.model,
        query_prefix=profile.recipe.query_prefix,
        passage_prefix=profile.recipe.passage_prefix,
        slope=profile.scale.slope,
        shift=profile.scale.shift,
    )
    return int(profile_id)


async def stored_files(
    tx: Transaction, snapshot_id: int, scope: PathScope | None = None
) -> dict[str, StoredFile]:
    """The files of a snapshot, or those in a scope, by path."""
    query = _SQL["stored_files" if scope is None else "stored_files_in"]
    parameters = {} if scope is None else scope.parameters()
    stored = await tx.fetch_all(query, snapshot_id=snapshot_id, **parameters)
    return {row[0]: StoredFile._make(row) for row in stored}


async def up_to_date(tx: Transaction, view: View) -> Snapshot | None:
    """The active snapshot, if its last run is complete and used the same classifier."""
    row = await tx.fetch_one(
        _SQL["finished_snapshot"], **view.parameters(), classifier=CLASSIFY_VERSION
    )
    if row is None:
        return None
    return Snapshot(row[0], view, row[1], Profile.from_row(row[2:]), active=True)


async def write_batch(
    tx: Transaction,
    snapshot: Snapshot,
    files: Sequence[FileRecord],
    prepared: Mapping[int, PreparedBlob],
) -> tuple[int, list[FileRecord]]:
    """Store files with their blobs.

    Returns the number of embedded chunks, and the files whose blob is neither stored nor prepared:
    it was swept meanwhile, and must be prepared.

    Raises:
        SnapshotDropped: it does not exist any more.
    """
    await tx.lock(WRITE_LOCK)
    stored = await stored_blobs(tx, snapshot.profile.id, {file.blob_id for file in files})
    embedded = {blob_id for blob_id, (_, is_embedded) in stored.items() if is_embedded}
    fresh = [blob for blob_id, blob in prepared.items() if blob_id not in embedded]
    available = embedded | prepared.keys()
    kept = [file for file in files if file.blob_id in available]
    recut = [b for b in fresh if b.blob_id in stored and stored[b.blob_id][0] != b.chunk_count]
    new = [blob for blob in fresh if blob.blob_id not in stored]
    await _advance(tx, snapshot, len(kept))
    await _forget_chunks(tx, recut)
    await _write_blobs(tx, new, snapshot)
    await _write_chunks(tx, new + recut)
    if snapshot.active:
        await _count_terms(tx, new, snapshot)
    await copy_vectors(tx, (blob.vector_rows for blob in fresh))
    released = await _delete_files(tx, snapshot, [f.source.path for f in kept])
    await tx.copy(_SQL["copy_files"], rows.payload(_file_row(snapshot.id, file) for file in kept))
    await tx.execute(_SQL["claim_blobs"], ids=list(stored))
    if snapshot.active and stored:
        await _show(tx, snapshot, list(stored))
    await _release(tx, released)
    missing = [file for file in files if file.blob_id not in available]
    return sum(blob.chunk_count for blob in fresh), missing


async def stored_blobs(
    tx: Transaction, profile_id: int, blob_ids: Iterable[int]
) -> dict[int, tuple[int, bool]]:
    """Which of these blobs are stored: their number of chunks, and whether they have vectors."""
    stored = await tx.fetch_all(_SQL["stored_blobs"], ids=list(blob_ids), profile_id=profile_id)
    return {row[0]: (row[1], row[2]) for row in stored}


async def copy_vectors(tx: Transaction, vectors: Iterable[bytes]) -> None:
    await tx.copy(_SQL["copy_vectors"], rows.payload(vectors))


async def forget_files(tx: Transaction, snapshot: Snapshot, paths: Sequence[str]) -> None:
    await tx.lock(WRITE_LOCK)
    released = await _delete_files(tx, snapshot, paths)
    await _advance(tx, snapshot, 0)
    await _release(tx, released)


async def _advance(tx: Transaction, snapshot: Snapshot, done: int) -> None:
    if not await tx.execute(_SQL["advance_run"], id=snapshot.id, done=done, version=uuid4()):
        raise SnapshotDropped


async def _delete_files(tx: Transaction, snapshot: Snapshot, paths: Sequence[str]) -> list[int]:
    """Delete paths of the snapshot; returns the blobs that may be without a file now."""
    bound = {"snapshot_id": snapshot.id, "paths": list(paths)}
    names = ("copy_to_dependents", "replace_in_dependents", "delete_files")
    *_, deleted = await tx.fetch_many([(_SQL[name], bound) for name in names])
    return [row[0] for row in deleted]


async def _release(tx: Transaction, ids: Sequence[int]) -> None:
    """Hide texts that have lost their last file from searches; the sweep deletes them later."""
    if ids:
        await tx.execute(_SQL["release_blobs"], ids=ids)
        await _hide(tx, ids)


async def _show(tx: Transaction, snapshot: Snapshot, ids: Sequence[int] | None = None) -> None:
    """Let searches find and count these texts, or all texts, of the snapshot."""
    repository_id = snapshot.view.repository_id
    rows = await tx.fetch_all(_SQL["show_blobs"], repository_id=repository_id, ids=ids)
    if shown := [row[0] for row in rows]:
        await tx.execute(_SQL["count_shown"], repository_id=repository_id, ids=shown)


async def _hide(tx: Transaction, ids: Sequence[int] | None = None) -> None:
    """Hide the texts, among these or all, that only commits or rebuilds hold now."""
    hidden = [row[0] for row in await tx.fetch_all(_SQL["hidden_blobs"], ids=ids)]
    if hidden:
        await tx.execute(_SQL["subtract_frequencies"], ids=hidden)
        await tx.execute(_SQL["hide_blobs"], ids=hidden)


async def start_run(tx: Transaction, snapshot: Snapshot, pending: Sequence[str]) -> None:
    """Store how many files are pending, and that each of these paths has to be read."""
    await tx.execute(
        _SQL["start_run"], id=snapshot.id, pending=len(pending), classifier=CLASSIFY_VERSION
    )
    await tx.execute(_SQL["distrust_files"], id=snapshot.id, paths=list(pending))


async def finish_run(tx: Transaction, snapshot: Snapshot, counts: RunCounts) -> None:
    """Record the outcome for the working tree; a rebuild replaces the previous index."""
    await tx.lock(WRITE_LOCK)
    await _record_outcome(tx, snapshot, counts)
    dropped = await tx.execute(_SQL["delete_other_snapshots"], id=snapshot.id)
    if not snapshot.active:
        await tx.execute(_SQL["activate_snapshot"], id=snapshot.id)
    if dropped:  # texts of dropped snapshots cannot be used again, so there is no grace period
        await clear(tx)
    else:
        await sweep(tx, GRACE_S)
    if not snapshot.active:
        await _show(tx, snapshot)


async def finish_commit(tx: Transaction, snapshot: Snapshot, counts: RunCounts) -> None:
    """Record the outcome for a commit: it is complete, and copies in memory are out of date.

    Raises:
        SnapshotDropped: nothing named the commit any more.
    """
    await _record_outcome(tx, snapshot, counts)
    await _advance(tx, snapshot, 0)


async def _record_outcome(tx: Transaction, snapshot: Snapshot, counts: RunCounts) -> None:
    skipped = json.dumps(dict(counts.skipped))
    failures = _failures_json(counts)
    await tx.execute(_SQL["record_outcome"], id=snapshot.id, skipped=skipped, failures=failures)


async def finish_partial_run(
    tx: Transaction, snapshot: Snapshot, scope: PathScope, counts: RunCounts
) -> None:
    await tx.lock(WRITE_LOCK)
    failures = _failures_json(counts)
    parameters = scope.parameters()
    await tx.execute(_SQL["finish_partial_run"], id=snapshot.id, failures=failures, **parameters)


def _failures_json(counts: RunCounts) -> str:
    return json.dumps([[failure.path, failure.reason] for failure in counts.failures])


async def flush_and_analyze(tx: Transaction) -> None:
    """After many new rows: flush the word index and update the planner's statistics."""
    await tx.become_owner()
    await tx.lock(WRITE_LOCK)
    await tx.fetch_all(_SQL["flush_terms"])
    await tx.execute(_SQL["analyze"])


async def sweep(tx: Transaction, grace_s: float) -> int:
    """Delete blobs that have had no file for ``grace_s`` seconds; returns their number."""
    ids = [row[0] for row in await tx.fetch_all(_SQL["expired_blobs"], grace_s=grace_s)]
    if ids:
        await tx.execute(_SQL["subtract_frequencies"], ids=ids)
        await tx.execute(_SQL["delete_spent_frequencies"])
        for statement in (*_DERIVED, "delete_blobs"):
            await tx.execute(_SQL[statement], ids=ids)
    return len(ids)


async def remove_repository(tx: Transaction, repository_id: UUID) -> bool:
    """Delete a repository with everything that only it used; False if it does not exist."""
    await tx.lock(WRITE_LOCK)
    await forget_run(tx, repository_id)
    if not await tx.execute(_SQL["delete_repository"], id=repository_id):
        return False
    await clear(tx)
    return True


async def clear(tx: Transaction) -> None:
    """Delete texts, vectors and vector indexes that only dropped snapshots used."""
    await tx.execute(_SQL["release_orphans"])
    await _hide(tx)
    await sweep(tx, 0)
    await tx.execute(_SQL["delete_vectors_unused"])
    unused = await tx.fetch_all(_SQL["unused_profiles"])
    await drop_near_indexes(tx, [profile_id for (profile_id,) in unused])


async def _forget_chunks(tx: Transaction, blobs: Sequence[PreparedBlob]) -> None:
    """Delete the chunks of texts that are split differently than when they were stored.

    That happens if a parser timed out in this run or the earlier run. Vectors of all models belong
    to the old chunks and are deleted too.
    """
    if blobs:
        ids = [blob.blob_id for blob in blobs]
        await tx.execute(_SQL["subtract_frequencies"], ids=ids)
        await tx.execute(_SQL["hide_blobs"], ids=ids)
        for statement in _DERIVED:
            await tx.execute(_SQL[statement], ids=ids)
        for blob in blobs:
            await tx.execute(_SQL["recount_blob"], id=blob.blob_id, chunks=blob.chunk_count)


async def _write_blobs(tx: Transaction, blobs: Sequence[PreparedBlob], snapshot: Snapshot) -> None:
    if blobs:
        counted_for = rows.uuid(snapshot.view.repository_id if snapshot.active else None)
        complete = (rows.extended(blob.blob_row, counted_for) for blob in blobs)
        await tx.copy(_SQL["copy_blobs"], rows.payload(complete))


async def _write_chunks(tx: Transaction, blobs: Sequence[PreparedBlob]) -> None:
    if not blobs:
        return
    await tx.copy(_SQL["copy_chunks"], rows.payload(blob.chunk_rows for blob in blobs))
    await tx.copy(_SQL["copy_symbols"], rows.payload(blob.symbol_rows for blob in blobs))
    await tx.copy(_SQL["copy_references"], rows.payload(blob.reference_rows for blob in blobs))


async def _count_terms(tx: Transaction, blobs: Sequence[PreparedBlob], snapshot: Snapshot) -> None:
    """Add the terms of new texts to the document frequencies of a repository."""
    chunks = sum(blob.chunk_count for blob in blobs)
    if not chunks:
        return
    terms, counts = np.unique(np.concatenate([blob.terms for blob in blobs]), return_counts=True)
    await tx.execute(
        _SQL["add_frequencies"],
        repository_id=snapshot.view.repository_id,
        terms=array_literal([ALL_CHUNKS, *terms.tolist()]),
        chunks=array_literal([chunks, *counts.tolist()]),
    )


def _file_row(snapshot_id: int, file: FileRecord) -> bytes:
    source = file.source
    name, _ = path_parts(source.path)
    name_terms = np.unique([term_id(aggressive_stem(part)) for part in name] or [0]).astype(
        np.int64
    )
    return rows.row(
        rows.int8(snapshot_id),
        rows.text(source.path),
        rows.int8(file.blob_id),
        rows.int8(source.size),
        rows.int8(trusted_mtime(source, file.read_at_ns)),
        rows.int8(source.ctime_ns),
        rows.text(source.language),
        rows.text(extension_of(source.path)),
        rows.text(source.kind),
        rows.int4_array(name_terms),
    )
