"""``create_task``, ``get_task``, ``list_tasks``, ``update_task`` as the contract describes them."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.app.app import App
from codebase_mcp.tools.calling import reply_of
from codebase_mcp.tools.tasks import TOOLSET

pytestmark = pytest.mark.anyio

COMMIT = "a1b2c3d4e5f6789012345678901234567890abcd"
OTHER_COMMIT = COMMIT[::-1]
STATUSES = ["need to be done", "in-progress", "complete"]
DOCUMENTED = {
    "id", "title", "description", "notes", "status", "created_at", "updated_at", "branch", "commit",
    "planning_references",
}  # fmt: skip
BEYOND = {"branches", "commits", "anchors"}
UNICODE = "naïve 日本語 🎉 'quoted' \"double\" %s {} \\ \t;--"


@pytest.fixture
def toolsets() -> list[str]:
    return ["tasks"]


@pytest.fixture
async def in_project(app: App, project_id: str) -> str:
    """The id of a project that is there."""
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    return project_id


def steps(task: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    return [(event["field"], event["from"], event["to"]) for event in task["history"]]


async def test_a_new_task_has_the_documented_fields(call: Any, in_project: str) -> None:
    task = await call.ok(
        "create_task",
        title="Implement caching layer",
        description="Add Redis caching for frequently accessed data",
        notes="Consider using cache-aside pattern",
        planning_references=["specs/caching.md", "docs/architecture.md"],
        project_id=in_project,
    )
    assert task.keys() == DOCUMENTED | BEYOND | {"history", "project_id", "project_source"}
    uuid.UUID(task["id"])
    assert task["title"] == "Implement caching layer"
    assert task["description"] == "Add Redis caching for frequently accessed data"
    assert task["notes"] == "Consider using cache-aside pattern"
    assert task["status"] == "need to be done"
    assert task["planning_references"] == ["specs/caching.md", "docs/architecture.md"]
    assert task["created_at"] == task["updated_at"]
    assert datetime.fromisoformat(task["created_at"]).tzinfo is not None
    assert (task["branch"], task["commit"]) == (None, None)
    assert task["branches"] == task["commits"] == task["anchors"] == []
    assert task["history"] == [
        {"at": task["created_at"], "field": "status", "from": None, "to": "need to be done"}
    ]
    assert (task["project_id"], task["project_source"]) == (in_project, "explicit")
    assert await call.ok("get_task", task_id=task["id"], project_id=in_project) == task


async def test_a_title_is_all_that_a_task_needs(call: Any, in_project: str) -> None:
    task = await call.ok("create_task", title="Fix it", collection=in_project)
    assert task["description"] is None
    assert task["notes"] is None
    assert task["planning_references"] == []


@pytest.mark.parametrize(
    "spelling", [str.upper, lambda text: text.replace("-", ""), "{{{}}}".format]
)
async def test_an_id_is_understood_in_any_spelling(
    call: Any, in_project: str, spelling: Any
) -> None:
    task = await call.ok("create_task", title="t", project_id=in_project)
    found = await call.ok("get_task", task_id=spelling(task["id"]), project_id=in_project)
    assert found == task


@pytest.mark.parametrize(
    "given",
    [
        {"title": "t" * 200},
        {"title": f"  {'t' * 200}\n"},
        {"description": "d" * 2000},
        {"notes": "n" * 5000},
        {"planning_references": ["p" * 500] * 10},
        {"description": None, "notes": None, "planning_references": None, "anchors": None},
        {"description": "", "notes": "", "planning_references": [], "anchors": []},
        {"title": "🎉" * 200, "description": "🎉" * 2000, "notes": "🎉" * 5000},
        {"title": UNICODE, "description": UNICODE, "notes": UNICODE},
        {"planning_references": [UNICODE, '"', "{", "NULL", ""]},
    ],
)
async def test_valid_values_are_stored_unchanged(
    call: Any, in_project: str, given: dict[str, Any]
) -> None:
    task = await call.ok("create_task", **{"title": "t"} | given, project_id=in_project)
    for name, value in given.items():
        expected = value.strip() if name == "title" else value
        if name in ("planning_references", "anchors"):
            expected = value or []
        assert task[name] == expected
    change = {"task_id": task["id"], "project_id": in_project}
    updated = await call.ok("update_task", **change, **given)
    assert {**updated, "updated_at": task["updated_at"]} == task


TOO_MUCH = [
    ({"title": "t" * 201}, "title", "Title must have 1 to 200 characters, got 201"),
    ({"title": ""}, "title", "Title cannot be empty"),
    ({"title": " \n\t"}, "title", "Title cannot be empty"),
    ({"title": 5}, "title", "Title must be of type string, got 5"),
    ({"title": None}, "title", "Title must be of type string, got null"),
    ({"title": "a\0b"}, "title", "title must be valid Unicode without NUL characters"),
    (
        {"description": "d" * 2001},
        "description",
        "Description must have 0 to 2000 characters, got 2001",
    ),
    (
        {"description": "a\0b"},
        "description",
        "description must be valid Unicode without NUL characters",
    ),
    ({"description": 5}, "description", "Description must be of type null or string, got 5"),
    ({"notes": "n" * 5001}, "notes", "Notes must have 0 to 5000 characters, got 5001"),
    ({"notes": ["n"]}, "notes", 'Notes must be of type null or string, got ["n"]'),
    (
        {"planning_references": ["p"] * 11},
        "planning_references",
        "Planning references must have 0 to 10 items, got 11",
    ),
    (
        {"planning_references": ["p", "p" * 501]},
        "planning_references.1",
        "planning_references.1 must have 0 to 500 characters, got 501",
    ),
    (
        {"planning_references": ["a\0b"]},
        "planning_references.0",
        "planning_references.0 must be valid Unicode without NUL characters",
    ),
    (
        {"planning_references": "specs/a.md"},
        "planning_references",
        'Planning references must be of type array or null, got "specs/a.md"',
    ),
    ({"anchors": [{}]}, "anchors.0", "An anchor must name a file, a symbol or a commit"),
    ({"anchors": [{"file": "a"}] * 11}, "anchors", "Anchors must have 0 to 10 items, got 11"),
    ({"titel": "t"}, "titel", "Unknown parameter: titel"),
    (
        {"project_id": "Bad"},
        "project_id",
        "Invalid project_id: Project identifier must be lowercase alphanumeric with hyphens or "
        "underscores",
    ),
]


@pytest.mark.parametrize(("given", "field", "message"), TOO_MUCH)
async def test_a_task_is_not_created_with_invalid_parameters(
    call: Any, given: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("create_task", **{"title": "t"} | given)
    assert (error["code"], error["type"]) == ("VALIDATION_ERROR", "InvalidInput")
    assert (error["details"]["field"], error["message"]) == (field, message)
    assert error["details"]["jsonrpc_code"] == -32602


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        *TOO_MUCH,
        *(
            (
                {"status": status},
                "status",
                "Status must be one of 'need to be done', 'in-progress', 'complete', "
                f"got {json.dumps(status)}",
            )
            for status in ("done", "Complete", "", None, 1)
        ),
        ({"branch": ""}, "branch", "Branch cannot be empty"),
        ({"branch": "b" * 201}, "branch", "Branch must have 1 to 200 characters, got 201"),
        ({"branch": "a\0b"}, "branch", "branch must be valid Unicode without NUL characters"),
        ({"branch": 7}, "branch", "Branch must be of type null or string, got 7"),
        *(
            (
                {"commit": commit},
                "commit",
                "Commit must be a full hash, 40 hex digits in lower case",
            )
            for commit in ("", "abc", COMMIT.upper(), COMMIT + "\n", COMMIT + "0", "g" * 40, "a\0")
        ),
        ({"commit": 7}, "commit", "Commit must be of type null or string, got 7"),
        ({"task_id": "abc"}, "task_id", "Task ID is not a valid UUID: abc"),
        ({"task_id": None}, "task_id", "Task id must be of type string, got null"),
    ],
)
async def test_a_task_is_not_updated_with_invalid_parameters(
    call: Any, given: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("update_task", **{"task_id": str(uuid.uuid4())} | given)
    assert error["code"] == "VALIDATION_ERROR"
    assert (error["details"]["field"], error["message"]) == (field, message)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"limit": 0}, "limit", "Limit must be between 1 and 100, got 0"),
        ({"limit": 101}, "limit", "Limit must be between 1 and 100, got 101"),
        ({"limit": "many"}, "limit", 'Limit must be of type integer, got "many"'),
        ({"offset": -1}, "offset", "Offset must be between 0 and 2147483647, got -1"),
        (
            {"status": "done"},
            "status",
            "Status must be one of 'need to be done', 'in-progress', 'complete', got \"done\"",
        ),
        ({"branch": "b" * 201}, "branch", "Branch must have 0 to 200 characters, got 201"),
        ({"branch": "a\0b"}, "branch", "branch must be valid Unicode without NUL characters"),
        ({"cursor": "?"}, "cursor", "Cursor is not one that this tool returned"),
        ({"task_id": "x"}, "task_id", "Unknown parameter: task_id"),
    ],
)
async def test_tasks_are_not_listed_with_invalid_filters(
    call: Any, given: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("list_tasks", **given)
    assert error["code"] == "VALIDATION_ERROR"
    assert (error["details"]["field"], error["message"]) == (field, message)


@pytest.mark.parametrize(
    ("tool", "missing"),
    [("create_task", "title"), ("get_task", "task_id"), ("update_task", "task_id")],
)
async def test_required_parameters_must_be_given(call: Any, tool: str, missing: str) -> None:
    error = await call.error(tool)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["message"] == f"Field required: {missing}"


async def test_all_problems_are_named_at_once(call: Any) -> None:
    error = await call.error("update_task", title="", commit="x", status="y")
    assert error["message"] == "Parameter validation failed"
    fields = [problem["field"] for problem in error["details"]["fields"]]
    assert sorted(fields) == ["commit", "status", "task_id", "title"]


@pytest.mark.parametrize("tool", ["get_task", "update_task"])
async def test_an_unknown_task_is_not_found(call: Any, in_project: str, tool: str) -> None:
    unknown = str(uuid.uuid4())
    error = await call.error(tool, task_id=unknown, project_id=in_project)
    assert (error["code"], error["type"]) == ("NOT_FOUND", "NotFound")
    assert error["message"] == "Task not found"
    assert error["details"] == {"task_id": unknown, "jsonrpc_code": -32000}
    assert "list_tasks" in error["hint"]


async def test_a_task_is_not_found_from_another_project(
    call: Any, app: App, in_project: str
) -> None:
    task = await call.ok("create_task", title="t", project_id=in_project)
    other = f"{in_project}-b"
    await app.resolver.resolve(other, ANONYMOUS, create=True)
    try:
        error = await call.error("get_task", task_id=task["id"], project_id=other)
        assert error["message"] == "Task not found"
        assert (await call.ok("list_tasks", project_id=other))["total_count"] == 0
    finally:
        await app.drop_project(other)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("create_task", {"title": "t"}),
        ("get_task", {"task_id": str(uuid.uuid4())}),
        ("list_tasks", {}),
        ("update_task", {"task_id": str(uuid.uuid4())}),
    ],
)
async def test_a_missing_project_is_not_found(call: Any, tool: str, given: dict[str, Any]) -> None:
    error = await call.error(tool, **given, project_id="never-made")
    assert error["code"] == "PROJECT_NOT_FOUND"


async def test_only_what_is_given_changes(call: Any, in_project: str) -> None:
    task = await call.ok(
        "create_task", title="t", description="d", notes="n", planning_references=["p"],
        anchors=[{"commit": COMMIT}], project_id=in_project,
    )  # fmt: skip
    change = {"task_id": task["id"], "project_id": in_project}
    same = {**task}
    for given in (
        {"title": "T"},
        {"description": "D"},
        {"notes": "N"},
        {"planning_references": ["P", "Q"]},
        {"status": "in-progress"},
        {"branch": "feature/x"},
        {"commit": OTHER_COMMIT},
    ):
        after = await call.ok("update_task", **change, **given)
        assert after["updated_at"] > same["updated_at"]
        same |= given
        same["updated_at"] = after["updated_at"]
        same["history"] = after["history"]
        same["branches"] = [same["branch"]] if same["branch"] else []
        same["commits"] = [same["commit"]] if same["commit"] else []
        assert after == same
    assert await call.ok("get_task", **change) == same
    assert await call.ok("update_task", **change) == same


async def test_null_clears_what_is_optional(call: Any, in_project: str) -> None:
    task = await call.ok(
        "create_task", title="t", description="d", notes="n", planning_references=["p"],
        anchors=[{"commit": COMMIT}], project_id=in_project,
    )  # fmt: skip
    change = {"task_id": task["id"], "project_id": in_project}
    assert task["anchors"][0]["commit"] == COMMIT
    await call.ok("update_task", **change, branch="a", commit=COMMIT)
    cleared = await call.ok(
        "update_task", **change, description=None, notes=None, branch=None, commit=None,
        planning_references=None, anchors=None,
    )  # fmt: skip
    assert cleared["title"] == "t"
    for name in ("description", "notes", "branch", "commit"):
        assert cleared[name] is None
    for name in ("planning_references", "branches", "commits", "anchors"):
        assert cleared[name] == []
    assert steps(cleared)[1:] == [
        ("branch", None, "a"),
        ("commit", None, COMMIT),
        ("branch", "a", None),
        ("commit", COMMIT, None),
    ]


async def test_any_status_may_follow_any_and_each_change_is_kept_once(
    call: Any, in_project: str
) -> None:
    task = await call.ok("create_task", title="t", project_id=in_project)
    change = {"task_id": task["id"], "project_id": in_project}
    order = [1, 2, 2, 0, 2, 1, 0, 0]
    for status in order:
        task = await call.ok("update_task", **change, status=STATUSES[status])
        assert task["status"] == STATUSES[status]
    taken = [0, 1, 2, 0, 2, 1, 0]
    names = [None, *(STATUSES[number] for number in taken)]
    assert steps(task) == [("status", old, new) for old, new in pairwise(names)]
    times = [datetime.fromisoformat(event["at"]) for event in task["history"]]
    assert times == sorted(times)


async def test_the_latest_branch_and_commit_are_shown_and_all_are_kept(
    call: Any, in_project: str
) -> None:
    task = await call.ok("create_task", title="t", project_id=in_project)
    change = {"task_id": task["id"], "project_id": in_project}
    for branch, commit in (("a", COMMIT), ("b", OTHER_COMMIT), ("a", COMMIT), ("a", COMMIT)):
        task = await call.ok("update_task", **change, branch=branch, commit=commit)
    assert (task["branch"], task["commit"]) == ("a", COMMIT)
    assert (task["branches"], task["commits"]) == (["b", "a"], [OTHER_COMMIT, COMMIT])
    assert [step for step in steps(task) if step[0] == "branch"] == [
        ("branch", None, "a"),
        ("branch", "a", "b"),
        ("branch", "b", "a"),
    ]


async def test_a_list_is_newest_first_and_counts_all(call: Any, in_project: str) -> None:
    made = [
        (await call.ok("create_task", title=str(n), project_id=in_project))["id"] for n in range(5)
    ]
    reply = await call.ok("list_tasks", project_id=in_project)
    assert reply.keys() == {
        "tasks", "total_count", "next_cursor", "project_id", "project_source",
    }  # fmt: skip
    assert [task["id"] for task in reply["tasks"]] == made[::-1]
    assert all(task.keys() == DOCUMENTED | BEYOND for task in reply["tasks"])
    assert (reply["total_count"], reply["next_cursor"]) == (5, None)
    part = await call.ok("list_tasks", project_id=in_project, limit=2, offset=1)
    assert [task["title"] for task in part["tasks"]] == ["3", "2"]
    assert part["total_count"] == 5
    rest = await call.ok("list_tasks", project_id=in_project, cursor=part["next_cursor"])
    assert [task["title"] for task in rest["tasks"]] == ["1", "0"]
    assert (rest["total_count"], rest["next_cursor"]) == (5, None)
    past = await call.ok("list_tasks", project_id=in_project, offset=5)
    assert (past["tasks"], past["total_count"], past["next_cursor"]) == ([], 5, None)


async def test_twenty_tasks_are_listed_unless_asked_otherwise(call: Any, in_project: str) -> None:
    for n in range(21):
        await call.ok("create_task", title=str(n), project_id=in_project)
    reply = await call.ok("list_tasks", project_id=in_project)
    assert (len(reply["tasks"]), reply["total_count"]) == (20, 21)
    assert reply["next_cursor"]
    whole = await call.ok("list_tasks", project_id=in_project, limit=100)
    assert len(whole["tasks"]) == 21


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"status": "in-progress"}, ["b", "a"]),
        ({"status": "complete"}, []),
        ({"status": None}, ["c", "b", "a"]),
        ({"branch": "feature/"}, ["b", "a"]),
        ({"branch": "feature/b"}, ["b"]),
        ({"branch": " feature/b "}, ["b"]),
        ({"branch": "eature"}, []),
        ({"branch": "%"}, []),
        ({"branch": ""}, ["c", "b", "a"]),
        ({"branch": None}, ["c", "b", "a"]),
        ({"branch": "x" * 200}, []),
        ({"branch": "feature/", "status": "need to be done"}, []),
        ({"branch": "feature/", "status": "in-progress", "limit": 1}, ["b"]),
    ],
)
async def test_a_list_has_what_passes_its_filters(
    call: Any, in_project: str, wanted: dict[str, Any], found: list[str]
) -> None:
    for title in ("a", "b", "c"):
        task = await call.ok("create_task", title=title, project_id=in_project)
        if title != "c":
            change = {"branch": f"feature/{title}", "status": "in-progress"}
            await call.ok("update_task", task_id=task["id"], project_id=in_project, **change)
    reply = await call.ok("list_tasks", project_id=in_project, **wanted)
    assert [task["title"] for task in reply["tasks"]] == found
    assert reply["total_count"] == len(found) + ("limit" in wanted)


async def test_what_a_caller_does_to_a_task_belongs_to_its_session(
    app: App, in_project: str
) -> None:
    me = Identity("me")
    tools = {tool.name: tool for tool in TOOLSET.tools}

    async def opened() -> App:
        return app

    async def do(name: str, **given: Any) -> dict[str, Any]:
        given["project_id"] = in_project
        return (await reply_of(tools[name], given, opened, me)).as_json()

    async with app.enter(in_project, me) as here:
        await here.tx.execute("INSERT INTO session (id, owner) VALUES ('mine', 'me')")
    task = await do("create_task", title="t")
    await do("update_task", task_id=task["id"], notes="n")
    await do("update_task", task_id=task["id"], status="complete")
    async with app.enter(in_project, me, readonly=True) as here:
        rows = await here.tx.fetch_all("SELECT field, session_id FROM task_event ORDER BY ordinal")
    assert rows == [("status", "mine"), ("text", "mine"), ("status", "mine")]


def test_the_schema_has_every_limit_and_no_default_that_would_clear() -> None:
    tools = {tool.name: tool.input_schema()["properties"] for tool in TOOLSET.tools}
    assert tools.keys() == {"create_task", "get_task", "list_tasks", "update_task"}
    update = tools["update_task"]
    assert not [name for name, schema in update.items() if "default" in schema]
    assert (update["title"]["type"], update["title"]["maxLength"]) == ("string", 200)
    assert (update["status"]["type"], update["status"]["enum"]) == ("string", STATUSES)
    assert update["commit"]["anyOf"][0]["pattern"] == "^[a-f0-9]{40}$"
    assert update["branch"]["anyOf"][0]["maxLength"] == 200
    for name in ("create_task", "update_task"):
        assert tools[name]["description"]["anyOf"][0]["maxLength"] == 2000
        assert tools[name]["notes"]["anyOf"][0]["maxLength"] == 5000
        references = tools[name]["planning_references"]["anyOf"][0]
        assert (references["maxItems"], references["items"]["maxLength"]) == (10, 500)
    limit = tools["list_tasks"]["limit"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 100, 20)
    assert tools["get_task"]["task_id"]["format"] == "uuid"


async def test_what_only_reads_is_announced_so(client: Any) -> None:
    hints = {tool.name: tool.annotations for tool in await client.list_tools()}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == {
        "get_task", "list_tasks",
    }  # fmt: skip
    assert {name for name, hint in hints.items() if not hint.idempotent_hint} == {"create_task"}
