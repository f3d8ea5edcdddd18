"""The four tools of work items as the contract describes them."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any

import pytest

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.tools.work_items import TOOLSET

pytestmark = pytest.mark.anyio

COMMIT = "a1b2c3d4e5f6789012345678901234567890abcd"
LEVELS = ["project", "session", "task", "research", "subtask"]
STATUSES = ["planned", "active", "completed", "blocked"]
FIELDS = {
    "id", "item_type", "title", "description", "status", "parent_id", "path", "depth",
    "created_at", "updated_at", "completed_at", "anchors",
}  # fmt: skip
WHERE = {"project_id", "project_source"}
UNICODE = "naïve 日本語 🎉 'quoted' \"double\" %s {} \\ \t;--"


@pytest.fixture
def toolsets() -> list[str]:
    return ["work_items"]


@pytest.fixture
async def in_project(app: App, project_id: str) -> str:
    """The id of a project that is there."""
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    return project_id


def part(reply: dict[str, Any]) -> dict[str, Any]:
    """An item as lists and trees show it."""
    return {name: value for name, value in reply.items() if name not in WHERE}


async def test_a_new_item_has_all_fields(call: Any, in_project: str) -> None:
    root = await call.ok(
        "create_work_item",
        item_type="project",
        title="  Payments ",
        description="All of it",
        project_id=in_project,
    )
    assert root.keys() == FIELDS | WHERE
    uuid.UUID(root["id"])
    assert (root["item_type"], root["title"]) == ("project", "Payments")
    assert (root["description"], root["status"]) == ("All of it", "planned")
    assert (root["parent_id"], root["path"], root["depth"]) == (None, f"{root['id']}/", 0)
    assert root["created_at"] == root["updated_at"]
    assert datetime.fromisoformat(root["created_at"]).tzinfo is not None
    assert (root["completed_at"], root["anchors"]) == (None, [])
    assert (root["project_id"], root["project_source"]) == (in_project, "explicit")
    child = await call.ok(
        "create_work_item",
        item_type="task",
        title="Refunds",
        status="active",
        parent_id=root["id"].upper(),
        anchors=[{"commit": COMMIT}],
        collection=in_project,
    )
    assert (child["parent_id"], child["depth"]) == (root["id"], 1)
    assert child["path"] == f"{root['id']}/{child['id']}/"
    assert (child["description"], child["status"]) == (None, "active")
    assert [anchor["commit"] for anchor in child["anchors"]] == [COMMIT]


@pytest.mark.parametrize("item_type", LEVELS)
async def test_a_root_may_be_of_any_type(call: Any, in_project: str, item_type: str) -> None:
    given = {"item_type": item_type, "parent_id": None, "project_id": in_project}
    item = await call.ok("create_work_item", title="t", **given)
    assert (item["item_type"], item["depth"]) == (item_type, 0)


@pytest.mark.parametrize("status", STATUSES)
async def test_an_item_may_begin_in_any_status(call: Any, in_project: str, status: str) -> None:
    given = {"item_type": "task", "status": status, "project_id": in_project}
    item = await call.ok("create_work_item", title="t", **given)
    assert item["status"] == status
    assert item["completed_at"] == (item["created_at"] if status == "completed" else None)


@pytest.mark.parametrize(
    "given",
    [
        {"title": "t" * 200},
        {"title": "🎉" * 200, "description": "🎉" * 2000},
        {"title": UNICODE, "description": UNICODE},
        {"description": ""},
        {"description": None, "anchors": None},
    ],
)
async def test_valid_values_are_stored_unchanged(
    call: Any, in_project: str, given: dict[str, Any]
) -> None:
    first = {"item_type": "task", "title": "t", "project_id": in_project}
    item = await call.ok("create_work_item", **first | given)
    for name, value in given.items():
        assert item[name] == (value or [] if name == "anchors" else value)
    change = {"work_item_id": item["id"], "project_id": in_project}
    updated = await call.ok("update_work_item", **change, **given)
    assert {**updated, "updated_at": item["updated_at"]} == item


TOO_MUCH = [
    ({"title": "t" * 201}, "title", "Title must have 1 to 200 characters, got 201"),
    ({"title": ""}, "title", "Title cannot be empty"),
    ({"title": " \n"}, "title", "Title cannot be empty"),
    ({"title": None}, "title", "Title must be of type string, got null"),
    ({"title": ["t"]}, "title", 'Title must be of type string, got ["t"]'),
    ({"title": "a\0b"}, "title", "title must be valid Unicode without NUL characters"),
    (
        {"description": "d" * 2001},
        "description",
        "Description must have 0 to 2000 characters, got 2001",
    ),
    (
        {"description": "\0"},
        "description",
        "description must be valid Unicode without NUL characters",
    ),
    ({"description": 5}, "description", "Description must be of type null or string, got 5"),
    *(
        (
            {"status": status},
            "status",
            "Status must be one of 'planned', 'active', 'completed', 'blocked', "
            f"got {json.dumps(status)}",
        )
        for status in ("complete", "Planned", "", None)
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
BAD_TYPES = [
    (
        {"item_type": item_type},
        "item_type",
        "Item type must be one of 'project', 'session', 'task', 'research', 'subtask', "
        f'got "{item_type}"',
    )
    for item_type in ("epic", "Task", "")
]
BAD_PARENT = ({"parent_id": "abc"}, "parent_id", "Parent ID is not a valid UUID: abc")


@pytest.mark.parametrize(("given", "field", "message"), [*TOO_MUCH, *BAD_TYPES, BAD_PARENT])
async def test_an_item_is_not_created_with_invalid_parameters(
    call: Any, given: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("create_work_item", **{"item_type": "task", "title": "t"} | given)
    assert (error["code"], error["type"]) == ("VALIDATION_ERROR", "InvalidInput")
    assert (error["details"]["field"], error["message"]) == (field, message)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        *TOO_MUCH,
        ({"work_item_id": "abc"}, "work_item_id", "Work item ID is not a valid UUID: abc"),
        ({"item_type": "task"}, "item_type", "Unknown parameter: item_type"),
        ({"parent_id": None}, "parent_id", "Unknown parameter: parent_id"),
    ],
)
async def test_an_item_is_not_updated_with_invalid_parameters(
    call: Any, given: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("update_work_item", **{"work_item_id": str(uuid.uuid4())} | given)
    assert error["code"] == "VALIDATION_ERROR"
    assert (error["details"]["field"], error["message"]) == (field, message)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        *BAD_TYPES,
        BAD_PARENT,
        (
            {"status": "done"},
            "status",
            "Status must be one of 'planned', 'active', 'completed', 'blocked', got \"done\"",
        ),
        ({"limit": 0}, "limit", "Limit must be between 1 and 100, got 0"),
        ({"limit": 101}, "limit", "Limit must be between 1 and 100, got 101"),
        ({"offset": -1}, "offset", "Offset must be between 0 and 2147483647, got -1"),
        (
            {"include_descendants": True},
            "parent_id",
            "Field required with include_descendants: parent_id",
        ),
        (
            {"include_descendants": True, "parent_id": None},
            "parent_id",
            "Field required with include_descendants: parent_id",
        ),
        (
            {"include_descendants": "perhaps"},
            "include_descendants",
            'Include descendants must be of type boolean, got "perhaps"',
        ),
        ({"cursor": "?"}, "cursor", "Cursor is not one that this tool returned"),
        ({"work_item_id": "x"}, "work_item_id", "Unknown parameter: work_item_id"),
    ],
)
async def test_items_are_not_queried_with_invalid_filters(
    call: Any, given: dict[str, Any], field: str, message: str
) -> None:
    error = await call.error("query_work_items", **given)
    assert error["code"] == "VALIDATION_ERROR"
    assert (error["details"]["field"], error["message"]) == (field, message)


@pytest.mark.parametrize(
    ("tool", "missing"),
    [
        ("create_work_item", {"item_type", "title"}),
        ("update_work_item", {"work_item_id"}),
        ("get_work_item_hierarchy", {"work_item_id"}),
    ],
)
async def test_required_parameters_must_be_given(call: Any, tool: str, missing: set[str]) -> None:
    error = await call.error(tool)
    problems = error["details"].get("fields", [error["details"]])
    assert {problem["field"] for problem in problems} == missing


@pytest.mark.parametrize(
    ("item_type", "parent_type", "hint"),
    [
        ("project", "project", "Omit parent_id, or make item_type session or task or research or "
         "subtask."),
        ("project", "subtask", "Omit parent_id."),
        ("session", "task", "Take a parent_id of type project, or make item_type research or "
         "subtask."),
        ("subtask", "subtask", "Take a parent_id of type project or session or task or research."),
    ],
)  # fmt: skip
async def test_a_child_not_below_its_parent_is_refused_with_a_hint(
    call: Any, in_project: str, item_type: str, parent_type: str, hint: str
) -> None:
    given = {"title": "t", "project_id": in_project}
    parent = await call.ok("create_work_item", item_type=parent_type, **given)
    error = await call.error(
        "create_work_item", item_type=item_type, parent_id=parent["id"], **given
    )
    assert error["code"] == "VALIDATION_ERROR"
    assert error["message"] == (
        f"An item_type '{item_type}' is not allowed below a parent_id of type '{parent_type}'"
    )
    assert (error["details"]["field"], error["details"]["value"]) == ("parent_id", parent["id"])
    assert error["details"]["constraint"].endswith("project > session > task > research > subtask")
    assert error["hint"] == hint


@pytest.mark.parametrize(
    ("tool", "given", "message"),
    [
        ("create_work_item", {"item_type": "task", "title": "t"}, "Parent work item not found"),
        ("query_work_items", {"include_descendants": True}, "Work item not found"),
        ("query_work_items", {}, "Work item not found"),
        ("update_work_item", None, "Work item not found"),
        ("get_work_item_hierarchy", None, "Work item not found"),
    ],
)
async def test_an_unknown_item_is_not_found(
    call: Any, in_project: str, tool: str, given: dict[str, Any] | None, message: str
) -> None:
    field = "work_item_id" if given is None else "parent_id"
    unknown = str(uuid.uuid4())
    error = await call.error(tool, **{field: unknown}, **given or {}, project_id=in_project)
    assert (error["code"], error["type"], error["message"]) == ("NOT_FOUND", "NotFound", message)
    assert error["details"][field] == unknown
    assert "query_work_items" in error["hint"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("create_work_item", {"item_type": "task", "title": "t"}),
        ("update_work_item", {"work_item_id": str(uuid.uuid4())}),
        ("query_work_items", {}),
        ("get_work_item_hierarchy", {"work_item_id": str(uuid.uuid4())}),
    ],
)
async def test_a_missing_project_is_not_found(call: Any, tool: str, given: dict[str, Any]) -> None:
    error = await call.error(tool, **given, project_id="never-made")
    assert error["code"] == "PROJECT_NOT_FOUND"


async def test_an_item_is_not_found_from_another_project(
    call: Any, app: App, in_project: str
) -> None:
    given = {"item_type": "project", "title": "t"}
    item = await call.ok("create_work_item", **given, project_id=in_project)
    other = f"{in_project}-b"
    await app.resolver.resolve(other, ANONYMOUS, create=True)
    try:
        wanted = {"work_item_id": item["id"], "project_id": other}
        error = await call.error("get_work_item_hierarchy", **wanted)
        assert error["message"] == "Work item not found"
        assert (await call.ok("query_work_items", project_id=other))["total"] == 0
    finally:
        await app.drop_project(other)


async def test_only_what_is_given_changes(call: Any, in_project: str) -> None:
    item = await call.ok(
        "create_work_item", item_type="task", title="t", description="d",
        anchors=[{"commit": COMMIT}], project_id=in_project,
    )  # fmt: skip
    change = {"work_item_id": item["id"], "project_id": in_project}
    same = {**item}
    for given in (
        {"title": "T"},
        {"description": "D"},
        {"status": "blocked"},
        {"description": None},
        {"anchors": []},
    ):
        after = await call.ok("update_work_item", **change, **given)
        assert after["updated_at"] > same["updated_at"]
        same |= given
        same["updated_at"] = after["updated_at"]
        assert after == same
    assert await call.ok("update_work_item", **change) == same


async def test_the_completion_time_is_set_kept_and_cleared(call: Any, in_project: str) -> None:
    item = await call.ok("create_work_item", item_type="task", title="t", project_id=in_project)
    change = {"work_item_id": item["id"], "project_id": in_project}
    done = await call.ok("update_work_item", **change, status="completed")
    assert item["updated_at"] < done["completed_at"] == done["updated_at"]
    again = await call.ok("update_work_item", **change, status="completed", title="T")
    assert again["completed_at"] == done["completed_at"]
    renamed = await call.ok("update_work_item", **change, title="U")
    assert renamed["completed_at"] == done["completed_at"]
    reopened = await call.ok("update_work_item", **change, status="active")
    assert reopened["completed_at"] is None


async def test_a_query_is_newest_first_and_counts_all(call: Any, in_project: str) -> None:
    made = []
    for n in range(5):
        given = {"item_type": "task", "title": str(n), "project_id": in_project}
        made.append(await call.ok("create_work_item", **given))
    reply = await call.ok("query_work_items", project_id=in_project)
    assert reply.keys() == {"work_items", "total", "next_cursor"} | WHERE
    assert reply["work_items"] == [part(item) for item in made[::-1]]
    assert (reply["total"], reply["next_cursor"]) == (5, None)
    some = await call.ok("query_work_items", project_id=in_project, limit=2, offset=1)
    assert [item["title"] for item in some["work_items"]] == ["3", "2"]
    rest = await call.ok("query_work_items", project_id=in_project, cursor=some["next_cursor"])
    assert [item["title"] for item in rest["work_items"]] == ["1", "0"]
    assert (rest["total"], rest["next_cursor"]) == (5, None)


async def test_fifty_items_are_listed_unless_asked_otherwise(
    call: Any, app: App, in_project: str
) -> None:
    async with app.enter(in_project) as here:
        await here.tx.execute(
            "INSERT INTO work_item (id, item_type, title, status, path)"
            " SELECT id, 'task', 't', 'planned', id || '/'"
            " FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 51)) AS new"
        )
    reply = await call.ok("query_work_items", project_id=in_project)
    assert (len(reply["work_items"]), reply["total"]) == (50, 51)
    assert (
        len((await call.ok("query_work_items", project_id=in_project, limit=100))["work_items"])
        == 51
    )


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"status": "active"}, ["leaf", "inner"]),
        ({"item_type": "task"}, ["inner"]),
        ({"item_type": "task", "status": "planned"}, []),
        ({"status": None, "item_type": None, "parent_id": None}, ["leaf", "inner", "root"]),
        ({"parent": "root"}, ["inner"]),
        ({"parent": "root", "include_descendants": True}, ["leaf", "inner"]),
        ({"parent": "root", "include_descendants": True, "status": "planned"}, []),
        ({"parent": "leaf", "include_descendants": True}, []),
    ],
)
async def test_a_query_returns_what_passes_its_filters(
    call: Any, in_project: str, wanted: dict[str, Any], found: list[str]
) -> None:
    made: dict[str, str] = {}
    for title, item_type, status, parent in (
        ("root", "project", "planned", None),
        ("inner", "task", "active", "root"),
        ("leaf", "subtask", "active", "inner"),
    ):
        item = await call.ok(
            "create_work_item", title=title, item_type=item_type, status=status,
            parent_id=made.get(parent or ""), project_id=in_project,
        )  # fmt: skip
        made[title] = item["id"]
    given = {name: value for name, value in wanted.items() if name != "parent"}
    if "parent" in wanted:
        given["parent_id"] = made[wanted["parent"]]
    reply = await call.ok("query_work_items", project_id=in_project, **given)
    assert [item["title"] for item in reply["work_items"]] == found
    assert reply["total"] == len(found)


async def test_a_hierarchy_shows_what_is_above_and_below(call: Any, in_project: str) -> None:
    made: list[dict[str, Any]] = []
    for level in LEVELS:
        parent_id = made[-1]["id"] if made else None
        item = await call.ok(
            "create_work_item", item_type=level, title=level, parent_id=parent_id,
            project_id=in_project,
        )  # fmt: skip
        made.append(part(item))
    second = part(
        await call.ok(
            "create_work_item", item_type="subtask", title="second", parent_id=made[2]["id"],
            project_id=in_project,
        )
    )  # fmt: skip
    reply = await call.ok(
        "get_work_item_hierarchy", work_item_id=made[2]["id"], project_id=in_project
    )
    assert reply["work_item"] == made[2]
    assert reply["ancestors"] == made[:2]
    assert reply["children"] == [made[3], second]
    assert reply["descendants"] == [made[3], second, made[4]]
    assert (reply["descendants_total"], reply["truncated"]) == (3, False)
    assert reply["project_id"] == in_project


async def test_a_large_hierarchy_says_that_it_is_truncated(
    call: Any, app: App, in_project: str
) -> None:
    root = await call.ok("create_work_item", item_type="project", title="t", project_id=in_project)
    async with app.enter(in_project) as here:
        await here.tx.execute(
            "INSERT INTO work_item (id, item_type, title, status, parent_id, path)"
            " SELECT id, 'task', 't', 'planned', %(root)s, %(root)s || '/' || id || '/'"
            " FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 1001)) AS new",
            root=uuid.UUID(root["id"]),
        )
    reply = await call.ok("get_work_item_hierarchy", work_item_id=root["id"], project_id=in_project)
    assert (len(reply["descendants"]), reply["descendants_total"]) == (1000, 1001)
    assert reply["truncated"] is True


def test_the_schema_has_every_limit_and_no_default_that_would_clear() -> None:
    tools = {tool.name: tool.input_schema()["properties"] for tool in TOOLSET.tools}
    create, update = tools["create_work_item"], tools["update_work_item"]
    assert not [name for name, schema in update.items() if "default" in schema]
    for schema in (create, update):
        assert (schema["title"]["minLength"], schema["title"]["maxLength"]) == (1, 200)
        assert schema["description"]["anyOf"][0]["maxLength"] == 2000
        assert schema["status"]["enum"] == STATUSES
    assert (create["item_type"]["enum"], create["status"]["default"]) == (LEVELS, "planned")
    query = tools["query_work_items"]
    limit = query["limit"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 100, 50)
    assert query["include_descendants"]["default"] is False


async def test_what_only_reads_is_announced_so(client: Any) -> None:
    hints = {tool.name: tool.annotations for tool in await client.list_tools()}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == {
        "query_work_items", "get_work_item_hierarchy",
    }  # fmt: skip
    assert {name for name, hint in hints.items() if not hint.idempotent_hint} == {
        "create_work_item"
    }
