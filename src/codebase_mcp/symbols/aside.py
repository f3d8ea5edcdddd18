"""Runs long computations in a thread, where they do not hold up other calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Work on this many rows or uses takes some milliseconds.
MANY = 500


async def aside(count: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a function that works on ``count`` items; from 500 on it runs in a thread."""
    if count < MANY:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
