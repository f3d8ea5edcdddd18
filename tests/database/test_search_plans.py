"""Statements of the search whose plans must not depend on luck: one plan serves any parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.database.queries import load_queries

pytestmark = pytest.mark.anyio

_SEARCH = load_queries("codebase_mcp.search", "search.sql")

CHUNKS = """
INSERT INTO chunk (blob_id, ordinal, start_line, end_line, kind, terms, lex)
SELECT n / 10, n % 10, 1, 1, 'code', ARRAY[n % 40, n % 41, 1000 + n], '{1:1}/1000000000'
FROM generate_series(1, 20000) AS n
"""


async def generic_plan(database: Database, project: Project, statement: str, arguments: str) -> str:
    """The plan for any parameters of a statement over many chunks."""
    async with database.transaction(project) as tx:
        await tx.run_script(CHUNKS)
        await tx.become_owner()
        await tx.run_script("ANALYZE chunk")
        await tx.run_script("SET LOCAL plan_cache_mode = force_generic_plan")
        await tx.run_script(f"PREPARE asked AS {statement}")  # type: ignore[arg-type]
        rows = await tx.fetch_all(f"EXPLAIN EXECUTE asked({arguments})")  # type: ignore[arg-type]
    return "\n".join(row[0] for row in rows)


async def test_who_holds_a_rare_word_is_looked_up_not_searched_for_in_all_chunks(
    database: Database, project: Project
) -> None:
    generic = _SEARCH["holders"].replace("%(term)s", "$1").replace("%(all_snapshots)s", "$2")
    plan = await generic_plan(database, project, generic, "1000, '{}'")
    assert "chunk_terms" in plan, plan
    assert "chunk_pkey" not in plan, plan


async def test_chunks_of_common_words_are_looked_up_not_searched_for_in_all_chunks(
    database: Database, project: Project
) -> None:
    """In a million chunks that took seconds."""
    generic = _SEARCH["common_words"].replace("%(query)s", "'{1:1}/1000000000'")
    generic = generic.replace("%(expansion)s", "'{1:1}/1000000000'").replace("%(hidden)s", "'{}'")
    for number, name in enumerate(("rare", "rare_expansion", "bound", "limit"), 1):
        generic = generic.replace(f"%({name})s", f"${number}")
    plan = await generic_plan(database, project, generic, "'{7,8}', '{}', 10000, 1000")
    assert "chunk_terms" in plan, plan
    assert "chunk_pkey" not in plan, plan


REPOSITORIES = """
INSERT INTO profile (fingerprint, model, dimension) VALUES ('a', 'a', 1);
INSERT INTO repository (id, root, name)
SELECT md5(n::text)::uuid, '/' || n, n::text FROM generate_series(1, 2) AS n;
INSERT INTO snapshot (repository_id, view, generation, profile_id, active, classifier)
SELECT md5(n::text)::uuid, 'worktree', 1, p.id, true, 1
FROM profile AS p, generate_series(1, 2) AS n;
INSERT INTO blob (id, hash, language, generation, chunk_count, text, comments, counted_for)
SELECT n, '', 'c', 1, 10, '', '{}/1000000000', md5(CASE WHEN n < 9 THEN '1' ELSE '2' END)::uuid
FROM generate_series(0, 2000) AS n;
INSERT INTO file (snapshot_id, path, blob_id, size, mtime_ns, ctime_ns, language, extension, kind,
                  name_terms)
SELECT s.id, b.id::text, b.id, 1, 1, 1, 'c', 'c', 'code', '{}'
FROM blob AS b
JOIN snapshot AS s ON s.repository_id = b.counted_for;
INSERT INTO term_frequency (term, counted_for, chunks)
SELECT term, b.counted_for, count(*)
FROM blob AS b
JOIN chunk AS c ON c.blob_id = b.id, unnest(ARRAY[-1] || c.terms) AS term
GROUP BY term, b.counted_for;
"""


BASED = """
INSERT INTO snapshot (repository_id, view, generation, profile_id, active, classifier, base_id)
SELECT repository_id, 'based', 1, profile_id, false, 1, id FROM snapshot WHERE id = 1;
INSERT INTO replaced_file (snapshot_id, path) SELECT max(id), '3' FROM snapshot;
"""


@pytest.mark.parametrize("way", ["hash table", "one by one"])
async def test_texts_that_pass_filters_are_looked_up_together_if_few_and_else_one_by_one(
    database: Database, project: Project, way: str
) -> None:
    """In one of twenty repositories the first way takes a third of a search's time."""
    statement = _SEARCH["words_filtered"].replace("%(rare)s", "$1").replace("%(snapshots)s", "$2")
    for name in ("query", "expansion"):
        statement = statement.replace(f"%({name})s", "'{1:1}/1000000000'")
    for name in ("extensions", "languages", "kinds", "directory", "limit"):
        statement = statement.replace(f"%({name})s", "NULL")
    if way == "one by one":
        statement = statement.replace("<= 10000", "< 0")
    async with database.transaction(project) as tx:
        for script in (CHUNKS, REPOSITORIES, BASED):
            await tx.run_script(script)  # type: ignore[arg-type]
        await tx.become_owner()
        await tx.run_script("ANALYZE; SET LOCAL plan_cache_mode = force_generic_plan")
        await tx.run_script(f"PREPARE found AS {statement}")  # type: ignore[arg-type]

        async def blobs_in(snapshots: str) -> set[int]:
            asked = f"EXECUTE found('{{{','.join(map(str, range(40)))}}}', '{snapshots}')"
            return {row[0] for row in await tx.fetch_all(asked)}  # type: ignore[arg-type]

        assert await blobs_in("{1}") == set(range(9))
        assert await blobs_in("{3}") == {*range(9)} - {3}
        assert await blobs_in("{2,3}") == {*range(2001)} - {3}
        plan = await tx.fetch_all("EXPLAIN EXECUTE found('{1}', '{1}')")
    assert "(hashed SubPlan" in "\n".join(row[0] for row in plan)


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("difference", [0, 1])
async def test_how_rare_words_are_in_a_repository_is_known_without_its_chunks_and_those_of_others(
    database: Database, project: Project, mode: str, difference: int
) -> None:
    async with database.transaction(project) as tx:
        await tx.run_script(CHUNKS)
        await tx.run_script(REPOSITORIES)
        if difference:
            await tx.run_script("DELETE FROM file WHERE blob_id = 3")
        await tx.become_owner()
        await tx.run_script("ANALYZE")
        statement = _SEARCH["view_frequencies"].replace("%(ids)s", "$1").replace("%(terms)s", "$2")
        await tx.run_script(f"SET LOCAL plan_cache_mode = {mode}")  # type: ignore[arg-type]
        await tx.run_script(f"PREPARE counted AS {statement}")  # type: ignore[arg-type]
        small = "EXECUTE counted('{1}', '{-1, 7, 1039}')"
        assert await tx.fetch_all("SELECT count(*) FROM chunk WHERE blob_id < 9") == [(89,)]
        found = dict(await tx.fetch_all(small))
        [(plan,)] = await tx.fetch_all("EXPLAIN (ANALYZE, FORMAT JSON) " + small)  # type: ignore[arg-type]
    assert found[-1] == 89 - 10 * difference
    assert found.get(1039) == (None if difference else 1)
    read = [node for node in _nodes(plan[0]["Plan"]) if node.get("Relation Name") == "chunk"]
    assert [node["Actual Rows"] * node["Actual Loops"] for node in read] == [10 * difference]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)
