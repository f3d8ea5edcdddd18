"""Cancels a call when its client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

Content = TypeVar("Content")


async def until_hang_up(request: Request, call: Coroutine[Any, Any, Content]) -> Content:
    """The result of a call, which is cancelled when its client disconnects.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    answer, hang_up = asyncio.create_task(call), asyncio.create_task(_hang_up(request))
    both: tuple[asyncio.Task[Any], ...] = (answer, hang_up)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise ClientDisconnect
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
