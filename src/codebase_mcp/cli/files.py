"""Which files do commands read and write? None is ever half written."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from codebase_mcp.database.supervisor import try_lock
from codebase_mcp.errors import InvalidInput

# What a name ends with until the file is whole. A lock says that somebody writes it.
_PARTIAL = ".codebase-mcp-partial"


@contextmanager
def appearing(name: str) -> Iterator[Path]:
    """Where to write meanwhile; the file of this name appears once the block has ended well.

    What processes that were killed have left in its folder is removed.

    Raises:
        InvalidInput: it cannot be written.
    """
    target = Path(name)
    partial = target.with_name(f".{token_hex(8)}{_PARTIAL}")
    try:
        _remove_leftovers(target.parent)
        with partial.open("xb") as file:
            with suppress(OSError):  # a network drive without locks
                try_lock(file.fileno(), fcntl.LOCK_EX)
            yield partial
        partial.replace(target)
    except OSError as error:
        raise _bad_file(name, error) from None
    finally:
        partial.unlink(missing_ok=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the files that nobody writes any more."""
    for leftover in folder.glob(f".*{_PARTIAL}"):
        with suppress(OSError), leftover.open("rb") as file:
            if try_lock(file.fileno(), fcntl.LOCK_EX):
                leftover.unlink()


def opened(name: str) -> BinaryIO:
    """The file of this name; ``-`` is the standard input, which can be read once.

    Raises:
        InvalidInput: it cannot be read.
    """
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise _bad_file(name, error) from None


def _bad_file(name: str, error: OSError) -> InvalidInput:
    reason = error.strerror or str(error)
    return InvalidInput.of("file", name, f"{name}: {reason}", rule="a file that can be used")
