"""Who calls?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls: the process over stdio, the key's owner or the session over HTTP.

    ``owner`` is None where the server cannot tell callers apart. ``directory`` is where the caller
    works, None over HTTP: there the server's own files are none of the caller's business.
    ``is_shared`` says that other processes may serve the same owner, so that what is kept for it
    belongs into the database.
    """

    owner: str | None = None
    directory: Path | None = None
    is_shared: bool = False


NOBODY = Identity()
