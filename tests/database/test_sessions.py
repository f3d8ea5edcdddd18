"""Sessions and agents, whoever starts them at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.records.sessions import (
    Session,
    activity_in,
    end_session,
    find_agent,
    open_agent,
    session_for,
    start_session,
    track_execution,
)
from codebase_mcp.source.git import Head

pytestmark = pytest.mark.anyio

HERE = Path("/here")
HEAD = Head("main", "a" * 40)


async def start(
    database: Database, project: Project, name: str, owner: str | None, head: Head = HEAD
) -> Session:
    async with database.transaction(project) as tx:
        return await start_session(tx, name, owner, HERE if owner else None, head)


async def end(database: Database, project: Project, name: str, head: Head = HEAD) -> Session:
    async with database.transaction(project) as tx:
        return await end_session(tx, name, head)


async def open_for(database: Database, project: Project, owner: str | None) -> str | None:
    async with database.transaction(project, readonly=True) as tx:
        return await session_for(tx, None, owner)


async def test_of_many_that_start_a_session_at_once_all_have_the_same(
    database: Database, project: Project
) -> None:
    started = await asyncio.gather(
        *(start(database, project, "s", f"owner {n}") for n in range(10))
    )
    assert len({session.started_at for session in started}) == 1
    owners = [await open_for(database, project, f"owner {n}") for n in range(10)]
    assert owners.count("s") == 1


async def test_the_session_of_a_caller_is_the_one_it_started_last_and_has_not_ended(
    database: Database, project: Project
) -> None:
    assert await open_for(database, project, "me") is None
    for name in ("first", "second"):
        await start(database, project, name, "me")
    await start(database, project, "third", "somebody else")
    assert await open_for(database, project, "me") == "second"
    await end(database, project, "second")
    assert await open_for(database, project, "me") == "first"
    await end(database, project, "first")
    assert await open_for(database, project, "me") is None


async def test_a_session_goes_over_to_whoever_starts_it_again(
    database: Database, project: Project
) -> None:
    await start(database, project, "s", "me")
    await start(database, project, "s", None)
    assert await open_for(database, project, "me") == "s"
    await start(database, project, "s", "somebody else")
    assert await open_for(database, project, "me") is None
    assert await open_for(database, project, "somebody else") == "s"


async def test_who_is_nobody_has_no_session(database: Database, project: Project) -> None:
    await start(database, project, "s", None)
    assert await open_for(database, project, None) is None


async def test_where_a_session_stood_at_its_start_and_its_end_is_kept(
    database: Database, project: Project
) -> None:
    started = await start(database, project, "s", "me")
    ended = await end(database, project, "s", Head("release", "b" * 40))
    assert (ended.start_branch, ended.start_commit) == ("main", "a" * 40)
    assert (ended.end_branch, ended.end_commit) == ("release", "b" * 40)
    assert await end(database, project, "s", Head("other", "c" * 40)) == ended
    again = await start(database, project, "s", "me", Head("other", "c" * 40))
    assert again == started


async def test_of_many_that_make_an_agent_at_once_all_have_the_same(
    database: Database, project: Project
) -> None:
    async def make() -> UUID:
        async with database.transaction(project) as tx:
            return (await open_agent(tx, "tester", None, None)).id

    assert len(set(await asyncio.gather(*(make() for _ in range(10))))) == 1


async def test_no_execution_is_lost_among_many_at_once(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        await open_agent(tx, "tester", None, None)

    async def track(number: int) -> None:
        async with database.transaction(project) as tx:
            await track_execution(tx, "tester", {"success": number % 3 > 0}, None)

    await asyncio.gather(*(track(number) for number in range(12)))
    async with database.transaction(project, readonly=True) as tx:
        agent = await find_agent(tx, "tester")
    assert (agent.executions, agent.failures, agent.success_rate) == (12, 4, 8 / 12)


async def test_an_unbound_agent_works_in_the_session_of_its_caller(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        await open_agent(tx, "tester", None, "me")
    await start(database, project, "mine", "me")
    await start(database, project, "theirs", "somebody else")
    async with database.transaction(project) as tx:
        await track_execution(tx, "tester", {}, "me")
    async with database.transaction(project, readonly=True) as tx:
        _, [mine] = await activity_in(tx, "mine")
        assert await activity_in(tx, "theirs") == ([], [])
    assert (mine.agent_name, mine.executions, mine.failures) == ("tester", 1, 0)


async def test_an_agent_that_is_bound_to_a_session_shows_in_it_before_it_does_anything(
    database: Database, project: Project
) -> None:
    await start(database, project, "s", "me")
    async with database.transaction(project) as tx:
        await open_agent(tx, "tester", "s", None)
        _, [agent] = await activity_in(tx, "s")
    assert (agent.agent_name, agent.executions) == ("tester", 0)
    assert agent.last_active_at is not None
