"""On this machine the server's own user needs no key, and every other user does."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from starlette.types import Scope
from tests.web.conftest import Served, serving

from codebase_mcp.access.identity import FULL_ACCESS, Identity
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web import peers
from codebase_mcp.web.authentication import Callers
from codebase_mcp.web.peers import is_own_user, row_of_files, row_of_kernel, user_of

pytestmark = pytest.mark.anyio

PATHS = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
    ("POST", "/tools/search_code"),
    ("GET", "/tools/search_code"),
    ("GET", "/openapi.json"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/nowhere"),
]
AS_NOBODY = """
import encodings.idna, http.client, json, os, pwd, sys
number = pwd.getpwnam("nobody").pw_uid
os.setgroups([])
os.setresuid(number, number, number)
host, port, requests = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
answers = {}
for method, path in requests:
    connection = http.client.HTTPConnection(host, port)
    connection.request(method, path, "{}", {"Content-Type": "application/json"})
    answers[f"{method} {path}"] = connection.getresponse().status
    connection.close()
print(json.dumps(answers))
"""
by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


async def statuses_for_nobody(server: Served, requests: list[tuple[str, str]]) -> dict[str, int]:
    """The statuses that a process of another user gets."""
    port = server.address.rpartition(":")[2]
    arguments = ["127.0.0.1", port, json.dumps(requests)]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", AS_NOBODY, *arguments, stdout=subprocess.PIPE
    )
    printed, _ = await child.communicate()
    statuses: dict[str, int] = json.loads(printed)
    return statuses


@by_root
async def test_another_user_of_the_machine_needs_a_key_on_every_path(settings: Settings) -> None:
    async with serving(replace(settings, sse=True)) as server:
        statuses = await statuses_for_nobody(server, PATHS)
        health = [("GET", "/health/live"), ("GET", "/health/ready")]
        open_to_all = await statuses_for_nobody(server, health)
        async with httpx2.AsyncClient(base_url=server.address) as own:
            listed = await own.get("/openapi.json")
    assert statuses == dict.fromkeys(statuses, 401)
    assert set(open_to_all.values()) == {200}
    assert listed.status_code == 200


@by_root
async def test_without_authentication_another_user_may_call_but_not_read_as_the_server(
    settings: Settings,
) -> None:
    settings = replace(settings, no_auth=True)
    async with serving(settings) as server:
        statuses = await statuses_for_nobody(server, [("GET", "/openapi.json")])
    assert set(statuses.values()) == {200}
    remote = request_of(("192.0.2.1", 5000), ("192.0.2.2", 3000))
    caller = await callers(settings).identify(remote)
    assert caller == Identity(access=replace(FULL_ACCESS, reads_as_server=False))


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"X-Forwarded-Proto": "https"},
        {"X-Forwarded-Host": "localhost"},
        {"Via": "1.1 proxy"},
        {"Host": "code.example.com"},
        {"Authorization": "Basic cm9vdDo="},
    ],
)
async def test_what_came_through_a_proxy_or_with_another_proof_is_not_the_own_user(
    settings: Settings, headers: dict[str, str]
) -> None:
    async with (
        serving(replace(settings, allowed_hosts=("code.example.com",))) as server,
        httpx2.AsyncClient(base_url=server.address) as http,
    ):
        assert (await http.post("/tools/list_tasks", json={})).status_code == 200
        refused = await http.post("/tools/list_tasks", json={}, headers=headers)
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "PERMISSION_DENIED"
    assert "keys" in refused.json()["error"]["hint"]


async def test_the_own_user_can_be_asked_for_a_key_too(settings: Settings) -> None:
    for asked in (replace(settings, require_keys=True), replace(settings, host="0.0.0.0")):
        async with serving(asked) as server:
            address = server.address.replace("0.0.0.0", "127.0.0.1")
            async with httpx2.AsyncClient(base_url=address) as http:
                assert (await http.get("/openapi.json")).status_code == 401


@contextmanager
def connected(family: socket.AddressFamily, host: str, to: str) -> Iterator[tuple[Any, Any]]:
    """A client's socket, and the server's end of it."""
    with socket.socket(family) as listener, socket.socket(family) as client:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, 0))
        listener.listen()
        client.connect((to, listener.getsockname()[1]))
        server, _ = listener.accept()
        with server:
            yield client, server


@pytest.mark.parametrize(
    ("family", "host", "to"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "::ffff:127.0.0.1"),
    ],
)
async def test_the_user_of_a_connection_is_the_owner_of_its_other_end(
    family: socket.AddressFamily, host: str, to: str
) -> None:
    with connected(family, host, to) as (client, server):
        ends = [tuple(end.getsockname()[:2]) for end in (client, server)]
        ends = [(address.removeprefix("::ffff:"), port) for address, port in ends]
        assert user_of(*ends) == os.geteuid()
        assert row_of_kernel(*ends) == row_of_files(*ends)
        assert user_of((ends[0][0], 1), ends[1]) is None
        # The kernel says that what no process holds any more is root's.
        client.close()
        assert user_of(*ends) is None
        for row in (row_of_kernel(*ends), row_of_files(*ends)):
            assert row is not None
            assert row.user == 0


def test_where_the_kernel_cannot_be_asked_its_files_say_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "_SOCK_DIAG_BY_FAMILY", 0)  # a message that no kernel knows
    with connected(socket.AF_INET, "127.0.0.1", "127.0.0.1") as (client, server):
        ends = client.getsockname(), server.getsockname()
        assert user_of(*ends) == os.geteuid()
        client.close()
        assert user_of(*ends) is None


@by_root
@pytest.mark.parametrize("name", ["daemon", "nobody"])
async def test_the_user_is_the_one_who_made_the_socket(name: str) -> None:
    number = pwd.getpwnam(name).pw_uid
    with socket.create_server(("127.0.0.1", 0)) as listener:
        os.seteuid(number)
        try:
            client = socket.create_connection(listener.getsockname())
        finally:
            os.seteuid(0)
        with client:
            ends = client.getsockname(), listener.getsockname()
            assert not await is_own_user(request_of(*ends))
            # The number of nobody also stands for users of whom this machine knows nothing.
            assert user_of(*ends) == (None if name == "nobody" else number)
        with socket.create_connection(listener.getsockname()) as own:
            assert await is_own_user(request_of(own.getsockname(), listener.getsockname()))


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (None, ("127.0.0.1", 3000)),
        (("127.0.0.1", 5000), None),
        (("", 0), ("/run/socket", None)),
        (("192.0.2.1", 5000), ("127.0.0.1", 3000)),
        (("127.0.0.1", 5000), ("192.0.2.1", 3000)),
    ],
)
async def test_where_the_other_end_is_not_known_nobody_is_the_own_user(
    client: Any, server: Any
) -> None:
    assert not await is_own_user(request_of(client, server))


async def test_only_allowed_networks_get_in_even_to_open_paths(settings: Settings) -> None:
    paths = [*PATHS, ("GET", "/health/live")]
    far = replace(settings, allow_ip=("10.0.0.0/8",))
    async with serving(far) as server, httpx2.AsyncClient(base_url=server.address) as http:
        claims = {"X-Forwarded-For": "10.1.2.3"}
        refused = [await http.request(*path, headers=claims) for path in paths]
    assert {answer.status_code for answer in refused} == {403}
    assert refused[0].json()["error"]["code"] == "PERMISSION_DENIED"
    allowed = replace(settings, allow_ip=("10.0.0.0/8", "127.0.0.0/8"))
    async with serving(allowed) as server, httpx2.AsyncClient(base_url=server.address) as http:
        assert (await http.get("/openapi.json")).status_code == 200
    callers(allowed).check_address(request_of(("::ffff:10.1.2.3", 5000), None))


def callers(settings: Settings) -> Callers:
    async def no_database() -> Any:
        raise AssertionError("without a key the database is not asked")

    return Callers(settings, no_database)


def request_of(client: Any, server: Any) -> Scope:
    host = "127.0.0.1" if server is None else server[0]
    headers = [(b"host", host.encode())]
    return {
        "type": "http",
        "scheme": "http",
        "path": "/",
        "query_string": b"",
        "headers": headers,
        "client": client,
        "server": server,
    }
