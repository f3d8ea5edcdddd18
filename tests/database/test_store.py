"""What of a text is stored once for all models, what for each, and when it goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import Project
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.index import secondary_model, store
from codebase_mcp.index.identity import View, repository_id_of
from codebase_mcp.index.plan import RunCounts, RunRequest
from codebase_mcp.index.prepare import PreparedBlob, Preparer, RawText
from codebase_mcp.model import FileKind, SourceFile
from codebase_mcp.source.selection import EVERYTHING

pytestmark = pytest.mark.anyio

CODE = "\n\n".join(
    f"def number_{n}():\n" + "".join(f"    value_{n} += {i}\n" for i in range(70)) for n in range(3)
)
RAW = RawText(7, b"h" * 20, "python", CODE)
FILE = SourceFile(
    "a.py", Path("/r/a.py"), len(CODE), 1, 1, "python", FileKind.CODE, named_as_source=True
)


def prepared(raw: RawText, profile: Profile) -> PreparedBlob:
    """A text as a run stores it."""
    [blob] = Preparer().prepare([raw], profile.id, 1, StaticEmbedder.load())
    return blob


async def write(tx: Transaction, raw: RawText) -> store.Snapshot:
    """Store a repository of one file as a run would."""
    profile = Profile(0, "1-one", "one", 256)
    await store.open_repository(tx, RunRequest(PROJECT, Path("/r"), EVERYTHING))
    repository_id = repository_id_of(PROJECT, Path("/r"))
    snapshot = await store.open_snapshot(tx, View(repository_id), profile, rebuild=False)
    blob = prepared(raw, snapshot.profile)
    record = store.FileRecord(FILE, raw.blob_id, 10**18)
    _, missing = await store.write_batch(tx, snapshot, [record], {raw.blob_id: blob})
    assert not missing
    await store.finish_run(tx, snapshot, RunCounts(0))
    return snapshot


PROJECT = Project(None, "any", datetime.now(UTC))

COUNTS = """
SELECT (SELECT count(*) FROM chunk), (SELECT sum(chunk_count) FROM blob),
       (SELECT chunks FROM term_frequency WHERE term = -1),
       (SELECT count(*) FROM chunk_vector WHERE profile_id = %(first)s),
       (SELECT count(*) FROM chunk_vector WHERE profile_id = %(second)s)
"""


async def grown(tx: Transaction, raw: RawText, name: str) -> Profile:
    """Add the vectors of a stronger model."""
    profile = await secondary_model.open_secondary(tx, Profile(0, f"second-{name}", name, 4))
    for text in await secondary_model.missing(tx, profile):
        ones = np.ones((len(text.chunks), 4), np.float32)
        assert await secondary_model.write_vectors(tx, profile, {text.blob_id: ones})
    assert await secondary_model.missing(tx, profile) == []
    return profile


async def counts(tx: Transaction, *profiles: Profile) -> tuple[int, ...]:
    first, second = (profile.id for profile in profiles)
    row = await tx.fetch_one(COUNTS, first=first, second=second)
    assert row is not None
    return tuple(int(value) for value in row)


async def test_two_models_share_texts_chunks_and_words(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        first = (await write(tx, RAW)).profile
        second = await grown(tx, RAW, "two")
        chunks = prepared(RAW, first).chunk_count
        assert chunks > 1
        assert await counts(tx, first, second) == (chunks,) * 5
        third = await grown(tx, RAW, "three")
        assert await secondary_model.load_secondaries(tx) == [(second, True), (third, False)]
        await secondary_model.complete(tx, third)
        assert await secondary_model.load_secondaries(tx) == [(third, True)]
        assert await counts(tx, second, third) == (chunks, chunks, chunks, 0, chunks)


async def test_a_text_that_is_cut_in_another_way_is_counted_right(
    database: Database, project: Project
) -> None:
    whole = replace(RAW, unparsed=True)
    async with database.transaction(project) as tx:
        snapshot = await write(tx, RAW)
        first, second = snapshot.profile, await grown(tx, RAW, "two")
        # As if it had not come to its vectors, so that it is written again.
        await tx.execute("DELETE FROM chunk_vector WHERE profile_id = %(id)s", id=first.id)
        await write(tx, whole)
        chunks = prepared(whole, first).chunk_count
        assert chunks != prepared(RAW, first).chunk_count
        assert await counts(tx, first, second) == (chunks, chunks, chunks, chunks, 0)
        await store.remove_repository(tx, snapshot.view.repository_id)
        rows = await tx.fetch_all("SELECT term, chunks FROM term_frequency WHERE chunks <> 0")
        assert rows == []


async def test_vectors_that_do_not_fit_their_text_any_more_are_not_stored(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        snapshot = await write(tx, RAW)
        profile = await secondary_model.open_secondary(tx, Profile(0, "second-two", "two", 4))
        [text] = await secondary_model.missing(tx, profile)
        many, few = np.ones((99, 4), np.float32), np.ones((len(text.chunks), 4), np.float32)
        assert await secondary_model.write_vectors(tx, profile, {text.blob_id: many, 99: few})
        assert (await counts(tx, snapshot.profile, profile))[-1] == 0
        for _ in range(2):  # twice, as if another process had been faster
            assert await secondary_model.write_vectors(tx, profile, {text.blob_id: few})
        assert (await counts(tx, snapshot.profile, profile))[-1] == len(text.chunks)
        assert await secondary_model.drop(tx)
        assert not await secondary_model.write_vectors(tx, profile, {text.blob_id: few})
        assert (await counts(tx, snapshot.profile, profile))[-1] == 0
        assert not await secondary_model.drop(tx)
