"""``session`` as the contract and the documents behind it describe it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of

from .conftest import Caller

pytestmark = pytest.mark.anyio

BRANCH, COMMIT = "feature/sessions", "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def toolsets() -> list[str]:
    return ["memory", "agents"]


@pytest.fixture
async def project(app: App, project_id: str) -> AsyncIterator[str]:
    """A project without anything in it."""
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    yield project_id


@pytest.fixture
async def other(
    settings: Settings, toolsets: list[str], client: Client[Any], mode: Any
) -> AsyncIterator[Any]:
    """Another caller, whose directory is unknown to git."""
    server = server_of(AppHolder(replace(settings, project_dir=Path("/nowhere"))), toolsets)
    async with Client(server, mode=mode) as client:
        yield Caller(client)


def check_out(directory: Path, branch: str, commit: str) -> None:
    """Make a directory look to git as if this were checked out there."""
    git = directory / ".git"
    for folder in ("objects", f"refs/heads/{branch}"):
        (git / folder).parent.mkdir(parents=True, exist_ok=True)
    (git / "objects").mkdir(exist_ok=True)
    (git / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    (git / "refs/heads" / branch).write_text(f"{commit}\n")


async def test_a_session_starts_is_asked_about_and_ends(call: Any, project: str) -> None:
    started = await call.ok("session", operation="start", session_id=" s-1 ", project_id=project)
    assert (started["session_id"], started["status"]) == ("s-1", "started")
    assert "context" not in started
    active = await call.ok("session", action="get_context", session_id="s-1", collection=project)
    assert (active["session_id"], active["status"]) == ("s-1", "active")
    context = active["context"]
    assert context["started_at"] == started["timestamp"]
    assert context["ended_at"] is None
    assert context["observations"] == context["tasks"] == context["agents"] == []
    ended = await call.ok("session", operation="end", session_id="s-1", project_id=project)
    assert (ended["session_id"], ended["status"]) == ("s-1", "ended")
    after = await call.ok("session", operation="get_context", session_id="s-1", project_id=project)
    assert after["status"] == "ended"
    assert after["context"]["ended_at"] == ended["timestamp"]
    times = [datetime.fromisoformat(reply["timestamp"]) for reply in (started, ended)]
    assert times == sorted(times)


async def test_starting_twice_is_the_same_session(call: Any, project: str) -> None:
    arguments = {"session_id": "s", "project_id": project}
    first = await call.ok("session", operation="start", **arguments)
    assert await call.ok("session", operation="start", **arguments) == first
    await call.ok("session", operation="end", **arguments)
    assert await call.ok("session", operation="start", **arguments) == first
    context = await call.ok("session", operation="get_context", **arguments)
    assert (context["status"], context["context"]["ended_at"]) == ("active", None)


async def test_ending_twice_keeps_the_time_of_the_end(call: Any, project: str) -> None:
    arguments = {"session_id": "s", "project_id": project}
    await call.ok("session", operation="start", **arguments)
    first = await call.ok("session", operation="end", **arguments)
    assert await call.ok("session", operation="end", **arguments) == first


@pytest.mark.parametrize("operation", ["end", "get_context"])
async def test_an_unknown_session_is_not_found(call: Any, project: str, operation: str) -> None:
    error = await call.error(
        "session", operation=operation, session_id="nowhere", project_id=project
    )
    assert (error["code"], error["message"]) == ("NOT_FOUND", "Session not found")
    assert error["details"]["session_id"] == "nowhere"
    assert "start" in error["hint"]


async def test_actions_of_a_caller_belong_to_its_own_session(
    call: Any, other: Any, app: App, project: str
) -> None:
    where = {"project_id": project}
    await call.ok("session", operation="start", session_id="mine", **where)
    await other.ok("session", operation="start", session_id="theirs", **where)
    for caller, name in ((call, "mine"), (other, "theirs")):
        stored = await caller.ok(
            "memory",
            operation="store",
            content=f"Found by {name} " + "word " * 60,
            observation_type="Insight",
            **where,
        )
        assert stored["observations"][0]["session_id"] == name
        await caller.ok("agent", operation="create_session", agent_name=f"agent-{name}", **where)
        for success in (True, False):
            await caller.ok(
                "agent",
                operation="track_execution",
                agent_name=f"agent-{name}",
                success=success,
                **where,
            )
    async with app.enter(project) as here:
        await here.tx.run_script(
            "INSERT INTO task (id, title, status)"
            " SELECT gen_random_uuid(), 'Task of ' || s, 'complete'"
            " FROM unnest(ARRAY['mine', 'theirs']) AS s;"
            "INSERT INTO task_event (task_id, ordinal, field, new, session_id)"
            " SELECT id, n, 'status', 'x', replace(title, 'Task of ', '')"
            " FROM task, generate_series(1, 2) AS n;"
        )
    for name in ("mine", "theirs"):
        reply = await call.ok("session", operation="get_context", session_id=name, **where)
        context = reply["context"]
        [observation] = context["observations"]
        assert observation["content"].startswith(f"Found by {name} ")
        assert observation["truncated"] is True
        [task] = context["tasks"]
        assert (task["title"], task["status"]) == (f"Task of {name}", "complete")
        datetime.fromisoformat(task["touched_at"])
        [agent] = context["agents"]
        assert (agent["agent_name"], agent["executions"], agent["failures"]) == (
            f"agent-{name}",
            2,
            1,
        )
        datetime.fromisoformat(agent["last_active_at"])


async def test_an_ended_session_is_used_only_if_it_is_named(call: Any, project: str) -> None:
    where = {"project_id": project}
    await call.ok("session", operation="start", session_id="s", **where)
    await call.ok("session", operation="end", session_id="s", **where)
    store = {"operation": "store", "observation_type": "Summary", **where}
    late = await call.ok("memory", content="late", **store)
    named = await call.ok("memory", content="said to be of it", session_id="s", **store)
    assert late["observations"][0]["session_id"] is None
    assert named["observations"][0]["session_id"] == "s"


async def test_the_newest_20_observations_are_shown(call: Any, app: App, project: str) -> None:
    where = {"project_id": project}
    await call.ok("session", operation="start", session_id="s", **where)
    for number in range(22):
        await call.ok(
            "memory",
            operation="store",
            content=f"number {number}",
            observation_type="Execution",
            **where,
        )
    reply = await call.ok("session", operation="get_context", session_id="s", **where)
    shown = [item["content"] for item in reply["context"]["observations"]]
    assert shown == [f"number {number}" for number in range(21, 1, -1)]


async def test_branch_and_commit_are_those_of_the_start_and_those_of_now(
    call: Any, other: Any, project: str, tmp_path: Path
) -> None:
    arguments = {"session_id": "s", "project_id": project}
    check_out(tmp_path, BRANCH, COMMIT)
    await call.ok("session", operation="start", **arguments)
    check_out(tmp_path, "main", COMMIT[::-1])
    context = (await call.ok("session", operation="get_context", **arguments))["context"]
    assert (context["start_branch"], context["start_commit"]) == (BRANCH, COMMIT)
    assert (context["branch"], context["commit"]) == ("main", COMMIT[::-1])
    await call.ok("session", operation="end", **arguments)
    (tmp_path / ".git" / "HEAD").unlink()
    context = (await call.ok("session", operation="get_context", **arguments))["context"]
    assert (context["branch"], context["commit"]) == (BRANCH, COMMIT)


async def test_a_directory_without_git_has_neither(other: Any, project: str) -> None:
    arguments = {"session_id": "s", "project_id": project}
    await other.ok("session", operation="start", **arguments)
    context = (await other.ok("session", operation="get_context", **arguments))["context"]
    assert context["branch"] is context["commit"] is context["start_branch"] is None


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({"session_id": "s"}, "operation", "Field required: operation"),
        ({"operation": "start"}, "session_id", "Field required: session_id"),
        (
            {"operation": "stop", "session_id": "s"},
            "operation",
            "Operation must be one of 'start', 'end', 'get_context', got \"stop\"",
        ),
        (
            {"operation": "start", "session_id": " "},
            "session_id",
            "Session id cannot be empty",
        ),
        (
            {"operation": "start", "session_id": "s" * 201},
            "session_id",
            "Session id must have 1 to 200 characters, got 201",
        ),
        (
            {"operation": "start", "session_id": "s", "branch": "main"},
            "branch",
            "Unknown parameter: branch",
        ),
    ],
)
async def test_a_bad_parameter_is_refused_by_name(
    call: Any, arguments: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("session", **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert (error["details"]["field"], error["message"]) == (field, message)


async def test_200_characters_are_a_name(call: Any, project: str) -> None:
    name = uuid.uuid4().hex * 6 + "12345678"
    reply = await call.ok("session", operation="start", session_id=name, project_id=project)
    assert reply["session_id"] == name


async def test_a_token_in_a_name_is_masked_where_it_is_shown(call: Any, project: str) -> None:
    token = "ghp_" + "wMsw4ytmgMQ98o6pUaoXZM8NXNIbXU14NGHO"
    here = {"session_id": f"s/{token}", "project_id": project}
    started = await call.ok("session", operation="start", **here)
    assert started["session_id"] == "s/" + "*" * len(token)
    again = await call.ok("session", operation="get_context", **here)
    assert (again["session_id"], again["status"]) == (started["session_id"], "active")
