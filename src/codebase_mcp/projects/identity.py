"""The identity of a caller, and what it may do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

Scope = Literal["read", "write", "admin"]


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller may do; without keys, everything.

    ``projects`` are patterns of the ids of projects that exist for the caller. ``reads_as_server``
    means that the caller is the operating system's user that runs the server, and may name every
    path that this user can read; others name paths below the allowed roots.
    """

    scopes: frozenset[Scope] = frozenset({"read", "write", "admin"})
    projects: tuple[str, ...] = ("*",)
    reads_as_server: bool = True
    requests_per_minute: int | None = None

    def sees(self, project_id: str) -> bool:
        """Whether a project of this id may exist for the caller.

        Hyphens and underscores count as the same, as they do in ids: otherwise a conflict with a
        hidden project would show that it exists.
        """
        name = project_id.replace("-", "_")
        return any(fnmatchcase(name, _with_underscores(one)) for one in self.projects)


def _with_underscores(pattern: str) -> str:
    """A pattern with underscores for hyphens, except in ranges such as ``[a-z]``."""
    return re.sub(r"\[[^]]*\]|-", lambda found: "_" if found[0] == "-" else found[0], pattern)


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
