"""A project that a caller may not see answers exactly as one that does not exist."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.database.test_resolution import workflow_mcp

from codebase_mcp.access.identity import ANONYMOUS, Access, Identity
from codebase_mcp.app.app import App
from codebase_mcp.database.projects import create_project
from codebase_mcp.errors import CodebaseError
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.table import TOOLSETS
from codebase_mcp.telemetry.stopwatch import stopwatch
from codebase_mcp.tools.calling import reply_of
from codebase_mcp.tools.catalog import tools_of

pytestmark = pytest.mark.anyio

TOOLS = {spec.name: spec for spec in tools_of(TOOLSETS)}
ID = "00000000-0000-0000-0000-000000000001"
REPOSITORY = str(Path(__file__).parent)

# What each tool, and each operation of a tool, is called with; the project is added.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("index_repository", {"repo_path": REPOSITORY}),
    ("search_code", {"query": "login"}),
    ("index_codebase", {"repository_path": REPOSITORY}),
    ("get_indexing_status", {}),
    ("clear_index", {}),
    ("project", {"operation": "list"}),
    ("project", {"operation": "get_stats"}),
    ("project", {"operation": "get_health"}),
    ("create_project", {"name": "Mine"}),
    ("switch_project", {}),
    ("get_active_project", {}),
    ("list_projects", {}),
    ("create_task", {"title": "A task"}),
    ("get_task", {"task_id": ID}),
    ("list_tasks", {}),
    ("update_task", {"task_id": ID, "title": "Another"}),
    ("memory", {"operation": "store", "content": "c", "observation_type": "Insight"}),
    ("memory", {"operation": "search", "query": "noted"}),
    ("memory", {"operation": "timeline", "anchor_id": ID}),
    ("memory", {"operation": "get", "ids": [ID]}),
    ("memory", {"operation": "inject"}),
    ("session", {"operation": "start", "session_id": "one"}),
    ("session", {"operation": "end", "session_id": "one"}),
    ("session", {"operation": "get_context", "session_id": "one"}),
    ("vcs", {"operation": "index_repository", "repository_path": REPOSITORY}),
    ("vcs", {"operation": "search_branch", "branch": "main", "query": "login"}),
    ("vcs", {"operation": "search_history", "query": "login"}),
    ("vcs", {"operation": "compare_branches", "branch_a": "a", "branch_b": "b"}),
    ("vcs", {"operation": "analyze_impact", "commit": "HEAD"}),
    ("find_text", {"pattern": "login"}),
    ("find_context", {"task": "login", "given": ["src/login.py"]}),
    ("symbol", {"operation": "definition", "name": "login"}),
    ("symbol", {"operation": "references", "name": "login"}),
    ("symbol", {"operation": "callers", "name": "login"}),
    ("symbol", {"operation": "callees", "name": "login"}),
    ("symbol", {"operation": "path", "name": "login", "to": "login"}),
    ("symbol", {"operation": "implementations", "name": "login"}),
    ("symbol", {"operation": "outline", "path": "src"}),
    ("agent", {"operation": "create_session", "agent_name": "a"}),
    ("agent", {"operation": "track_execution", "agent_name": "a"}),
    ("agent", {"operation": "get_state", "agent_name": "a"}),
    ("register_entity_type", {"type_name": "bug", "schema": {"type": "object"}}),
    ("create_entity", {"entity_type": "bug", "name": "b", "data": {}}),
    ("query_entities", {"entity_type": "bug"}),
    ("update_entity", {"entity_id": ID, "data": {}, "version": 1}),
    ("delete_entity", {"entity_id": ID}),
    ("update_entity_type_schema", {"type_name": "bug", "new_schema": {"type": "object"}}),
    ("create_work_item", {"item_type": "project", "title": "W"}),
    ("update_work_item", {"work_item_id": ID, "title": "X"}),
    ("query_work_items", {}),
    ("get_work_item_hierarchy", {"work_item_id": ID}),
]
CREATING = {"index_repository", "index_codebase", "create_project"}


@pytest.fixture
def mark() -> str:
    """The end of the ids of one test."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def identity(mark: str) -> Identity:
    """A caller that sees the projects whose ids begin with ``mine-``, and no others."""
    access = Access(projects=("mine-*",), reads_as_server=True)
    return Identity(owner=f"key {mark}", access=access)


@pytest.fixture
async def hidden(anyio_backend: str, app: App, mark: str) -> AsyncIterator[str]:
    """A project that exists and that the caller may not see; it is in the resolver's cache."""
    project_id = f"else-{mark}"
    await create_project(app.database, project_id, "Secret name", "Secret description")
    await app.resolver.resolve(project_id, ANONYMOUS)
    yield project_id
    await app.drop_project(project_id)


async def outcome(app: App, identity: Identity, tool: str, **arguments: Any) -> tuple[str, int]:
    """The reply or the error as text, and the number of round trips to the database."""

    async def opened() -> App:
        return app

    with stopwatch("test", lambda *_: None) as watch:
        try:
            reply = (await reply_of(TOOLS[tool], arguments, opened, identity)).as_json()
        except CodebaseError as error:
            reply = {"error": error.as_dict()}
    return json.dumps(reply, default=str), watch.round_trips


def test_every_tool_and_operation_is_in_the_matrix() -> None:
    called = {(tool, arguments.get("operation")) for tool, arguments in CALLS}
    known = set()
    for name, spec in TOOLS.items():
        operation = spec.arguments.model_fields.get("operation")
        known |= {(name, one) for one in (get_args(operation.annotation) if operation else [None])}
    assert called == known


async def test_a_hidden_project_answers_as_an_absent_one_in_every_tool(
    app: App, identity: Identity, hidden: str, mark: str
) -> None:
    for tool, arguments in CALLS:
        names = "collection" if "collection" in TOOLS[tool].arguments.model_fields else "project_id"
        seen = set()
        for project_id in (hidden, f"none-{mark}", hidden.replace("-", "_")):
            text, trips = await outcome(app, identity, tool, **arguments, **{names: project_id})
            seen.add((text.replace(project_id, "ID"), trips))
        [(text, trips)] = seen
        creates = tool in CREATING or arguments.get("operation") == "index_repository"
        wanted = "PERMISSION_DENIED" if creates else "PROJECT_NOT_FOUND"
        assert wanted in text or (tool, "does not exist" in text) == ("get_active_project", True)
        assert "ecret" not in text
        assert trips == 0 or arguments.get("operation") == "get_health"


async def test_without_an_id_the_hidden_default_workspace_is_not_used(
    app: App, identity: Identity
) -> None:
    for tool, arguments in CALLS:
        needs = {"create_project", "switch_project"} | {"list_projects", "get_active_project"}
        if "collection" in TOOLS[tool].arguments.model_json_schema().get("required", ()):
            continue
        if tool in needs or tool == "project":
            continue
        text, trips = await outcome(app, identity, tool, **arguments)
        assert "PROJECT_NOT_FOUND" in text or "PERMISSION_DENIED" in text
        assert ("Pass " in text, trips) == (True, 0)


async def test_lists_and_counts_hold_what_the_caller_sees(
    app: App, identity: Identity, hidden: str, mark: str
) -> None:
    mine = [f"mine-{mark}-{number}" for number in range(3)]
    for project_id in mine:
        made, _ = await outcome(app, identity, "create_project", name="n", project_id=project_id)
        assert "error" not in json.loads(made)
    try:
        listing = [("list_projects", {}), ("project", {"operation": "list"})]
        for tool, arguments in listing:
            found: list[str] = []
            cursor: dict[str, Any] = {}
            while True:
                text, _ = await outcome(app, identity, tool, limit=2, **arguments, **cursor)
                reply = json.loads(text)
                found += [one["project_id"] for one in reply["projects"]]
                assert reply["total"] == 3
                if reply["next_cursor"] is None:
                    break
                cursor = {"cursor": reply["next_cursor"]}
            assert found == mine[::-1]
        text, _ = await outcome(app, identity, "switch_project", project_id=mine[0])
        assert json.loads(text)["project_id"] == mine[0]
        lost = replace(identity, access=Access(projects=("other-*",)))
        now = json.loads((await outcome(app, lost, "get_active_project"))[0])
        assert (now["project"], "does not exist any more" in now["note"]) == (None, True)
        assert (await outcome(app, lost, "list_tasks"))[1] == 0
    finally:
        for project_id in mine:
            await app.drop_project(project_id)


@pytest.mark.parametrize("named_by", ["config", "workflow"])
async def test_a_project_that_the_operator_chose_is_not_named_to_those_who_may_not_see_it(
    settings: Settings, identity: Identity, hidden: str, mark: str, named_by: str
) -> None:
    texts = set()
    for project_id in (hidden, f"none-{mark}"):
        chosen = replace(settings, project=project_id) if named_by == "config" else settings
        async with await App.open(chosen) as app, workflow_mcp(project_id) as client:
            app.resolver.workflow = client
            for tool, arguments in [*CALLS[:2], ("list_projects", {}), ("get_active_project", {})]:
                text, _ = await outcome(app, identity, tool, **arguments)
                assert project_id not in text
                texts.add((tool, text))
    assert len(texts) == 4


def test_patterns_treat_hyphens_and_underscores_alike() -> None:
    def sees(pattern: str, project_id: str) -> bool:
        return Access(projects=(pattern,)).sees(project_id)

    assert sees("my-app", "my_app")
    assert sees("my_app", "my-app")
    assert sees("team[a-c]-*", "teamb_x")
    assert not sees("team[a-c]-*", "team-_x")
    assert not sees("my-app", "my-app-2")
    assert Access().sees("default")
