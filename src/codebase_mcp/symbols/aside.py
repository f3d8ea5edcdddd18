"""Where is much work done? Not in the event loop, where it would hold up all other calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# What is done with this many rows or uses takes some milliseconds.
MANY = 500


async def aside(count: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function makes of a number of things; in a thread if they are many."""
    if count < MANY:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
