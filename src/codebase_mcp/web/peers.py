"""Which user of this machine is at the other end of a connection?

Linux says so in its table of connections, for sockets on loopback. Elsewhere it cannot be known.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from starlette.datastructures import URL, Headers
from starlette.types import Scope

from codebase_mcp.settings.access import is_loopback

PEER = "codebase_mcp.peer"
"""Where the state of a connection has its `Peer`."""

# What proxies add. The user who runs the proxy is not the one who calls.
_FORWARDED = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)
_ESTABLISHED = "01"

Address = tuple[str, int | None]


class Peer:
    """The other end of one connection; its user is looked up once."""

    def __init__(self, client: Address, server: Address) -> None:
        self._client = client
        self._server = server
        self._user: int | None = None

    async def user(self) -> int | None:
        """The id of the user whose socket it is; None if that is not known."""
        if self._user is None:
            self._user = await asyncio.to_thread(user_of, self._client, self._server)
        return self._user


async def is_own_user(scope: Scope) -> bool:
    """Whether a request comes directly from a process of the user that runs this one."""
    client, server, headers = scope.get("client"), scope.get("server"), Headers(scope=scope)
    if client is None or server is None or any(name in headers for name in _FORWARDED):
        return False
    if not all(
        is_loopback(host or "") for host in (client[0], server[0], URL(scope=scope).hostname)
    ):
        return False
    # Other servers than ours keep no such state, so the table is read with each request.
    peer = scope.get("state", {}).get(PEER) or Peer(tuple(client), tuple(server))
    user = await peer.user()
    return user is not None and user == os.geteuid()


def user_of(client: Address, server: Address) -> int | None:
    """The user whose socket is connected from one address to the other; None if unknown."""
    with suppress(OSError, ValueError, TypeError):  # no Linux, or no addresses of TCP
        for path, local, remote in _rows(client, server):
            _, found, rest = Path(path).read_text().partition(f" {local} {remote} {_ESTABLISHED} ")
            if found:
                _, _, _, user, _, inode, *_ = rest.split(maxsplit=6)
                # A closed socket belongs to no process any more, and the table calls it root's.
                return None if inode == "0" or user == _unknown_user() else int(user)
    return None


def _rows(client: Address, server: Address) -> Iterator[tuple[str, str, str]]:
    """The tables in which a connection may be, with its addresses as they are written there."""
    if ip_address(client[0]).version == 4:
        yield "/proc/net/tcp", _written(client), _written(server)
        # Some programs speak IPv4 through sockets of IPv6.
        client, server = ((f"::ffff:{host}", port) for host, port in (client, server))
    yield "/proc/net/tcp6", _written(client), _written(server)


def _written(address: Address) -> str:
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _unknown_user() -> str:
    """What stands for users of other user namespaces, as outside a container."""
    return Path("/proc/sys/kernel/overflowuid").read_text().strip()
