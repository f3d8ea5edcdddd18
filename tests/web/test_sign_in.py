"""A key begins a session of a browser, which ends with the key, by itself, or by signing out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import httpx2
import pytest
from tests.web.conftest import serving
from tests.web.test_pages import seen

from codebase_mcp.access import keys
from codebase_mcp.access.identity import Access
from codebase_mcp.access.keys import LONGEST_S, create_key, revoke_key, rotate_key
from codebase_mcp.database.connection import Database
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.pages.routes import GET
from codebase_mcp.web.pages.site import SESSION_COOKIE, TOKEN_COOKIE

pytestmark = pytest.mark.anyio

READING = Access(frozenset({"read"}), ("*",), reads_as_server=False)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A server that asks everyone for a key."""
    return replace(settings, require_keys=True)


@asynccontextmanager
async def browser(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that has opened the form; its own cookies are those that the test gives it."""
    async with (
        serving(settings) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=60) as http,
    ):
        http.headers["Origin"] = server.address
        yield http


async def sign_in(http: httpx2.AsyncClient, text: str) -> httpx2.Response:
    """The answer to a form with this key."""
    await http.get("/sign-in")
    form = {"token": http.cookies[TOKEN_COOKIE], "key": text}
    return await http.post("/sign-in", data=form)


async def session_of(http: httpx2.AsyncClient, text: str) -> str:
    """The cookie of a new session, which the browser does not keep."""
    cookie = (await sign_in(http, text)).cookies[SESSION_COOKIE]
    del http.cookies[SESSION_COOKIE]
    return cookie


async def is_signed_in(http: httpx2.AsyncClient, cookie: str) -> bool:
    """Whether a page is shown to a browser with this cookie."""
    answer = await http.get("/tasks", headers={"Cookie": f"{SESSION_COOKIE}={cookie}"})
    assert answer.status_code in (200, 303)
    return answer.status_code == 200


async def test_a_key_signs_in_to_pages_alone(settings: Settings, database: Database) -> None:
    reading = Access(frozenset({"read"}), ("*",), reads_as_server=False)
    _, key = await create_key(database, "alice", reading)
    async with (
        serving(replace(settings, require_keys=True)) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=60) as http,
    ):
        for path, _ in GET:
            if path not in {"/sign-in", "/results", "/index/events"}:
                refused = await http.get(path)
                form = f"/sign-in?{urlencode({'next': path})}"
                assert (refused.status_code, refused.headers["location"]) == (303, form)
        assert (await http.get("/results")).status_code == 401
        page = seen(await http.get("/sign-in"))
        assert (await http.get(page.link("page.css"))).status_code == 200
        token = next(found["value"] for _, found in page.tags if found.get("name") == "token")
        ours = {"Origin": server.address}
        sent = {"token": token, "key": key}
        assert (await http.post("/sign-in", data=sent)).status_code == 403
        for asked, next_page in [
            ("//evil.example/", "/"),
            ("https://evil.example/search", "/"),
            ("/\\evil.example", "/"),
            ("http://[", "/"),
            ("/tools/list_tasks", "/"),
            ("/sign-in?next=/", "/"),
            ("/search?q=a+%26+b&anchor=x", "/search?q=a+%26+b#x"),
        ]:
            signed = await http.post("/sign-in", data=sent | {"next": asked}, headers=ours)
            assert (signed.status_code, signed.headers["location"]) == (303, next_page)
        kept = signed.headers["set-cookie"]
        assert {"httponly", "samesite=strict", "max-age=86400"} <= set(kept.lower().split("; "))
        assert "secure" not in kept.lower()
        assert key.rpartition("_")[2] not in kept
        seen(await http.get("/"))
        index = seen(await http.get("/index"))
        assert "Index a repository" not in index.text  # the key only reads
        form = {"token": token, "path": "/tmp", "project": "x"}
        seen(await http.post("/index/start", data=form, headers=ours), 403)
        form = {"token": token, "repository": str(uuid4())}
        for path in ("/index/cancel", "/index/remove"):
            seen(await http.post(path, data=form, headers=ours), 403)
        # The cookie is nothing to the tools: only pages know who sent a form.
        assert (await http.post("/tools/list_projects", json={})).status_code == 401
        assert (await http.get("/metrics")).status_code == 401
        out = await http.post("/sign-out", data={"token": token}, headers=ours)
        assert out.headers["location"] == "/sign-in"
        assert (await http.get("/")).status_code == 303
        for wrong in ("cbm_wrong", f"{key[:-1]}{'a' if key[-1] != 'a' else 'b'}"):
            form = sent | {"key": wrong, "next": "/index"}
            refused = await http.post("/sign-in", data=form, headers=ours)
            assert refused.headers["location"] == "/sign-in?next=%2Findex&wrong=1"
            assert "set-cookie" not in refused.headers
            shown = seen(await http.get(refused.headers["location"]))
            assert "This key is wrong" in shown.text


async def test_a_session_is_known_to_every_process_until_its_browser_signs_out(
    settings: Settings, database: Database
) -> None:
    _, key = await create_key(database, "alice", READING)
    async with browser(settings) as http:
        cookie, other = [await session_of(http, key) for _ in range(2)]
        assert not await is_signed_in(http, "made-up")
    async with browser(settings) as http:  # another process, or the same after a restart
        assert await is_signed_in(http, cookie)
        await http.get("/sign-in")
        form = {"token": http.cookies[TOKEN_COOKIE]}
        http.cookies[SESSION_COOKIE] = cookie
        await http.post("/sign-out", data=form)
        assert not await is_signed_in(http, cookie)
        assert await is_signed_in(http, other)
    async with database.catalogue(readonly=True) as tx:
        rows = await tx.fetch_all("SELECT browser_session::text FROM browser_session")
    assert rows
    assert not any(other in row[0] or key.rpartition("_")[2] in row[0] for row in rows)


async def test_a_session_ends_with_its_key(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "_KNOWN_S", 0.0)

    async def expire(identity: str) -> Any:
        async with database.catalogue() as tx:
            expired = "UPDATE api_key SET expires_at = now() WHERE id = %(id)s"
            await tx.execute(expired, id=identity)

    async with browser(settings) as http:
        for end in (
            lambda identity: revoke_key(database, identity),
            lambda identity: rotate_key(database, identity, grace_s=0),
            expire,
        ):
            key, text = await create_key(database, "alice", READING)
            cookie = await session_of(http, text)
            assert await is_signed_in(http, cookie)
            await end(key.id)
            assert not await is_signed_in(http, cookie)


async def test_a_session_ends_after_a_day(settings: Settings, database: Database) -> None:
    _, key = await create_key(database, "alice", READING)
    async with browser(settings) as http:
        cookie = await session_of(http, key)
        async with database.catalogue() as tx:
            until = "SELECT min(expires_at) <= now() + make_interval(secs => %(s)s)"
            assert await tx.fetch_one(f"{until} FROM browser_session", s=LONGEST_S) == (True,)
            await tx.execute("UPDATE browser_session SET expires_at = now()")
        assert not await is_signed_in(http, cookie)
        await session_of(http, key)
    async with database.catalogue(readonly=True) as tx:
        assert await tx.fetch_one("SELECT count(*) FROM browser_session") == (1,)


async def test_cookies_are_sent_over_tls_alone_where_that_is_the_public_address(
    settings: Settings, database: Database
) -> None:
    _, key = await create_key(database, "alice", READING)
    public = replace(settings, public_url="https://code.example.com")
    async with browser(public) as http:
        form = await http.get("/sign-in")
        token = form.cookies[TOKEN_COOKIE]
        signed = await http.post(
            "/sign-in",
            data={"token": token, "key": key},
            headers={"Cookie": f"{TOKEN_COOKIE}={token}"},
        )
        assert signed.status_code == 303
        for answer in (form, signed):
            assert "secure" in answer.headers["set-cookie"].lower().split("; ")


async def test_keys_cannot_be_guessed_faster_in_the_form_than_elsewhere(
    settings: Settings,
) -> None:
    async with browser(replace(settings, requests_per_minute=3)) as http:
        await sign_in(http, "cbm_wrong")
        for headers in ({}, {"Authorization": "Bearer cbm_wrong"}):
            statuses = [(await http.get("/tasks", headers=headers)).status_code for _ in range(3)]
            assert statuses[-1] == 429
        assert (await sign_in(http, "cbm_wrong")).status_code == 429
