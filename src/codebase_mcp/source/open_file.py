"""Opens a file at exactly the place that a path names.

A path is checked before the file is opened, and any directory on the way may be replaced by a link
in between. So no link is followed at all: not in the last part of the path, as ``O_NOFOLLOW``
ensures, and not in any other.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# Linux needs no right to list the directories on the way.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Nor does this block on a pipe.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(location: bytes) -> int | None:
    """A descriptor of the regular file at an absolute path; None if something else is there.

    Raises:
        OSError: there is nothing, it may not be read, or a link is on the way.
    """
    handle = _open(location)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def is_real_directory(place: Path) -> bool:
    """Whether a directory is at this path, and no link leads there.

    A repository's root was such a path when it was stored. If a link has come into it since, the
    repository is gone: what is there now is another directory.
    """
    return place.is_dir() and os.path.realpath(place) == str(place)


def _open(location: bytes) -> int:
    _, *folders, name = location.split(b"/")
    if b".." in folders:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), location)
    if any_link := getattr(os, "O_NOFOLLOW_ANY", 0):  # macOS does it in one call
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
