"""The audit log: who called what, when, and how it ended; through every door, without content."""

from __future__ import annotations

import argparse
import json
from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastmcp import Client
from tests.web.conftest import running

from codebase_mcp.access.identity import Identity, peer_of
from codebase_mcp.app.app import App
from codebase_mcp.app.background.audit import AuditEntry, AuditLog, load_entries
from codebase_mcp.cli.data import age_of, audit
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of
from codebase_mcp.web.http import asgi_app_of

pytestmark = pytest.mark.anyio

SECRET = "what-nobody-may-read"


async def entries_of(
    app: App, project_id: str | None = None, owner: str | None = None
) -> list[Any]:
    since = datetime.now(UTC) - timedelta(days=400)
    return await load_entries(
        app.database, since=since, owner=owner, project_id=project_id, limit=100
    )


async def test_both_doors_enter_calls_without_their_content(
    app: App, settings: Settings, project_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = AppHolder(settings)
    asgi = asgi_app_of(server_of(holder, settings.toolsets), holder, settings)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_tasks", {"project_id": project_id}),
        ("create_project", {"name": SECRET, "project_id": project_id}),
        ("switch_project", {"project_id": project_id}),
        ("memory", {"operation": "search", "query": SECRET, "project_id": project_id}),
        ("get_task", {"task_id": SECRET, "project_id": project_id}),
    ]
    async with running(asgi) as http:
        for tool, arguments in calls:
            await http.post(f"/tools/{tool}", json=arguments)
        async with Client(server_of(holder, settings.toolsets, closes=False)) as client:
            await client.call_tool("list_tasks", {"project_id": project_id, "limit": 1})
    found = await entries_of(app, project_id)
    told = [(one.tool, one.operation, one.outcome) for one in found]
    assert told == [
        ("list_tasks", None, "PROJECT_NOT_FOUND"),
        ("create_project", None, "ok"),
        ("switch_project", None, "PERMISSION_DENIED"),
        ("memory", "search", "ok"),
        ("list_tasks", None, "ok"),
    ]
    assert {(one.owner is None, one.peer) for one in found} == {
        (True, "loopback"),
        (False, None),
    }
    every = [one for one in await entries_of(app) if one.at >= found[0].at]
    assert ("get_task", "VALIDATION_ERROR") in [(one.tool, one.outcome) for one in every]
    assert SECRET not in str([astuple(one) for one in every])
    options = argparse.Namespace(
        since="1h", owner=None, project=project_id, limit="2", json=True, verbose=False
    )
    assert await audit(options, settings) == 0
    shown = json.loads(capsys.readouterr().out)["entries"]
    assert [one["tool"] for one in shown] == ["memory", "list_tasks"]
    options.json = False
    assert await audit(options, settings) == 0
    assert "search" in capsys.readouterr().out


async def test_it_can_be_switched_off(app: App, settings: Settings, project_id: str) -> None:
    settings = replace(settings, audit=False)
    holder = AppHolder(settings)
    async with running(asgi_app_of(server_of(holder, ()), holder, settings)) as http:
        await http.post("/tools/list_tasks", json={"project_id": project_id})
    assert await entries_of(app, project_id) == []


async def test_what_does_not_fit_is_dropped_and_said_and_old_entries_are_deleted(
    app: App, project_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def opened() -> App:
        return app

    def entry(days: int) -> AuditEntry:
        at = datetime.now(UTC) - timedelta(days=days)
        return AuditEntry(at, project_id, "key", "public", "tool", None, "mine", "ok", 1.5)

    log = AuditLog(keep_days=30, max_waiting=3)
    async with log.writing(opened):
        for days in (31, 29, 1, 0):
            log.add(entry(days))
    kept = await entries_of(app, owner=project_id)
    assert [(datetime.now(UTC) - one.at).days for one in kept] == [29, 1]
    assert "1 entries of the audit log were dropped" in caplog.text


def test_the_kind_of_an_address_and_spans_of_time() -> None:
    hosts = (None, "::ffff:127.0.0.1", "::1", "fe80::1%eth0", "10.1.2.3", "::ffff:8.8.8.8", "here")
    kinds = [peer_of(host) for host in hosts]
    assert kinds == ["socket", *2 * ["loopback"], *2 * ["private"], *2 * ["public"]]
    assert Identity().peer is None
    assert age_of("90m") == timedelta(minutes=90)
    for invalid in ("7", "d", "-7d", "7 d", "99999d"):
        with pytest.raises(InvalidInput):
            age_of(invalid)
