"""Files in a folder that all processes of this machine map: copies of what the database holds.

A file is replaced as a whole: a process that has mapped it goes on with the old content. The least
recently used files are deleted when all together are too large.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from codebase_mcp.database.supervisor import try_lock

# Files that nobody asked for lately are deleted, down to this many bytes.
MOST_BYTES = 4 << 30


class ImageFolder:
    """The files in a folder, each by a name without slashes, with the same suffix."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix

    def use(self, name: str) -> tuple[int, int] | None:
        """Note that a file is used; what tells it from one that replaced it, None without one."""
        with suppress(OSError):
            path = self._path(name)
            os.utime(path)
            state = path.stat()
            return state.st_ino, state.st_size
        return None

    def map(self, name: str) -> mmap.mmap:
        """Map a file. Raises OSError if it cannot be read, ValueError if it is empty."""
        with self._path(name).open("rb") as file:
            return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    @contextmanager
    def new(self, name: str) -> Iterator[IO[bytes]]:
        """A file that has this name when the block ends. Raises OSError if it cannot be made."""
        path, scratch = self._path(name), self._folder / f"{uuid4().hex}.tmp"
        self._make()
        try:
            scratch.touch(0o600, exist_ok=False)
            with scratch.open("wb") as file:
                yield file
            scratch.replace(path)
        finally:
            with suppress(OSError):
                scratch.unlink()
        self._delete_oldest(path)

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Whether no other process makes this file; none does until the block ends.

        Where the folder cannot be written, each process makes its own.
        """
        try:
            self._make()
            lock = (self._folder / f"{name}.lock").open("wb")
        except OSError:
            yield True
            return
        with lock:
            yield try_lock(lock.fileno(), fcntl.LOCK_EX)

    def forget(self, prefix: str) -> None:
        """Delete the files whose names begin so."""
        for path in self._folder.glob(f"{prefix}*"):
            with suppress(OSError):
                path.unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.{self._suffix}"

    def _make(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _delete_oldest(self, kept: Path) -> None:
        """Delete the files that were used longest ago, and what a killed process left."""
        files = []
        for path in self._folder.iterdir():
            with suppress(OSError):
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        total = sum(size for _, size, _ in files)
        for used_at, size, path in sorted(files):
            is_left = path.suffix == ".tmp" and time.time() - used_at > 3600
            if path != kept and (is_left or total > MOST_BYTES):
                path.unlink(missing_ok=True)
                total -= size
