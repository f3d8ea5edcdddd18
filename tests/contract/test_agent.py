"""``agent`` as the contract and the documents behind it describe it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App

pytestmark = pytest.mark.anyio


@pytest.fixture
def toolsets() -> list[str]:
    return ["memory", "agents"]


@pytest.fixture
async def project(app: App, project_id: str) -> AsyncIterator[str]:
    """A project without anything in it."""
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    yield project_id


class Agent:
    """The tool for one agent of one project."""

    def __init__(self, call: Any, project: str, name: str = "tester") -> None:
        self._call = call
        self._about = {"project_id": project, "agent_name": name}

    async def ok(self, operation: str, **arguments: Any) -> dict[str, Any]:
        reply: dict[str, Any] = await self._call.ok(
            "agent", operation=operation, **self._about, **arguments
        )
        return reply

    async def error(self, operation: str, **arguments: Any) -> dict[str, Any]:
        error: dict[str, Any] = await self._call.error(
            "agent", operation=operation, **self._about, **arguments
        )
        return error


@pytest.fixture
def agent(call: Any, project: str) -> Agent:
    return Agent(call, project)


async def test_an_agent_has_one_id_for_its_name_and_project(
    agent: Agent, call: Any, project: str
) -> None:
    first = await agent.ok("create_session")
    uuid.UUID(first["agent_id"])
    assert (first["agent_name"], first["status"], first["session_active"]) == (
        "tester",
        "active",
        True,
    )
    assert first["session_id"] is None
    assert (await agent.ok("create_session"))["agent_id"] == first["agent_id"]
    assert (await agent.ok("track_execution"))["agent_id"] == first["agent_id"]
    assert (await agent.ok("get_state"))["agent_id"] == first["agent_id"]
    other = await Agent(call, project, "Tester").ok("create_session")
    assert other["agent_id"] != first["agent_id"]


async def test_a_state_says_what_the_agent_did(agent: Agent) -> None:
    await agent.ok("create_session")
    fresh = await agent.ok("get_state")
    assert (fresh["executions"], fresh["failures"], fresh["success_rate"]) == (0, 0, None)
    assert fresh["recent"] == []
    done = {"tool_name": "pytest", "success": True, "duration_ms": 12.5, "summary": "all green"}
    tracked = await agent.ok("track_execution", **done)
    await agent.ok("track_execution", success=True)
    await agent.ok("track_execution", error="timed out")
    await agent.ok("track_execution")
    state = await agent.ok("get_state")
    assert (state["executions"], state["failures"]) == (4, 1)
    assert state["success_rate"] == pytest.approx(2 / 3)
    assert [one["success"] for one in state["recent"]] == [None, False, True, True]
    first = state["recent"][-1]
    assert first["id"] == tracked["execution_id"]
    assert {name: first[name] for name in done} == done
    assert first["error"] is None
    assert state["recent"][1]["error"] == "timed out"
    last = datetime.fromisoformat(state["last_active_at"])
    assert last <= datetime.fromisoformat(state["recent"][0]["at"])
    assert last > datetime.fromisoformat(state["recent"][1]["at"])


async def test_the_newest_ten_are_recent(agent: Agent) -> None:
    await agent.ok("create_session")
    for number in range(12):
        await agent.ok("track_execution", summary=str(number))
    state = await agent.ok("get_state")
    assert [one["summary"] for one in state["recent"]] == [str(n) for n in range(11, 1, -1)]
    assert state["executions"] == 12


@pytest.mark.parametrize("operation", ["track_execution", "get_state"])
async def test_an_unknown_agent_is_not_found(agent: Agent, operation: str) -> None:
    error = await agent.error(operation)
    assert (error["code"], error["message"]) == ("NOT_FOUND", "Agent not found")
    assert "create_session" in error["hint"]


async def test_an_agent_is_bound_to_its_callers_session_until_that_ends(
    agent: Agent, call: Any, project: str
) -> None:
    session = {"session_id": "s", "project_id": project}
    await call.ok("session", operation="start", **session)
    bound = await agent.ok("create_session")
    assert (bound["session_id"], bound["session_active"]) == ("s", True)
    await agent.ok("track_execution")
    await call.ok("session", operation="end", **session)
    state = await agent.ok("get_state")
    assert (state["session_id"], state["session_active"], state["status"]) == ("s", False, "idle")
    await agent.ok("track_execution")
    state = await agent.ok("get_state")
    assert [one["session_id"] for one in state["recent"]] == [None, "s"]
    free = await agent.ok("create_session")
    assert (free["session_id"], free["session_active"]) == (None, True)


async def test_a_named_session_is_bound_regardless_of_who_opened_it(
    agent: Agent, call: Any, project: str
) -> None:
    for name in ("a", "b"):
        await call.ok("session", operation="start", session_id=name, project_id=project)
    assert (await agent.ok("create_session", session_id="a"))["session_id"] == "a"
    await agent.ok("track_execution")
    [execution] = (await agent.ok("get_state"))["recent"]
    assert execution["session_id"] == "a"
    error = await agent.error("create_session", session_id="nowhere")
    assert (error["code"], error["message"]) == ("NOT_FOUND", "Session not found")
    assert (await agent.ok("get_state"))["session_id"] == "a"


async def test_an_agent_without_a_session_is_active_for_an_hour(
    agent: Agent, app: App, project: str
) -> None:
    await agent.ok("create_session")

    async def pass_minutes(minutes: int) -> dict[str, Any]:
        async with app.enter(project) as here:
            await here.tx.execute(
                "UPDATE agent SET last_active_at = now() - make_interval(mins => %(minutes)s)",
                minutes=minutes,
            )
        return await agent.ok("get_state")

    state = await pass_minutes(59)
    assert (state["status"], state["session_active"]) == ("active", True)
    state = await pass_minutes(61)
    assert (state["status"], state["session_active"]) == ("idle", False)


async def test_a_bound_agent_that_has_rested_is_idle_in_an_active_session(
    agent: Agent, call: Any, app: App, project: str
) -> None:
    await call.ok("session", operation="start", session_id="s", project_id=project)
    await agent.ok("create_session")
    async with app.enter(project) as here:
        await here.tx.execute("UPDATE agent SET last_active_at = now() - interval '2 hours'")
    state = await agent.ok("get_state")
    assert (state["status"], state["session_active"]) == ("idle", True)


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({"agent_name": "a"}, "operation", "Field required: operation"),
        ({"operation": "get_state"}, "agent_name", "Field required: agent_name"),
        (
            {"operation": "run", "agent_name": "a"},
            "operation",
            "Operation must be one of 'create_session', 'track_execution', 'get_state', "
            'got "run"',
        ),
        (
            {"operation": "get_state", "agent_name": "a" * 101},
            "agent_name",
            "Agent name must have 1 to 100 characters, got 101",
        ),
        (
            {"operation": "get_state", "agent_name": " "},
            "agent_name",
            "Agent name cannot be empty",
        ),
        (
            {"operation": "track_execution", "agent_name": "a", "tool_name": "t" * 201},
            "tool_name",
            "Tool name must have 0 to 200 characters, got 201",
        ),
        (
            {"operation": "track_execution", "agent_name": "a", "summary": "s" * 5_001},
            "summary",
            "Summary must have 0 to 5000 characters, got 5001",
        ),
        (
            {"operation": "track_execution", "agent_name": "a", "error": "e" * 5_001},
            "error",
            "Error must have 0 to 5000 characters, got 5001",
        ),
        (
            {"operation": "track_execution", "agent_name": "a", "duration_ms": -1},
            "duration_ms",
            "Duration ms must be between 0 and 1000000000000, got -1",
        ),
        (
            {"operation": "track_execution", "agent_name": "a", "success": "maybe"},
            "success",
            'Success must be of type boolean or null, got "maybe"',
        ),
        (
            {"operation": "get_state", "agent_name": "a", "success": True},
            "success",
            "success is not a parameter of the operation get_state",
        ),
        (
            {"operation": "track_execution", "agent_name": "a", "session_id": "s"},
            "session_id",
            "session_id is not a parameter of the operation track_execution",
        ),
    ],
)
async def test_a_bad_parameter_is_refused_by_name(
    call: Any, arguments: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("agent", **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert (error["details"]["field"], error["message"]) == (field, message)
