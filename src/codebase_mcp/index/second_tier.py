"""Which chunks have no vector of the stronger model yet, and what becomes of those that get one?

Every function is one step inside a transaction of the caller. A text gets the vectors of all its
chunks at once, so what is missing is what has no row: whoever is killed has nothing to remember.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.naming import grow_lock
from codebase_mcp.database.nearest import drop_near_indexes
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.index import rows, store
from codebase_mcp.index.prepare import chunk_texts, vector_rows

_SQL = load_queries("codebase_mcp.index", "second_tier.sql")

# A vector belongs to the chunk whose row it has, whichever version of the program cut that: so the
# version that is part of other profiles says nothing here.
VERSION = "second"

# The texts of so many files are chosen at once; then it is asked again which are the newest.
TEXTS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class GrowingText:
    """A text whose chunks have no vectors of the model yet."""

    blob_id: int
    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TierState:
    """How far the second tier of a project is.

    ``growing`` says that a process adds to it just now, ``waiting`` that none does: ``error`` is
    why, where it was tried. ``replaces`` is the model that answers until this one is complete.
    """

    model: str
    chunks_done: int
    chunks_total: int
    state: Literal["growing", "complete", "waiting"]
    error: str | None = None
    replaces: str | None = None


async def open_tier(tx: Transaction, profile: Profile) -> Profile:
    """Make a profile part of the second tier, if it is not; the profile as it is stored."""
    await tx.lock(store.WRITE_LOCK)
    stored = replace(profile, id=await store.store_profile(tx, profile))
    await tx.execute(_SQL["add"], profile_id=stored.id)
    await tx.execute(_SQL["forget_away"], model=profile.model)
    return stored


async def note_away(tx: Transaction, model: str, error: str) -> None:
    """A model does not embed just now, and why."""
    await tx.execute(_SQL["note_away"], model=model, error=error)


async def missing(
    tx: Transaction,
    profile: Profile,
    repositories: Sequence[UUID] | None = None,
    limit: int = TEXTS_AT_ONCE,
) -> list[GrowingText]:
    """The next texts that need vectors, those of the newest files first; none where all have."""
    wanted = None if repositories is None else list(repositories)
    found = await tx.fetch_all(
        _SQL["missing"], profile_id=profile.id, repositories=wanted, limit=limit
    )
    ids = [row[0] for row in found]
    if not ids:
        return []
    texts = {
        blob_id: GrowingText(blob_id, tuple(chunk_texts(text, zip(starts, ends, strict=True))))
        for blob_id, text, starts, ends in await tx.fetch_all(_SQL["texts"], ids=ids)
    }
    return [texts[blob_id] for blob_id in ids if blob_id in texts]


async def write_vectors(tx: Transaction, profile: Profile, vectors: Mapping[int, Vectors]) -> bool:
    """Store the vectors of some texts; False where the profile is not wanted any more.

    A text that is gone meanwhile, is cut in another way, or has its vectors already is left out.
    """
    await tx.lock(store.WRITE_LOCK)
    if await tx.fetch_one(_SQL["is_there"], profile_id=profile.id) is None:
        return False
    stored = await store.stored_blobs(tx, profile.id, vectors)
    fitting = {
        blob_id: of_text
        for blob_id, of_text in vectors.items()
        if stored.get(blob_id) == (len(of_text), False)
    }
    await store.copy_vectors(
        tx,
        rows.payload(
            vector_rows(profile.id, blob_id, of_text) for blob_id, of_text in fitting.items()
        ),
    )
    return True


async def complete(tx: Transaction, profile: Profile) -> None:
    """Let a profile answer whose vectors are all there, and drop what answered before."""
    await tx.lock(store.WRITE_LOCK)
    await _forget(tx, await tx.fetch_all(_SQL["drop_others"], profile_id=profile.id))
    await tx.execute(_SQL["answer"], profile_id=profile.id)


async def drop(tx: Transaction) -> bool:
    """Delete all vectors of the second tier; was there any part of it?"""
    await tx.lock(store.WRITE_LOCK)
    dropped = await tx.fetch_all(_SQL["drop_all"])
    await tx.execute(_SQL["forget_all_away"])
    await _forget(tx, dropped)
    return bool(dropped)


async def tiers(tx: Transaction) -> list[tuple[Profile, bool]]:
    """The profiles of the second tier, the newest last, and whether each answers searches."""
    return [(Profile.from_row(row[1:]), row[0]) for row in await tx.fetch_all(_SQL["tiers"])]


async def load_state(
    tx: Transaction, configured: str | None, repositories: Sequence[UUID] | None = None
) -> TierState | None:
    """How far the second tier is, of a project or of some repositories; None where there is none.

    ``configured`` is the model that this process would add, whether it has begun or not.
    """
    known = await tiers(tx)
    if not known and configured is None:
        return None
    away: dict[str, str] = dict(await tx.fetch_all(_SQL["away"]))
    own = [one for one in known if configured in (None, one[0].model)]
    model, number, is_answering = configured or "", 0, False
    if own:
        profile, is_answering = own[-1]
        model, number = profile.model, profile.id
    wanted = None if repositories is None else list(repositories)
    [row] = await tx.fetch_all(_SQL["count"], profile_id=number, repositories=wanted)
    total, done = row
    old = next((profile.model for profile, answers in known if answers), None)
    is_growing = bool(await tx.held([grow_lock()]))
    is_complete = done == total
    return TierState(
        model,
        done,
        total,
        "complete" if is_complete else "growing" if is_growing else "waiting",
        None if is_complete else away.get(model),
        None if is_answering else old,
    )


async def chunks_state(tx: Transaction) -> Hashable:
    """What is other whenever there may be new chunks."""
    return tuple(await tx.fetch_all(_SQL["state"]))


async def _forget(tx: Transaction, dropped: Sequence[tuple[int, ...]]) -> None:
    """Delete the vectors of profiles, and the indexes over them."""
    ids = [row[0] for row in dropped]
    if ids:
        await tx.execute(_SQL["drop_vectors"], ids=ids)
        await drop_near_indexes(tx, ids)
