"""How does a plan's outcome get into the database, batch by batch?

Every function is one step inside a transaction of the caller. Batches of a project are written one
at a time, under its write lock: so what a batch finds stored is still stored when it commits, and
the sweep never meets a batch half way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid5

import numpy as np

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.vectors import tend_vector_index
from codebase_mcp.embedding.embedder import Embedder, profile_mismatch
from codebase_mcp.index import rows
from codebase_mcp.index.plan import StoredFile, trusted_mtime
from codebase_mcp.index.prepare import PreparedBlob, profile_fingerprint
from codebase_mcp.model import FileFailure, SourceFile
from codebase_mcp.source.classify import CLASSIFY_VERSION
from codebase_mcp.tokens import ALL_CHUNKS, harsh_stem, path_parts, term_id

_SQL = load_queries("codebase_mcp.index", "store.sql")
_REPOSITORIES = UUID("6f0c8a5e-5a0b-5d58-9d1c-3c1f3e1f7b52")

WORKTREE = "worktree"
WRITE_LOCK = "write"

# How long a blob without a file stays, so that going back to an earlier state embeds nothing.
GRACE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot that a run writes to."""

    id: int
    repository_id: UUID
    generation: int
    profile: str
    profile_id: int
    active: bool
    same_classifier: bool


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as it is to be stored: its listing, its blob, when it was read (ns since 1970)."""

    source: SourceFile
    blob_id: int
    read_at_ns: int


def repository_id_of(project: Project, root: Path) -> UUID:
    """The repository's id: the same project and path give the same id, for ever."""
    return uuid5(_REPOSITORIES, f"{project.schema_name}\0{root}")


async def open_repository(
    tx: Transaction, project: Project, root: Path, name: str | None
) -> tuple[UUID, str]:
    """The id and name of the repository at ``root``, which is created where it is new."""
    row = await tx.fetch_one(
        _SQL["upsert_repository"],
        id=repository_id_of(project, root),
        root=str(root),
        name=name or root.name or str(root),
        given_name=name,
    )
    assert row is not None
    return row[0], row[1]


async def open_snapshot(
    tx: Transaction, repository_id: UUID, embedder: Embedder, *, rebuild: bool
) -> Snapshot:
    """The snapshot to write to: the active one, a first one, or a new generation beside it.

    Raises:
        EmbeddingUnavailable: the active one was made with another model or program version.
    """
    profile = profile_fingerprint(embedder)
    await tx.execute(
        _SQL["insert_profile"],
        fingerprint=profile,
        model=embedder.name,
        dimension=embedder.dimension,
    )
    found = await tx.fetch_one(_SQL["profile_id"], fingerprint=profile)
    assert found is not None
    key = {"repository_id": repository_id, "view": WORKTREE}
    active = await tx.fetch_one(_SQL["active_snapshot"], **key)
    if active is not None and not rebuild:
        snapshot_id, generation, classifier, stored_profile, model = active
        if stored_profile != profile:
            raise profile_mismatch(model, embedder.name)
        same = classifier == CLASSIFY_VERSION
        return Snapshot(snapshot_id, repository_id, generation, profile, found[0], True, same)
    generation_row = await tx.fetch_one(_SQL["next_generation"], **key)
    assert generation_row is not None
    created = await tx.fetch_one(
        _SQL["create_snapshot"],
        **key,
        generation=generation_row[0],
        profile_id=found[0],
        active=active is None,
        classifier=CLASSIFY_VERSION,
    )
    assert created is not None
    return Snapshot(
        created[0], repository_id, generation_row[0], profile, found[0], active is None, True
    )


async def stored_files(tx: Transaction, snapshot: Snapshot) -> dict[str, StoredFile]:
    """What the snapshot holds, by path."""
    found = await tx.fetch_all(_SQL["stored_files"], snapshot_id=snapshot.id)
    return {row[0]: StoredFile(*row) for row in found}


async def existing_blobs(tx: Transaction, blob_ids: Iterable[int]) -> set[int]:
    """Which of these blobs are stored already."""
    found = await tx.fetch_all(_SQL["existing_blobs"], ids=list(blob_ids))
    return {row[0] for row in found}


async def write_batch(
    tx: Transaction,
    snapshot: Snapshot,
    files: Sequence[FileRecord],
    prepared: Mapping[int, PreparedBlob],
) -> tuple[int, list[FileRecord]]:
    """Store files with their blobs.

    Returns the number of chunks that were new, and the files whose blob is neither stored nor
    prepared: it was swept after it had been seen, and must be prepared after all.
    """
    await tx.lock(WRITE_LOCK)
    stored = await existing_blobs(tx, {file.blob_id for file in files})
    new = [blob for blob_id, blob in prepared.items() if blob_id not in stored]
    known = stored | prepared.keys()
    kept = [file for file in files if file.blob_id in known]
    await _write_blobs(tx, new)
    released = await tx.fetch_all(
        _SQL["delete_files"], snapshot_id=snapshot.id, paths=[f.source.path for f in kept]
    )
    await tx.copy(_SQL["copy_files"], rows.payload(_file_row(snapshot.id, file) for file in kept))
    await tx.execute(_SQL["claim_blobs"], ids=list(stored))
    await tx.execute(_SQL["release_blobs"], ids=[row[0] for row in released])
    await tx.execute(_SQL["advance_run"], id=snapshot.id, done=len(kept))
    missing = [file for file in files if file.blob_id not in known]
    return sum(blob.chunk_count for blob in new), missing


async def forget_files(tx: Transaction, snapshot: Snapshot, paths: Sequence[str]) -> None:
    """Take paths out of the snapshot."""
    await tx.lock(WRITE_LOCK)
    released = await tx.fetch_all(_SQL["delete_files"], snapshot_id=snapshot.id, paths=list(paths))
    await tx.execute(_SQL["release_blobs"], ids=[row[0] for row in released])


async def start_run(tx: Transaction, snapshot: Snapshot, pending: int) -> None:
    """Say how many files are ahead."""
    await tx.execute(
        _SQL["start_run"], id=snapshot.id, pending=pending, classifier=CLASSIFY_VERSION
    )


async def finish_run(
    tx: Transaction,
    snapshot: Snapshot,
    skipped: Mapping[str, int],
    failures: Sequence[FileFailure],
) -> None:
    """Record the outcome; a rebuilt generation takes over from the one before it."""
    await tx.lock(WRITE_LOCK)
    await tx.execute(
        _SQL["finish_run"],
        id=snapshot.id,
        skipped=json.dumps(dict(skipped)),
        failures=json.dumps([[failure.path, failure.reason] for failure in failures]),
    )
    dropped = await tx.execute(
        _SQL["delete_snapshots_but"],
        id=snapshot.id,
        repository_id=snapshot.repository_id,
        view=WORKTREE,
    )
    if not snapshot.active:
        await tx.execute(_SQL["activate_snapshot"], id=snapshot.id)
    if dropped:  # nothing can come back to another generation, so it need not wait
        await tx.execute(_SQL["release_orphans"])
    await sweep(tx, 0 if dropped else GRACE_S)


async def settle(tx: Transaction, dimension: int) -> None:
    """After many new rows: leave indexes and the planner's statistics in order."""
    await tx.lock(WRITE_LOCK)
    await tx.fetch_all(_SQL["flush_terms"])
    counted = await tx.fetch_one(_SQL["count_chunks"])
    await tend_vector_index(tx, dimension, counted[0] if counted else 0)
    await tx.execute(_SQL["analyze"])


async def sweep(tx: Transaction, grace_s: float) -> int:
    """Delete blobs that have had no file for ``grace_s`` seconds; returns their number."""
    ids = [row[0] for row in await tx.fetch_all(_SQL["expired_blobs"], grace_s=grace_s)]
    if ids:
        await tx.execute(_SQL["subtract_frequencies"], ids=ids)
        await tx.execute(_SQL["delete_spent_frequencies"])
        for statement in ("delete_chunks", "delete_vectors", "delete_symbols", "delete_blobs"):
            await tx.execute(_SQL[statement], ids=ids)
    return len(ids)


async def remove_repository(tx: Transaction, repository_id: UUID) -> bool:
    """Forget a repository with everything that only it used; False where it is unknown."""
    await tx.lock(WRITE_LOCK)
    if not await tx.execute(_SQL["delete_repository"], id=repository_id):
        return False
    await tx.execute(_SQL["release_orphans"])
    await sweep(tx, 0)
    return True


async def _write_blobs(tx: Transaction, blobs: Sequence[PreparedBlob]) -> None:
    if not blobs:
        return
    await tx.copy(_SQL["copy_blobs"], rows.payload(blob.blob_row for blob in blobs))
    await tx.copy(_SQL["copy_chunks"], rows.payload(blob.chunk_rows for blob in blobs))
    await tx.copy(_SQL["copy_vectors"], rows.payload(blob.vector_rows for blob in blobs))
    await tx.copy(_SQL["copy_symbols"], rows.payload(blob.symbol_rows for blob in blobs))
    terms, counts = np.unique(np.concatenate([blob.terms for blob in blobs]), return_counts=True)
    chunks = sum(blob.chunk_count for blob in blobs)
    await tx.execute(
        _SQL["add_frequencies"],
        terms=[ALL_CHUNKS, *terms.tolist()],
        chunks=[chunks, *counts.tolist()],
    )


def _file_row(snapshot_id: int, file: FileRecord) -> bytes:
    source = file.source
    name, _ = path_parts(source.path)
    _, dot, extension = source.path.rsplit("/", 1)[-1].rpartition(".")
    name_terms = np.unique([term_id(harsh_stem(part)) for part in name] or [0]).astype(np.int64)
    return rows.row(
        rows.int8(snapshot_id),
        rows.text(source.path),
        rows.int8(file.blob_id),
        rows.int8(source.size),
        rows.int8(trusted_mtime(source, file.read_at_ns)),
        rows.int8(source.ctime_ns),
        rows.text(source.language),
        rows.text(extension.lower() if dot else ""),
        rows.text(source.kind),
        rows.int4_array(name_terms),
    )
