"""Does a file stand for another one that Git LFS would fetch?"""

from __future__ import annotations

import re

# Why such a file is left out of a listing's files.
NOT_FETCHED = "lfs_not_fetched"

# The specification limits a pointer to this size and begins it with this line, then sorted keys.
_MOST_BYTES = 1024
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n"
)


def pointed_at(content: bytes) -> str | None:
    """The SHA-256 of the file that a pointer stands for; None if the content is no pointer."""
    found = _POINTER.match(content) if len(content) < _MOST_BYTES else None
    return None if found is None else found[1].decode()
