"""Wait for what another task, thread or process does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 90.0


async def until(condition: Callable[[], T | Awaitable[T]], *, pause_s: float = 0.01) -> T:
    """Wait until the condition is true, and return its value.

    Raises:
        TimeoutError: it does not become true within the limit.
    """
    async with asyncio.timeout(LIMIT_S):
        while True:
            value = condition()
            if isinstance(value, Awaitable):
                value = await value
            if value:
                return value
            await asyncio.sleep(pause_s)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true, in a test without an event loop."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
