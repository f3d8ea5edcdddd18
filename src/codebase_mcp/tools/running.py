"""Which calls are under way, and how do they come to an end when the server does?"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

from codebase_mcp.errors import ShuttingDown

Content = TypeVar("Content")

# A cancelled call closes its transaction first. One that hangs longer is abandoned.
_CANCEL_S = 0.5


class RunningCalls:
    """The calls of one server, each a task of its own.

    A transport cancels what it runs again and again until it stops, so that nothing could be
    awaited on the way out; here a call is cancelled once, and its end is waited for.
    """

    def __init__(self) -> None:
        self._replies: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        self.is_draining = False

    def __len__(self) -> int:
        return len(self._replies)

    async def run(self, call: Coroutine[Any, Any, Content]) -> Content:
        """The outcome of a call, which is cancelled with its caller.

        Raises:
            ShuttingDown: the server ends; the call was not started, or was cancelled.
        """
        if self.is_draining:
            call.close()
            raise _shutting_down("no new calls are accepted")
        task = asyncio.create_task(call)
        reply = asyncio.get_running_loop().create_future()
        self._replies[task] = reply
        task.add_done_callback(self._ended)
        try:
            await reply
        except asyncio.CancelledError:
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
            raise
        if not task.done() or task.cancelled():
            raise _shutting_down("the call was cancelled")
        return task.result()

    async def drain(self, limit_s: float) -> None:
        """Take no new calls, let those under way finish, and cancel what takes longer."""
        self.is_draining = True
        if self._replies:
            await asyncio.wait(list(self._replies), timeout=limit_s)
        await self.stop()

    async def stop(self) -> None:
        """Cancel what is under way; callers get their error at once."""
        late = list(self._replies.items())
        for task, reply in late:
            task.cancel()
            if not reply.done():
                reply.set_result(None)
        if late:
            await asyncio.wait([task for task, _ in late], timeout=_CANCEL_S)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        reply = self._replies.pop(task)
        if not reply.done():
            reply.set_result(None)
        if not task.cancelled():
            task.exception()  # retrieved, as the caller may have gone


def _shutting_down(what: str) -> ShuttingDown:
    return ShuttingDown(
        f"The server is shutting down: {what}",
        hint="Call again when the server is back. What an index run has stored is kept.",
    )
