"""Which files do commands read and write? None is ever half written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from codebase_mcp.errors import InvalidInput


@contextmanager
def appearing(name: str) -> Iterator[Path]:
    """Where to write meanwhile; the file of this name appears once the block has ended well.

    Raises:
        InvalidInput: it cannot be written.
    """
    target = Path(name)
    partial = target.with_name(target.name + ".partial")
    try:
        yield partial
        partial.replace(target)
    except OSError as error:
        raise _bad_file(name, error) from None
    finally:
        partial.unlink(missing_ok=True)


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
