"""Finds the user of this machine whose process is the client of a connection.

Linux has it in its table of connections, for sockets on loopback; other systems do not tell.
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
from typing import NamedTuple

from starlette.datastructures import URL, Headers
from starlette.types import Scope

from codebase_mcp.access.identity import is_loopback

PEER = "codebase_mcp.peer"
"""Where the state of a connection has its `Peer`."""

# Proxies add these headers. The caller is not the user who runs the proxy.
_FORWARDED = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip",
)  # fmt: skip

# Of <linux/sock_diag.h>, <linux/inet_diag.h> and <linux/netlink.h>.
_ESTABLISHED = 1
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_EVERY_STATE = 0xFFFF_FFFF
_NO_COOKIE = (0xFFFF_FFFF, 0xFFFF_FFFF)
# The kernel usually answers at once.
_KERNEL_S = 1.0

Address = tuple[str, int | None]


class Row(NamedTuple):
    """An end of a connection in the kernel's table."""

    state: int
    user: int
    inode: int


class Peer:
    """The client of a connection; its user is looked up once."""

    def __init__(self, client: Address, server: Address) -> None:
        self._client = client
        self._server = server
        self._user: int | None = None
        self._is_looked_up = False

    async def user(self) -> int | None:
        """The id of the user whose socket it is; None if that is not known."""
        if not self._is_looked_up:
            self._user = await asyncio.to_thread(user_of, self._client, self._server)
            self._is_looked_up = True
        return self._user


async def is_own_user(scope: Scope) -> bool:
    """Whether a request comes directly from a process of the user that runs the server."""
    client, server, headers = scope.get("client"), scope.get("server"), Headers(scope=scope)
    if client is None or server is None or any(name in headers for name in _FORWARDED):
        return False
    if not all(
        is_loopback(host or "") for host in (client[0], server[0], URL(scope=scope).hostname)
    ):
        return False
    # Without our server there is no such state, and each request reads the table.
    peer = scope.get("state", {}).get(PEER) or Peer(tuple(client), tuple(server))
    user = await peer.user()
    return user is not None and user == os.geteuid()


def user_of(client: Address, server: Address) -> int | None:
    """The user of the client's socket; None if unknown."""
    with suppress(OSError, ValueError, TypeError, struct.error):  # no Linux, or not TCP
        try:
            row = row_of_kernel(client, server)
        except (OSError, AttributeError):  # some systems and sandboxes refuse the question
            row = row_of_files(client, server)
        # A closed socket belongs to no process any more, and the kernel calls it root's.
        if row is not None and row.state == _ESTABLISHED and row.inode:
            return None if row.user == _unknown_user() else row.user
    return None


def row_of_kernel(client: Address, server: Address) -> Row | None:
    """The client's end of a connection, by the protocol ``sock_diag``: in microseconds."""
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    ends = b"".join(socket.inet_pton(family, host).ljust(16, b"\0") for host, _ in (client, server))
    query = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, _EVERY_STATE)
    query += struct.pack("!HH", client[1], server[1]) + ends + struct.pack("=III", 0, *_NO_COOKIE)
    head = struct.pack("=IHHII", 16 + len(query), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_KERNEL_S)
        kernel.send(head + query)
        answer = kernel.recv(4096)
    if struct.unpack_from("=H", answer, 4)[0] == _SOCK_DIAG_BY_FAMILY:
        return Row(answer[17], *struct.unpack_from("=II", answer, 80))
    error = -struct.unpack_from("=i", answer, 16)[0]
    raise OSError(error, os.strerror(error))


def row_of_files(client: Address, server: Address) -> Row | None:
    """The same from ``/proc``, which lists all connections: in milliseconds."""
    for path, local, remote in _places(client, server):
        _, row, rest = Path(path).read_text().partition(f" {local} {remote} ")
        if row:
            state, _, _, _, user, _, inode, *_ = rest.split(maxsplit=7)
            return Row(int(state, 16), int(user), int(inode))
    return None


def _places(client: Address, server: Address) -> Iterator[tuple[str, str, str]]:
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


def _unknown_user() -> int:
    """The id that stands for users of other user namespaces, as outside a container."""
    return int(Path("/proc/sys/kernel/overflowuid").read_text())
