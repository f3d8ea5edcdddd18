"""Keeps room on the disk of the embedded server for the day when the disk is full.

A file of 32 MiB takes up that room. It is given up when the server is to start, or to delete, on a
disk that is nearly full: enough for searches and for a purge, which frees more. Index runs end
before that, so that none of them fills what was given up. The file is made again by a later start
or run, when there is room.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from codebase_mcp.database.supervisor import open_file, remove_file

FILE_NAME = "reserve"

# A purge of 770 files, half of the index, needed 16 MiB with the settings below.
_RESERVE_BYTES = 32 << 20
# More than the reserve, so that an index run cannot fill the room that was given up.
TIGHT_MB = 48
# As much as the log of changes may take in a long run, and the reserve.
_AMPLE_BYTES = 288 << 20

# Without the reserve the log of changes is kept as short as it can be.
TIGHT_SETTINGS = """\
max_wal_size = 32MB
checkpoint_completion_target = 0
checkpoint_warning = 0
"""


class Reserve:
    """The file that takes up room in a data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = str(folder / FILE_NAME)

    def is_tight(self) -> bool:
        """Whether so little room is left that nothing should be added."""
        return self._free_bytes() < TIGHT_MB << 20

    def exists(self) -> bool:
        """Whether the file is there."""
        return Path(self._path).exists()

    def make(self) -> None:
        """Make the file, if it is not there and there is ample room."""
        if not self.exists() and self._free_bytes() > _AMPLE_BYTES:
            self._write()

    def give_up(self) -> bool:
        """Remove the file; whether it was there."""
        was_there = self.exists()
        remove_file(self._path)
        return was_there

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self._folder).free

    def _write(self) -> None:
        file = open_file(self._path, os.O_WRONLY)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, _RESERVE_BYTES)
            else:
                os.write(file, bytes(_RESERVE_BYTES))
        except OSError:  # a quota that the disk does not tell of
            remove_file(self._path)
        finally:
            os.close(file)
