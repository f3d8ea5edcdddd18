"""What ends together: tasks, and child processes with their parents; their environment."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A group of tasks, all of which have ended after the block.

    The first failure cancels the others, and is raised as it is, not in an exception group.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


@contextmanager
def block_sigint_in_children() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C; their parent stops them instead."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # children inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_locks: dict[str, threading.Lock] = {}


@contextmanager
def default_variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment within this block, unless the user has set it.

    For children started in the block, or for a library without other settings: the environment
    belongs to the program that uses us.
    """
    with _locks.setdefault(name, threading.Lock()):
        if name in os.environ:  # noqa: TID251
            yield
            return
        os.environ[name] = value  # noqa: TID251
        try:
            yield
        finally:
            del os.environ[name]  # noqa: TID251


def on_parent_exit(action: Callable[[], None]) -> None:
    """Call ``action`` in a thread when the parent process exits.

    A parent that is killed cannot stop its workers itself.
    """
    from multiprocessing import parent_process  # noqa: PLC0415 - only where there are children

    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        action()

    threading.Thread(target=wait, name="parent-watcher", daemon=True).start()
