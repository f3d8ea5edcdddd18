"""Which paths in these directories have changed? The operating system reports events.

On Linux each directory is watched by itself, so ignored directories cost nothing. macOS and Windows
watch a whole tree at the cost of a single directory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence

from watchfiles._rust_notify import RustNotify

log = logging.getLogger(__name__)

# Events less than a step apart are reported together, but no later than the longest delay.
STEP_MS = 25
MAX_DELAY_MS = 100

WATCHES_RECURSIVELY = sys.platform in ("darwin", "win32")

LIMITS_HINT = (
    "raise fs.inotify.max_user_watches (and max_user_instances) with sysctl, or ignore directories"
    " that hold no source"
)


class CannotWatch(Exception):
    """The operating system refuses to watch more directories."""


class DirectoryWatcher:
    """Calls ``on_change`` in the event loop with the paths of each group of events."""

    def __init__(self, on_change: Callable[[set[str]], None]) -> None:
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._thread: _WatchThread | None = None

    async def watch(self, directories: Sequence[str]) -> None:
        """Watch only these directories from now on; events of earlier directories are not lost.

        Raises:
            CannotWatch: there are too many of them.
        """
        before, self._thread = self._thread, None
        try:
            self._thread = await asyncio.to_thread(_WatchThread, directories, self._report)
        finally:
            if before is not None:
                await asyncio.to_thread(before.close)

    async def close(self) -> None:
        """Watch nothing any more."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            await asyncio.to_thread(thread.close)

    def _report(self, paths: set[str]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._on_change, paths)
        except RuntimeError:  # the loop is closed
            log.debug("Events arrived after the event loop was closed")


class _WatchThread:
    """A set of directories, with the thread that waits for their events."""

    def __init__(self, directories: Sequence[str], report: Callable[[set[str]], None]) -> None:
        self._notify = open_notify(directories)
        self._report = report
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="directory-watcher", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            events = self._notify.watch(MAX_DELAY_MS, STEP_MS, 0, self._stop)
            if isinstance(events, set):
                self._report({path for _, path in events})

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._notify.close()


def open_notify(directories: Sequence[str]) -> RustNotify:
    """Watch directories, except those that are gone or not readable.

    The class is private in watchfiles; checked with 1.3.0. The public ``watch`` does not say when
    the directories are watched, except by a timeout, and then it discards events that arrive as
    the time runs out, and it logs every change. If the class is gone, use ``watch`` with
    ``rust_timeout=1`` and ``yield_on_timeout=True``: its first value says that it watches.

    Raises:
        CannotWatch: there are too many of them.
    """
    # Its option to ignore missing permissions also ignores the limits of the system.
    while True:
        readable = [path for path in directories if os.access(path, os.R_OK | os.X_OK)]
        try:
            return RustNotify(readable, False, False, 0, WATCHES_RECURSIVELY, False)
        except (FileNotFoundError, PermissionError):  # a directory went since the check
            continue
        except OSError as error:
            raise CannotWatch(str(error)) from error
