"""What happens to tasks that belong together when one of them fails?"""

from __future__ import annotations

import asyncio

import pytest

from codebase_mcp.processes import task_group

pytestmark = pytest.mark.anyio


async def test_first_failure_is_raised_as_it_is_and_cancels_the_others() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("the first")

    with pytest.raises(LookupError, match="the first") as failed:
        async with task_group() as group:
            group.create_task(wait())
            group.create_task(fail())
    assert ended == ["cancelled"]
    assert failed.value.__cause__ is None


async def test_results_are_there_after_the_block() -> None:
    async with task_group() as group:
        tasks = [group.create_task(asyncio.sleep(0, number)) for number in range(3)]
    assert [task.result() for task in tasks] == [0, 1, 2]


async def test_cancelling_the_caller_cancels_the_tasks() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async def call() -> None:
        async with task_group() as group:
            group.create_task(work())

    calling = asyncio.create_task(call())
    await started.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
