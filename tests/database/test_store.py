"""What of a text is stored once for all models, and what for each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.projects import Project
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.index import store
from codebase_mcp.index.prepare import PreparedBlob, Preparer, RawText
from codebase_mcp.model import FileKind, SourceFile

pytestmark = pytest.mark.anyio

CODE = "\n\n".join(
    f"def number_{n}():\n" + "".join(f"    value_{n} += {i}\n" for i in range(70)) for n in range(3)
)
RAW = RawText(7, b"h" * 20, "python", CODE)
FILE = SourceFile(
    "a.py", Path("/r/a.py"), len(CODE), 1, 1, "python", FileKind.CODE, named_as_source=True
)


def prepared(raw: RawText, profile: Profile) -> PreparedBlob:
    """A text with vectors of so many dimensions."""
    [blob] = Preparer().prepare([raw], profile.id, 1, None)
    return blob.with_vectors(profile.id, np.ones((blob.chunk_count, profile.dimension), np.float32))


async def write(tx: Transaction, raw: RawText, name: str, *, rebuild: bool) -> store.Snapshot:
    """Store a repository of one file as a run with this model would."""
    profile = Profile(0, f"1-{name}", name, 4)
    repository_id, _ = await store.open_repository(tx, PROJECT, Path("/r"), None)
    snapshot = await store.open_snapshot(tx, repository_id, profile, rebuild=rebuild)
    blob = prepared(raw, snapshot.profile)
    record = store.FileRecord(FILE, raw.blob_id, 10**18)
    _, missing = await store.write_batch(tx, snapshot, [record], {raw.blob_id: blob})
    assert not missing
    await store.finish_run(tx, snapshot, {}, [])
    return snapshot


PROJECT = Project(None, "any", datetime.now(UTC))

COUNTS = """
SELECT (SELECT count(*) FROM chunk), (SELECT sum(chunk_count) FROM blob),
       (SELECT chunks FROM term_frequency WHERE term = -1),
       (SELECT count(*) FROM chunk_vector WHERE profile_id = %(first)s),
       (SELECT count(*) FROM chunk_vector WHERE profile_id = %(second)s)
"""


async def counts(tx: Transaction, *snapshots: store.Snapshot) -> tuple[int, ...]:
    first, second = (snapshot.profile.id for snapshot in snapshots)
    row = await tx.fetch_one(COUNTS, first=first, second=second)
    assert row is not None
    return tuple(int(value) for value in row)


async def test_two_models_share_texts_chunks_and_words(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        first = await write(tx, RAW, "one", rebuild=False)
        second = await write(tx, RAW, "two", rebuild=True)
        chunks = prepared(RAW, first.profile).chunk_count
        assert chunks > 1
        assert await counts(tx, first, second) == (chunks,) * 5
        assert await store.undo_switch(tx, first.repository_id)
        found = await store.active_profile(tx, first.repository_id)
        assert found is not None
        assert found.model == "one"


async def test_a_text_that_is_cut_in_another_way_is_counted_right(
    database: Database, project: Project
) -> None:
    whole = replace(RAW, unparsed=True)
    async with database.transaction(project) as tx:
        first = await write(tx, RAW, "one", rebuild=False)
        second = await write(tx, whole, "two", rebuild=True)
        chunks = prepared(whole, second.profile).chunk_count
        assert chunks != prepared(RAW, first.profile).chunk_count
        assert await counts(tx, first, second) == (chunks, chunks, chunks, 0, chunks)
        await store.remove_repository(tx, second.repository_id)
        rows = await tx.fetch_all("SELECT term, chunks FROM term_frequency WHERE chunks <> 0")
        assert rows == []
