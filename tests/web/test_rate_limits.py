"""Each caller over HTTP has its own number of requests a minute, and is told what is left."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest
from tests.web.conftest import running

from codebase_mcp.access.identity import Access, Identity
from codebase_mcp.access.keys import create_key
from codebase_mcp.database.connection import Database
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web import limits
from codebase_mcp.web.http import make_asgi_app
from codebase_mcp.web.limits import DEFAULT_PER_MINUTE, TokenBuckets, caller_of

MCP = {"Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
# An answer before database and model are asked.
CALL = {"query": ""}


def test_a_bucket_is_emptied_at_once_and_fills_up_steadily() -> None:
    now = 100.0
    buckets = TokenBuckets(lambda: now)
    taken = [buckets.take("a", 3) for _ in range(4)]
    assert [one.remaining for one in taken] == [2, 1, 0, 0]
    assert [one.retry_after_s for one in taken] == [0, 0, 0, 20]
    assert buckets.take("b", 3).remaining == 2
    now += 19
    assert buckets.take("a", 3).retry_after_s == pytest.approx(1)
    now += 1
    again = buckets.take("a", 3)
    assert (again.retry_after_s, again.remaining, again.full_in_s) == (0, 0, 60)
    now += 3600
    assert buckets.take("a", 3).remaining == 2
    assert list(buckets._full_at) == ["a"]  # the full one is forgotten


def test_the_memory_for_callers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MAX_CALLERS", 3)
    buckets = TokenBuckets(lambda: 0.0)
    for caller in "abcadef":
        buckets.take(caller, 60)
    assert list(buckets._full_at) == ["d", "e", "f"]


@pytest.mark.parametrize("per_minute", [1, 7, 60, 600, 999_983])
def test_exactly_the_limit_can_be_taken_at_once(per_minute: int) -> None:
    buckets = TokenBuckets(lambda: 1_700_000.123)
    many = min(per_minute, 1000)
    taken = [buckets.take("a", many) for _ in range(many + 1)]
    assert [one.remaining for one in taken] == [*range(many - 1, -1, -1), 0]
    assert [one.retry_after_s > 0 for one in taken] == [*([False] * many), True]


@pytest.mark.parametrize(
    ("host", "caller"),
    [
        ("192.0.2.7", "address 192.0.2.7"),
        ("::ffff:192.0.2.7", "address 192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "address 2001:db8:1:2::/64"),
        ("testclient", "address testclient"),
    ],
)
def test_an_address_is_a_caller_and_in_ipv6_a_network_is(host: str, caller: str) -> None:
    assert caller_of({"client": (host, 1)}) == caller


def limit_headers(answer: httpx2.Response) -> list[str | None]:
    return [answer.headers.get(f"x-ratelimit-{name}") for name in ("limit", "remaining")]


@pytest.mark.anyio
async def test_every_door_counts_and_refuses_over_the_limit(settings: Settings) -> None:
    async with running(make_asgi_app(replace(settings, requests_per_minute=3, sse=True))) as http:
        first = await http.post("/tools/search_code", json=CALL)
        assert (first.status_code, limit_headers(first)) == (400, ["3", "2"])
        assert int(first.headers["x-ratelimit-reset"]) > 1_700_000_000
        over_mcp = await http.post("/mcp", json=HELLO, headers=MCP)
        assert (over_mcp.status_code, limit_headers(over_mcp)) == (200, ["3", "1"])
        await http.post("/messages/", params={"session_id": "0" * 32}, json=HELLO)
        for method, path in (
            ("POST", "/tools/search_code"),
            ("POST", "/mcp"),
            ("GET", "/mcp"),
            ("GET", "/sse"),
            ("POST", "/messages/"),
        ):
            refused = await http.request(method, path, json=HELLO, headers=MCP)
            assert (refused.status_code, limit_headers(refused)) == (429, ["3", "0"])
            assert 1 <= int(refused.headers["retry-after"]) <= 20
            error = refused.json()["error"]
            assert (error["type"], error["code"]) == ("Unavailable", "RUNTIME_ERROR")
            assert error["message"] == "Too many requests: 3 a minute are allowed"
            assert error["hint"]
        alive = await http.get("/health/live")
        assert (alive.status_code, limit_headers(alive)) == (200, [None, None])


@pytest.mark.anyio
async def test_keys_have_their_own_limits(settings: Settings, database: Database) -> None:
    access = Access(frozenset({"read"}), reads_as_server=False)
    keys = {owner: (await create_key(database, owner, access))[1] for owner in ("one", "two")}
    limited = replace(settings, requests_per_minute=2, require_keys=True)
    async with running(make_asgi_app(limited)) as http:

        async def remaining(key: str) -> list[str | None]:
            headers = {"Authorization": f"Bearer {keys[key]}"}
            by_tool = await http.post("/tools/search_code", json=CALL, headers=headers)
            over_mcp = await http.post("/mcp", json=HELLO, headers=MCP | headers)
            return [limit_headers(answer)[1] for answer in (by_tool, over_mcp)]

        assert await remaining("one") == ["1", "0"]
        assert await remaining("two") == ["1", "0"]
        # Who guesses keys is limited by the address.
        guesses = [
            await http.post("/tools/search_code", headers={"Authorization": f"Bearer {number}"})
            for number in range(3)
        ]
        assert [answer.status_code for answer in guesses] == [401, 401, 429]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("access", "setting", "limit"),
    [
        (Access(), None, None),
        (Access(), 5, "5"),
        (Access(reads_as_server=False), None, str(DEFAULT_PER_MINUTE)),
        (Access(reads_as_server=False), 0, None),
        (Access(requests_per_minute=9), 5, "9"),
        (Access(requests_per_minute=0), 5, None),
    ],
)
async def test_the_limit_is_the_keys_or_the_settings_or_the_default_for_strangers(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    access: Access,
    setting: int | None,
    limit: str | None,
) -> None:
    monkeypatch.setattr(limits, "identity_of", lambda _: Identity("a", access=access))
    async with running(make_asgi_app(replace(settings, requests_per_minute=setting))) as http:
        answer = await http.post("/tools/search_code", json=CALL)
        assert limit_headers(answer)[0] == limit
