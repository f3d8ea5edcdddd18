"""Statements of the search whose plans must not depend on luck: one plan serves any parameters."""

from __future__ import annotations

import pytest

from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries

pytestmark = pytest.mark.anyio

_SEARCH = load_queries("codebase_mcp.search", "search.sql")

CHUNKS = """
INSERT INTO chunk (blob_id, ordinal, start_line, end_line, kind, terms, lex)
SELECT n / 10, n % 10, 1, 1, 'code', ARRAY[n % 40, n % 41, 1000 + n], '{1:1}/1000000000'
FROM generate_series(1, 20000) AS n
"""


async def test_who_holds_a_rare_word_is_looked_up_not_searched_for_in_all_chunks(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        await tx.run_script(CHUNKS)
        await tx.become_owner()
        await tx.run_script("ANALYZE chunk")
        generic = _SEARCH["holders"].replace("%(term)s", "$1").replace("%(all_snapshots)s", "$2")
        await tx.run_script("SET LOCAL plan_cache_mode = force_generic_plan")
        await tx.run_script(f"PREPARE held AS {generic}")  # type: ignore[arg-type]
        rows = await tx.fetch_all("EXPLAIN EXECUTE held(1000, '{}')")
    plan = "\n".join(row[0] for row in rows)
    assert "chunk_terms" in plan, plan
    assert "chunk_pkey" not in plan, plan
