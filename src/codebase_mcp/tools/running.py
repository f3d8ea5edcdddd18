"""Running and waiting calls, and their end: at shutdown, or when their client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import anyio

from codebase_mcp.errors import Overloaded, ShuttingDown

if TYPE_CHECKING:
    from starlette.requests import Request

Content = TypeVar("Content")

# A cancelled call closes its transaction first. After this time it is abandoned.
_CANCEL_S = 0.5
# A search takes some hundredths of a second, so this is the work of a few seconds.
_WAITING_PER_SLOT = 16
# Each takes about 20 KB.
_WAITING_OF_A_CLIENT = 10_000
# Clients and proxies give up after 30 or 60 seconds, and then call again.
_WAIT_S = 15.0
_RETRY_AFTER_S = 2


class _Share:
    """Slots for calls, and the number of calls that wait for a slot."""

    def __init__(self, slots: int, most_waiting: int) -> None:
        self.slots = asyncio.Semaphore(slots)
        self.most_waiting = most_waiting
        self.waiting = 0

    @property
    def is_full(self) -> bool:
        return self.waiting >= self.most_waiting


class CallQueue:
    """Runs a limited number of calls at once; a limited number waits, further calls are refused.

    Without the limit each of a thousand calls would get a thousandth of the processor, and all of
    them would time out. A caller gets half of the slots at most: else a few slow calls would delay
    all callers. Calls of a ``single_client`` wait without a limit of time: it has sent all of them,
    perhaps from a file, and gains nothing by calling again.
    """

    def __init__(
        self, name: str, slots: int, *, wait_s: float | None = _WAIT_S, single_client: bool = False
    ) -> None:
        self._name = name
        self._slots = slots
        self._most_waiting = _WAITING_OF_A_CLIENT if single_client else slots * _WAITING_PER_SLOT
        self._wait_s = None if single_client else wait_s
        self._whole = _Share(slots, self._most_waiting)
        self._of_caller: WeakValueDictionary[str, _Share] = WeakValueDictionary()

    @asynccontextmanager
    async def slot(self, caller: str | None = None) -> AsyncIterator[None]:
        """A slot, while the block runs; without a name there is only this caller.

        Raises:
            Overloaded: too many calls wait, or no slot became free in time.
        """
        shares = [self._whole] if caller is None else [self._share_of(caller), self._whole]
        if any(share.is_full for share in shares):
            raise self.overloaded()
        async with AsyncExitStack() as taken:
            for share in shares:
                share.waiting += 1
            try:
                async with asyncio.timeout(self._wait_s):
                    for share in shares:
                        await taken.enter_async_context(share.slots)
            except TimeoutError:
                raise self.overloaded() from None
            finally:
                for share in shares:
                    share.waiting -= 1
            yield

    def _share_of(self, caller: str) -> _Share:
        """The share of a caller in the queue; kept while it has calls."""
        share = self._of_caller.get(caller)
        if share is None:
            share = _Share(max(1, self._slots // 2), max(1, self._most_waiting // 2))
            self._of_caller[caller] = share
        return share

    @property
    def is_full(self) -> bool:
        """Whether any further call would be refused."""
        return self._whole.is_full

    def overloaded(self) -> Overloaded:
        return Overloaded(
            f"The server is overloaded: {self._whole.waiting} {self._name} are waiting",
            hint=f"Nothing was done; call again in {_RETRY_AFTER_S} seconds or later.",
            retry_after_s=_RETRY_AFTER_S,
        )


class RunningCalls:
    """The calls of one server, each a task of its own.

    A transport cancels its own tasks repeatedly until they stop, so they cannot await anything
    while they end. These tasks are cancelled once, and awaited.
    """

    def __init__(self) -> None:
        self._replies: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        self.is_draining = False

    def __len__(self) -> int:
        return len(self._replies)

    async def run(self, call: Coroutine[Any, Any, Content]) -> Content:
        """The result of a call, which is cancelled with its caller.

        Raises:
            ShuttingDown: the server ends; the call was not started, or was cancelled.
        """
        if self.is_draining:
            call.close()
            raise shutting_down("no new calls are accepted")
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
            raise shutting_down("the call was cancelled")
        return task.result()

    async def drain(self, limit_s: float) -> None:
        """Refuse new calls, wait for the running calls, and cancel those that exceed the limit."""
        self.is_draining = True
        if self._replies:
            await asyncio.wait(list(self._replies), timeout=limit_s)
        await self.stop()

    async def stop(self) -> None:
        """Cancel the running calls; callers get their error at once."""
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


def shutting_down(what: str) -> ShuttingDown:
    """The error for a call that comes, or is under way, while the server ends."""
    return ShuttingDown(
        f"The server is shutting down: {what}",
        hint="Call again when the server is back. What an index run has stored is kept.",
    )


async def until_hang_up(request: Request, call: Coroutine[Any, Any, Content]) -> Content:
    """The result of a call, which is cancelled when its client disconnects.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    from starlette.requests import ClientDisconnect  # noqa: PLC0415 - for HTTP alone

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
