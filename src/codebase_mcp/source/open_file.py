"""Opens files without following any link.

A path is checked before the file is opened, and any directory on the way may be replaced by a link
in between. ``O_NOFOLLOW`` protects only the last part of a path, so the parts are opened in turn.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

# On Linux, opening a directory this way needs no permission to list it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe this way does not block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(location: bytes) -> BufferedReader | None:
    """The regular file at an absolute path; None if the path leads to anything else.

    Raises:
        OSError: nothing is there, it may not be read, or the path contains a link.
    """
    handle = _open(location)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    return None


def read_regular(location: bytes, max_bytes: int) -> bytes | None:
    """The content of the regular file at an absolute path, at most a byte more than the limit.

    None if the path leads to anything else.

    Raises:
        OSError: as ``open_regular``.
    """
    file = open_regular(location)
    if file is None:
        return None
    with file:
        return file.read(max_bytes + 1)


def is_real_directory(path: Path) -> bool:
    """Whether the path is that of a directory and contains no link.

    A repository's root was such a path when it was stored. If the path contains a link now, it
    leads to another directory, and the repository is gone.
    """
    return path.is_dir() and os.path.realpath(path) == str(path)


def _open(location: bytes) -> int:
    _, *folders, name = location.split(b"/")
    if b".." in folders:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), location)
    if any_link := getattr(os, "O_NOFOLLOW_ANY", 0):  # macOS does it in a call
        return os.open(location, _FILE & ~os.O_NOFOLLOW | any_link)
    above = os.open("/", _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=above)
            os.close(above)
            above = inner
        return os.open(name, _FILE, dir_fd=above)
    finally:
        os.close(above)
