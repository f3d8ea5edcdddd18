"""Helpers for the tests of indexing: what an index holds and finds, and how a file changes."""

from __future__ import annotations

import os
from pathlib import Path

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.projects import find_project
from codebase_mcp.search.scope import frequencies_statement

# Every table of a project that the content of a repository reaches.
TABLES = (
    "repository",
    "snapshot",
    "file",
    "blob",
    "chunk",
    "chunk_vector",
    "symbol",
    "blob_reference",
)


# What is not counted as it should be: each text that is searched by default counts once, for one
# repository, and no other text does.
_MISCOUNTED = """
    WITH wanted AS (
        SELECT term, b.counted_for, count(*) AS chunks
        FROM blob AS b JOIN chunk AS c ON c.blob_id = b.id, unnest(ARRAY[-1] || c.terms) AS term
        WHERE b.counted_for IS NOT NULL
        GROUP BY term, b.counted_for
    ), stored AS (
        SELECT term, counted_for, chunks FROM term_frequency WHERE chunks <> 0
    )
    (TABLE wanted EXCEPT TABLE stored) UNION ALL (TABLE stored EXCEPT TABLE wanted)
    UNION ALL
    SELECT NULL, counted_for, id FROM blob WHERE (counted_for IS NOT NULL) <> EXISTS (
        SELECT FROM file AS f JOIN snapshot AS s ON s.id = f.snapshot_id
        WHERE f.blob_id = blob.id AND s.active
    )
"""
_IN_SNAPSHOT = """
    SELECT term, count(*)
    FROM chunk AS c, unnest(ARRAY[-1] || c.terms) AS term
    WHERE c.blob_id IN (SELECT blob_id FROM view_file WHERE snapshot_id = ANY(%(ids)s))
    GROUP BY term
"""


async def check_frequencies(tx: Transaction) -> None:
    """Terms are counted right for each repository, in each snapshot and in all of them together."""
    assert not await tx.fetch_all(_MISCOUNTED)
    snapshots = [row[0] for row in await tx.fetch_all("SELECT id FROM snapshot")]
    terms = [row[0] for row in await tx.fetch_all("SELECT DISTINCT term FROM term_frequency")]
    for ids in [*([one] for one in snapshots), snapshots]:
        wanted = dict(await tx.fetch_all(_IN_SNAPSHOT, ids=ids))
        [found] = await tx.fetch_many([frequencies_statement({*terms, *wanted}, ids)])
        assert dict(found) == wanted


async def found_paths(app: App, project_id: str, query: str) -> list[str]:
    report = await app.search(query, project_id)
    return [hit.file_path for hit in report.answer.hits]


async def rows(database: Database, project_id: str) -> dict[str, int]:
    """How many rows each table of the project has; term_frequency as the sum of its counts."""
    project = await find_project(database, project_id)
    counts = {}
    async with database.transaction(project) as tx:
        for table in TABLES:
            row = await tx.fetch_one(f"SELECT count(*) FROM {table}")
            assert row is not None
            counts[table] = row[0]
        row = await tx.fetch_one("SELECT coalesce(sum(chunks), 0)::bigint FROM term_frequency")
        assert row is not None
        counts["frequencies"] = row[0]
    return counts


def later(file: Path, content: str) -> None:
    """Change a file as an editor would, with a time that cannot be mistaken for the last one."""
    stat = file.stat()
    file.write_text(content)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))
