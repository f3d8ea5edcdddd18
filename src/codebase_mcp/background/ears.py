"""What has happened to the files in these directories? The operating system tells.

On Linux each directory is listened to by itself, so that what is ignored costs nothing; elsewhere
the system listens to whole trees for the price of one.
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

# Events that follow each other by less than a step are told together, but none later than this.
STEP_MS = 25
GATHER_MS = 100

# Directories that appear are listened to by further listeners, until it pays to begin again.
_MOST_LISTENERS = 4

LISTENS_TO_TREES = sys.platform in ("darwin", "win32")

LIMITS = (
    "raise fs.inotify.max_user_watches (and max_user_instances) with sysctl, or ignore directories"
    " that hold no source"
)


class CannotListen(Exception):
    """The operating system listens to no more directories."""


class Ears:
    """Tells ``tell``, in the event loop, which paths something happened to."""

    def __init__(self, tell: Callable[[set[str]], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._listeners: list[_Listener] = []

    async def listen(self, directories: Sequence[str]) -> None:
        """Listen to these directories, and to no others.

        Raises:
            CannotListen: there are too many of them.
        """
        before, self._listeners = self._listeners, []
        try:
            await self._add(directories)
        finally:
            await asyncio.to_thread(_close, before)

    async def listen_too(self, directories: Sequence[str], all_of_them: Sequence[str]) -> None:
        """Listen to these directories too, which are among all of them.

        Raises:
            CannotListen: there are too many of them.
        """
        if LISTENS_TO_TREES:
            return
        if len(self._listeners) < _MOST_LISTENERS:
            await self._add(directories)
        else:
            await self.listen(all_of_them)

    async def close(self) -> None:
        """Listen to nothing any more."""
        listeners, self._listeners = self._listeners, []
        await asyncio.to_thread(_close, listeners)

    async def _add(self, directories: Sequence[str]) -> None:
        listener = await asyncio.to_thread(_Listener, directories, self._hear)
        self._listeners.append(listener)

    def _hear(self, paths: set[str]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tell, paths)
        except RuntimeError:  # the loop has ended
            log.debug("Nobody listens any more")


class _Listener:
    """One set of directories, with the thread that waits for news of them."""

    def __init__(self, directories: Sequence[str], hear: Callable[[set[str]], None]) -> None:
        self._notify = _notify_of(directories)
        self._hear = hear
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="ears", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._end.is_set():
            news = self._notify.watch(GATHER_MS, STEP_MS, 0, self._end)
            if isinstance(news, set):
                self._hear({path for _, path in news})

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self._notify.close()


def _close(listeners: Sequence[_Listener]) -> None:
    for listener in listeners:
        listener.close()


def _notify_of(directories: Sequence[str]) -> RustNotify:
    """A listener to directories, without those that are gone or closed to us.

    Raises:
        CannotListen: there are too many of them.
    """
    # It could ignore what it is refused by itself; but then it ignores its limits too.
    while True:
        wanted = [one for one in directories if os.access(one, os.R_OK | os.X_OK)]
        try:
            return RustNotify(wanted, False, False, 0, LISTENS_TO_TREES, False)
        except (FileNotFoundError, PermissionError):  # just now; there is less each time
            continue
        except OSError as error:
            raise CannotListen(str(error)) from error
