"""Which chunks have no vector of the secondary model yet, and how are new vectors stored?

Every function is a step inside a transaction of the caller. A text gets the vectors of all its
chunks at once. So the missing vectors are those without a row, and a killed process leaves no state
behind.

The tables are called ``second_tier``, as earlier versions named them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.naming import backfill_lock
from codebase_mcp.database.nearest import drop_near_indexes
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.index import store
from codebase_mcp.index.prepare import chunk_texts, vector_rows

_SQL = load_queries("codebase_mcp.index", "secondary_model.sql")

# The version part of a secondary profile. A vector belongs to a row of a chunk, whichever version
# of the program made that, so the version does not matter here.
VERSION = "second"

# How many texts are selected at once; then the newest are selected again.
TEXTS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class PendingText:
    """A text whose chunks have no vectors of the model yet."""

    blob_id: int
    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SecondaryModelState:
    """The backfill state of a project's secondary model.

    ``growing`` means that a process is adding vectors now, ``waiting`` that no process is:
    ``error`` is the reason if adding them failed. ``replaces`` is the model that searches use until
    this model is complete.
    """

    model: str
    chunks_done: int
    chunks_total: int
    state: Literal["growing", "complete", "waiting"]
    error: str | None = None
    replaces: str | None = None


async def open_secondary(tx: Transaction, profile: Profile) -> Profile:
    """Store a profile as secondary, unless it is; returns the stored profile."""
    await tx.lock(store.WRITE_LOCK)
    stored = replace(profile, id=await store.store_profile(tx, profile))
    await tx.execute(_SQL["add"], profile_id=stored.id)
    await tx.execute(_SQL["forget_unavailable"], model=profile.model)
    return stored


async def note_unavailable(tx: Transaction, model: str, error: str) -> None:
    await tx.execute(_SQL["note_unavailable"], model=model, error=error)


async def missing(
    tx: Transaction, profile: Profile, repositories: Sequence[UUID] | None = None
) -> list[PendingText]:
    """The next texts that need vectors, the newest files first; empty if all have them."""
    ids = [
        row[0]
        for row in await tx.fetch_all(
            _SQL["missing"],
            profile_id=profile.id,
            repositories=None if repositories is None else list(repositories),
            limit=TEXTS_AT_ONCE,
        )
    ]
    if not ids:
        return []
    texts = {
        blob_id: PendingText(blob_id, tuple(chunk_texts(text, zip(starts, ends, strict=True))))
        for blob_id, text, starts, ends in await tx.fetch_all(_SQL["texts"], ids=ids)
    }
    return [texts[blob_id] for blob_id in ids if blob_id in texts]


async def write_vectors(tx: Transaction, profile: Profile, vectors: Mapping[int, Vectors]) -> bool:
    """Store the vectors of some texts; False if the profile was dropped.

    A text is skipped if it is gone, was split differently meanwhile, or has its vectors already.
    """
    await tx.lock(store.WRITE_LOCK)
    if await tx.fetch_one(_SQL["exists"], profile_id=profile.id) is None:
        return False
    stored = await store.stored_blobs(tx, profile.id, vectors)
    fitting = (
        vector_rows(profile.id, blob_id, of_text)
        for blob_id, of_text in vectors.items()
        if stored.get(blob_id) == (len(of_text), False)
    )
    await store.copy_vectors(tx, fitting)
    return True


async def complete(tx: Transaction, profile: Profile) -> None:
    """Let searches use a profile that has all its vectors, and drop all other profiles."""
    await tx.lock(store.WRITE_LOCK)
    await _forget(tx, await tx.fetch_all(_SQL["drop_others"], profile_id=profile.id))
    await tx.execute(_SQL["answer"], profile_id=profile.id)


async def drop(tx: Transaction) -> bool:
    """Delete all secondary profiles with their vectors; False if there were none."""
    await tx.lock(store.WRITE_LOCK)
    dropped = await tx.fetch_all(_SQL["drop_all"])
    await tx.execute(_SQL["forget_all_unavailable"])
    await _forget(tx, dropped)
    return bool(dropped)


async def load_secondaries(tx: Transaction) -> list[tuple[Profile, bool]]:
    """The secondary profiles, the newest last, and whether searches use each."""
    return [
        (Profile.from_row(row[1:]), row[0]) for row in await tx.fetch_all(_SQL["load_secondaries"])
    ]


async def load_state(
    tx: Transaction, configured: str | None, repositories: Sequence[UUID] | None = None
) -> SecondaryModelState | None:
    """The state of a project's secondary model, or of some repositories'; None if there is none.

    ``configured`` is the secondary model of this process, whether its backfill has begun or not.
    """
    stored = await load_secondaries(tx)
    if not stored and configured is None:
        return None
    used = next((profile for profile, is_used in stored if is_used), None)
    named = [profile for profile, _ in stored if configured in (None, profile.model)]
    chosen = named[-1] if named else None
    model = chosen.model if chosen else configured or ""
    [(total, done)] = await tx.fetch_all(
        _SQL["count"],
        profile_id=chosen.id if chosen else 0,
        repositories=None if repositories is None else list(repositories),
    )
    replaces = used.model if used is not None and used != chosen else None
    if done == total:
        return SecondaryModelState(model, done, total, "complete", replaces=replaces)
    errors: dict[str, str] = dict(await tx.fetch_all(_SQL["unavailable"]))
    state: Literal["growing", "waiting"]
    state = "growing" if await tx.held([backfill_lock()]) else "waiting"
    return SecondaryModelState(model, done, total, state, errors.get(model), replaces)


def missing_notice(state: SecondaryModelState | None) -> str | None:
    """The notice after an index run: that no vectors are stored, or why some cannot be added."""
    if state is None or state.state == "complete" or (state.chunks_done and not state.error):
        return None
    return (
        f"{state.chunks_done} of {state.chunks_total} chunks have vectors of {state.model};"
        " searches use words and the built-in model for the others. "
        + (state.error or "A running server or worker adds the vectors in the background.")
    )


async def chunks_state(tx: Transaction) -> Hashable:
    """A value that changes whenever there may be new chunks."""
    return tuple(await tx.fetch_all(_SQL["state"]))


async def _forget(tx: Transaction, dropped: Sequence[tuple[int, ...]]) -> None:
    """Delete the vectors of profiles, and the indexes over them."""
    ids = [row[0] for row in dropped]
    if ids:
        await tx.execute(_SQL["drop_vectors"], ids=ids)
        await drop_near_indexes(tx, ids)
