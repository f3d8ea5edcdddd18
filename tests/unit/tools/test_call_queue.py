"""Some calls run, some wait in order, and further ones are refused at once."""

from __future__ import annotations

import asyncio

import pytest

from codebase_mcp.errors import Overloaded
from codebase_mcp.tools import running
from codebase_mcp.tools.running import CallQueue

pytestmark = pytest.mark.anyio


async def test_what_neither_runs_nor_waits_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "_WAITING_PER_SLOT", 2)
    queue, go_on, order = CallQueue("calls", 2), asyncio.Event(), list[int]()

    async def call(number: int) -> None:
        async with queue.slot():
            order.append(number)
            await go_on.wait()

    calls = [asyncio.create_task(call(number)) for number in range(6)]
    while len(order) < 2 or queue._whole.waiting < 4:
        await asyncio.sleep(0)
    with pytest.raises(Overloaded) as refused:
        await call(6)
    assert refused.value.message == "The server is overloaded: 4 calls are waiting"
    assert refused.value.details == {"retry_after_seconds": refused.value.retry_after_s}
    calls[2].cancel()  # one that waits makes room for another
    await asyncio.wait([calls[2]])
    late = asyncio.create_task(call(7))
    go_on.set()
    await asyncio.gather(*calls[:2], *calls[3:], late)
    assert order == [0, 1, 3, 4, 5, 7]
    await call(8)  # all places are free again


async def test_a_call_waits_for_a_limited_time() -> None:
    queue = CallQueue("calls", 1, wait_s=0.0)
    async with queue.slot():
        with pytest.raises(Overloaded):
            async with queue.slot():
                pass
    async with queue.slot():
        pass


async def test_a_place_is_given_back_after_an_error() -> None:
    queue = CallQueue("calls", 1, wait_s=0.0)
    with pytest.raises(ZeroDivisionError):
        async with queue.slot():
            raise ZeroDivisionError
    async with queue.slot():
        pass
