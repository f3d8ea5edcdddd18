"""Whom does Ctrl-C reach? Every process of a terminal; ours are ended by whoever began them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes started in this block never hear an interrupt, from their first moment on."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # they inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
