"""How do child processes relate to their parent? Ctrl-C, and the death of the parent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, parent_process


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


def on_parent_exit(action: Callable[[], None], *pipes: connection.Connection) -> None:
    """Call ``action`` in a thread when the parent process exits or one of ``pipes`` closes.

    A parent that is killed cannot stop its workers itself.
    """
    parent = parent_process()
    assert parent is not None
    sentinels: list[connection.Connection | int] = [parent.sentinel, *pipes]

    def wait() -> None:
        connection.wait(sentinels)
        action()

    threading.Thread(target=wait, name="parent-watcher", daemon=True).start()
