"""The identity of a caller."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: the process over stdio, the owner of the key or the session over HTTP.

    ``owner`` is None if the server cannot distinguish callers. ``directory`` is the caller's
    working directory; None over HTTP, where callers must not use the server's files. ``is_shared``
    means that other processes may serve the same owner, so its state is kept in the database.
    """

    owner: str | None = None
    directory: Path | None = None
    is_shared: bool = False


ANONYMOUS = Identity()
