"""The identity of a caller, and its rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Literal, get_args

Scope = Literal["read", "write", "index", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""From the least to the most."""
Peer = Literal["socket", "loopback", "private", "public"]


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a caller; without keys, all rights.

    The scope ``admin`` includes all scopes. ``projects`` are patterns of the ids of projects that
    exist for the caller. With ``reads_as_server`` the caller is the operating system's user that
    runs the server, and may name every path that this user can read. Without it a caller may name
    paths below the allowed roots, and below ``roots`` if that is set.
    """

    scopes: frozenset[Scope] = frozenset(SCOPES)
    projects: tuple[str, ...] = ("*",)
    reads_as_server: bool = True
    requests_per_minute: int | None = None
    roots: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if "admin" in self.scopes:
            object.__setattr__(self, "scopes", frozenset(SCOPES))

    def sees(self, project_id: str) -> bool:
        """Whether a project of this id may exist for the caller.

        Hyphens and underscores count as the same, as they do in ids: otherwise a conflict with a
        hidden project would show that it exists.
        """
        name = project_id.replace("-", "_")
        return any(fnmatchcase(name, _with_underscores(pattern)) for pattern in self.projects)

    def reading(self) -> Access:
        """The same rights, reduced to reading."""
        return replace(self, scopes=self.scopes & {"read"})


def _with_underscores(pattern: str) -> str:
    """A pattern with underscores for hyphens, except in ranges such as ``[a-z]``."""
    return re.sub(r"\[[^]]*\]|-", lambda match: "_" if match[0] == "-" else match[0], pattern)


FULL_ACCESS = Access()


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: the process over stdio, the owner of the key or the session over HTTP.

    ``owner`` is None if the server cannot distinguish callers. ``directory`` is the caller's
    working directory; None over HTTP, where callers must not use the server's files. ``roots`` are
    the folders that its client has open, if it tells them; the first is the ``directory`` then.
    ``is_shared`` means that several processes may serve the owner, so its state is kept in the
    database. ``key_id`` and ``peer``, the kind of its address, are for the audit log. ``shares_as``
    names the caller among those that share the server; None for a caller without such limits.
    """

    owner: str | None = None
    directory: Path | None = None
    is_shared: bool = False
    access: Access = FULL_ACCESS
    key_id: str | None = None
    peer: Peer | None = None
    shares_as: str | None = None
    roots: tuple[Path, ...] = ()

    @property
    def directories(self) -> tuple[Path, ...]:
        """The folders of its client, else its working directory."""
        if self.roots:
            return self.roots
        return () if self.directory is None else (self.directory,)


ANONYMOUS = Identity()

_noted: ContextVar[list[str] | None] = ContextVar("noted_projects", default=None)


@contextmanager
def noting_projects(projects: list[str]) -> Iterator[None]:
    """Collect the projects of the calls in the block, whether they exist or not."""
    token = _noted.set(projects)
    try:
        yield
    finally:
        _noted.reset(token)


def note_project(project_id: str) -> None:
    projects = _noted.get()
    if projects is not None:
        projects.append(project_id)


def peer_of(host: str | None) -> Peer:
    """The kind of a caller's address; a caller without an address came through a Unix socket."""
    if not host:
        return "socket"
    address = address_of(host)
    if address is not None and address.is_loopback:
        return "loopback"
    return "private" if address is not None and address.is_private else "public"


@lru_cache(maxsize=1024)  # asked six times a request
def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address of a caller, without its scope; None if it is not an IP address.

    An IPv4 address from an IPv6 socket (``::ffff:127.0.0.1``) counts as IPv4.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Whether the address is only reachable from this machine."""
    address = address_of(host.strip("[]"))
    return host.lower() == "localhost" or (address is not None and address.is_loopback)
