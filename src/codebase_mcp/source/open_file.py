"""Opens files without following any link, and tells where a path leads.

A path is checked before the file is opened, and any directory on the way may be replaced by a link
in between. ``O_NOFOLLOW`` protects only the last part of a path, so the parts are opened in turn.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path

log = logging.getLogger(__name__)

KERNEL_FOLDERS = (Path("/proc"), Path("/sys"), Path("/dev"))

# On Linux, opening a directory this way needs no permission to list it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe this way does not block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Larger files are not plausible ignore files, and compiling them would take too long.
MAX_IGNORE_BYTES = 1 << 20


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
        # Room for all that is asked for is taken at once, so not for the limit.
        size = min(os.fstat(file.fileno()).st_size, max_bytes)
        content = file.read(size + 1)
        if len(content) > size:  # it has grown, or is too large
            content += file.read(max_bytes - size)
        return content


def read_ignore_file(
    location: bytes, too_large: list[bytes] | None = None, *, follow: bool = False
) -> bytes | None:
    """The content of an ignore file, or None if there is none.

    As in git a link inside the tree is not followed. Pipes and devices are not read. A file that is
    too large is not read, and its location is added to ``too_large``.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(location, flags)
    except OSError:
        return None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as file:
        if status.st_size > MAX_IGNORE_BYTES:
            if too_large is None:
                log.warning("%s is too large to be applied", os.fsdecode(location))
            else:
                too_large.append(location)
            return None
        return file.read(MAX_IGNORE_BYTES)


def is_pipe_or_device(location: Path) -> bool:
    """Whether opening or reading this may block for ever."""
    try:
        mode = location.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_real_directory(path: Path) -> bool:
    """Whether the path is that of a directory and contains no link.

    A repository's root was such a path when it was stored. If the path contains a link now, it
    leads to another directory, and the repository is gone.
    """
    return path.is_dir() and os.path.realpath(path) == str(path)


def real_path(path: str | Path) -> Path:
    """The path with all links resolved.

    Only links of the kernel cannot be followed, such as the root of another user's process below
    /proc: for these the result is a folder of the kernel.
    """
    try:
        return Path(os.path.realpath(path))
    except OSError:
        return KERNEL_FOLDERS[0]


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Whether the path is that of one of the folders, or below one."""
    return any(path.is_relative_to(folder) for folder in folders)


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
