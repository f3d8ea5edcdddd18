"""Helpers for the tests of indexing: what an index holds and finds, and how a file changes."""

from __future__ import annotations

import os
from pathlib import Path

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import find_project

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
