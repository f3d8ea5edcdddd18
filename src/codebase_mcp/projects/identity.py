"""The identity of a caller, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, get_args

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""From the least to the most."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller may do; without keys, everything.

    ``projects`` are patterns of the ids of projects that exist for the caller. ``reads_as_server``
    means that the caller is the operating system's user that runs the server, and may name every
    path that this user can read; others name paths below the allowed roots.
    """

    scopes: frozenset[Scope] = frozenset(SCOPES)
    projects: tuple[str, ...] = ("*",)
    reads_as_server: bool = True
    requests_per_minute: int | None = None

    def sees(self, project_id: str) -> bool:
        """Whether a project of this id may exist for the caller."""
        return any(fnmatchcase(project_id, pattern) for pattern in self.projects)

    def reading(self) -> Access:
        """The same without everything that changes something."""
        return replace(self, scopes=self.scopes & {"read"})


FULL_ACCESS = Access()


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
    access: Access = FULL_ACCESS


ANONYMOUS = Identity()
