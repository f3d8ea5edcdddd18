"""Records leave a project as lines and come into another one: whole, checked, all or nothing."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.errors import InvalidInput
from codebase_mcp.records import entities, entity_types, memory, sessions, tasks, work_items
from codebase_mcp.records.anchoring import CodeReference

pytestmark = pytest.mark.anyio

NOW = "2026-01-02T03:04:05.678901+00:00"
HEADER = {"kind": "header", "format": "codebase-mcp-records", "version": 1}
KINDS = {
    "session", "agent", "agent_execution", "task", "observation", "entity_type", "entity",
    "work_item", "anchor",
}  # fmt: skip


@pytest.fixture
async def other_id(anyio_backend: str, app: App) -> AsyncIterator[str]:
    """A second project, not there yet."""
    project_id = f"test-{uuid4().hex[:12]}"
    yield project_id
    if project_id in {p.project.project_id for p in await app.projects()}:
        await app.drop_project(project_id)


@pytest.fixture
async def filled(app: App, project_id: str, make_repo: Callable[..., Path]) -> str:
    """A project with records of every kind."""
    await app.index(make_repo(), project_id)
    async with app.enter(project_id) as here:
        tx = here.tx
        await tx.execute(
            "INSERT INTO session (id, owner, directory) VALUES ('morning', 'me', '/src')"
        )
        agent = await sessions.open_agent(tx, "reviewer", "morning", None)
        await sessions.track_execution(
            tx, agent.name, {"tool_name": "grep", "success": False, "error": "none ☂"}, "me"
        )
        task = await tasks.create_task(
            tx,
            "Fix the login",
            notes="two\nlines",
            anchors=[CodeReference(file="src/auth.py")],
            owner="me",
        )
        await tasks.update_task(
            tx, task.id, {"status": "complete", "branch": "fix/login", "commit": "a" * 40}
        )
        model = await app.models.configured()
        said = memory.ObservationText("Passwords are hashed", ("auth",))
        [prepared] = await memory.prepare(model, [said])
        await memory.store_observation(tx, model, prepared, "Decision", "morning")
        await entity_types.register_entity_type(
            tx, "Service", {"type": "object", "properties": {"port": {"type": "integer"}}}, None
        )
        made = await entities.create_entity(tx, "service", "mail", {"port": 25})
        await entities.create_entity(tx, "Service", "gone", {})
        await entities.delete_entity(tx, made.id, confirmed=True)
        root = await work_items.create_work_item(tx, "project", "All")
        await work_items.create_work_item(tx, "task", "PathScope", parent_id=root.id)
    return project_id


async def exported(app: App, project_id: str) -> list[dict[str, Any]]:
    """A project's lines but for the header."""
    header, *lines = [json.loads(line) async for line in app.data.export_records(project_id)]
    assert header["format"] == "codebase-mcp-records"
    assert header["project_id"] == project_id
    return lines


def file_of(*lines: Any) -> io.BytesIO:
    """A file of these lines; a header is put before them."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in (HEADER, *lines)]
    return io.BytesIO("\n".join(texts).encode("utf-8", "surrogatepass") + b"\n")


async def test_what_was_exported_arrives_as_it_was(app: App, filled: str, other_id: str) -> None:
    lines = await exported(app, filled)
    assert {line["kind"] for line in lines} == KINDS
    imported = await app.data.import_records(file_of(*lines), other_id)
    assert sum(imported.added.values()) == len(lines)
    assert not any(imported.unchanged.values())
    assert await exported(app, other_id) == lines
    async with app.enter(other_id, readonly=True) as here:
        rows = await here.tx.fetch_all("SELECT path FROM work_item ORDER BY length(path)")
        assert rows[1][0].startswith(rows[0][0])


async def test_importing_again_changes_nothing(app: App, filled: str) -> None:
    lines = await exported(app, filled)
    imported = await app.data.import_records(file_of(*lines), filled)
    assert not any(imported.added.values())
    assert sum(imported.unchanged.values()) == len(lines)
    assert await exported(app, filled) == lines


async def root_of(app: App, project_id: str) -> Path:
    """The directory of the anchor's repository."""
    [anchor] = [line for line in await exported(app, project_id) if line["kind"] == "anchor"]
    return Path(anchor["repository"])


async def as_it_is(app: App, project_id: str, root: Path) -> None:
    """Leave the repository in whatever state it is."""


async def indexed(app: App, project_id: str, root: Path) -> None:
    await app.index(root, project_id)


async def removed(app: App, project_id: str, root: Path) -> None:
    await app.index(root, project_id)
    await app.remove(root, project_id)


async def edited(app: App, project_id: str, root: Path) -> None:
    (root / "src/auth.py").write_text("# all is new\n")
    await app.index(root, project_id)


async def moved(app: App, project_id: str, root: Path) -> None:
    (root / "src/auth.py").rename(root / "src/login.py")
    await app.index(root, project_id)


BEFORE = [as_it_is, removed, edited]
BETWEEN = [as_it_is, indexed, removed, edited, moved]


@pytest.mark.parametrize("is_other", [False, True], ids=["same", "other"])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("between", BETWEEN)
async def test_importing_can_be_repeated_whatever_became_of_the_repository(
    app: App,
    filled: str,
    other_id: str,
    *,
    is_other: bool,
    before: Callable[..., Awaitable[None]],
    between: Callable[..., Awaitable[None]],
) -> None:
    root = await root_of(app, filled)
    await before(app, filled, root)
    lines = await exported(app, filled)
    project_id = other_id if is_other else filled
    await app.data.import_records(file_of(*lines), project_id)
    assert await exported(app, project_id) == lines
    await between(app, project_id, root)
    there = await exported(app, project_id)
    assert [line["repository"] for line in there if line["kind"] == "anchor"] == [str(root)]
    for again in (lines, there):
        imported = await app.data.import_records(file_of(*again), project_id)
        assert not any(imported.added.values())
        assert sum(imported.unchanged.values()) == len(lines)
        assert await exported(app, project_id) == there


async def test_an_imported_anchor_follows_the_code_where_its_repository_is_indexed_later(
    app: App, filled: str, other_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.data.import_records(file_of(*await exported(app, filled)), other_id)
    root = await root_of(app, filled)
    namesake = make_repo({"elsewhere/auth.py": "x = 1\n"}, "namesake")
    await app.index(namesake, other_id)
    await app.index(root, other_id)
    (root / "src/auth.py").rename(root / "src/login.py")
    await app.index(root, other_id)
    [anchor] = [line for line in await exported(app, other_id) if line["kind"] == "anchor"]
    assert (anchor["repository"], anchor["file"]) == (str(root), "src/login.py")
    assert (anchor["state"], anchor["moved_from"]) == ("current", "src/auth.py")


async def test_another_anchor_of_the_same_id_is_not_overwritten(
    app: App, filled: str, other_id: str
) -> None:
    lines = await exported(app, filled)
    [anchor] = [line for line in lines if line["kind"] == "anchor"]
    with pytest.raises(InvalidInput, match="its id or place is used"):
        await app.data.import_records(file_of(anchor | {"commit": "b" * 40}), filled)
    assert await exported(app, filled) == lines


async def test_lines_may_come_in_any_order(app: App, filled: str, other_id: str) -> None:
    lines = await exported(app, filled)
    imported = await app.data.import_records(file_of(*reversed(lines)), other_id)
    assert sum(imported.added.values()) == len(lines)


async def test_a_dry_run_stores_nothing_and_makes_no_project(
    app: App, filled: str, other_id: str
) -> None:
    lines = await exported(app, filled)
    imported = await app.data.import_records(file_of(*lines), other_id, dry_run=True)
    assert sum(imported.added.values()) == len(lines)
    assert other_id not in {p.project.project_id for p in await app.projects()}


def task(**changes: Any) -> dict[str, Any]:
    """A task that would be accepted."""
    line = {
        "kind": "task", "id": str(uuid4()), "title": "T", "status": "complete", "created_at": NOW,
        "updated_at": NOW,
    }  # fmt: skip
    return {**line, **changes}


def item(**changes: Any) -> dict[str, Any]:
    """A work item that would be accepted."""
    return task(kind="work_item", item_type="task", status="planned") | changes


def entity_type(**changes: Any) -> dict[str, Any]:
    """An entity type that would be accepted."""
    version = {"version": 1, "schema": {"type": "object"}, "created_at": NOW}
    return {
        "kind": "entity_type", "id": str(uuid4()), "name": "T", "version": 1, "created_at": NOW,
        "updated_at": NOW, "versions": [version],
    } | changes  # fmt: skip


LOOP = str(uuid4())
TYPE = str(uuid4())
STRICT = {
    "version": 1,
    "schema": {"type": "object", "required": ["port"]},
    "created_at": NOW,
}
ENTITY = {
    "kind": "entity", "id": str(uuid4()), "type_id": TYPE, "name": "e", "data": {}, "version": 1,
    "schema_version": 1, "created_at": NOW, "updated_at": NOW,
}  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (["{nonsense"], 2),
        (["[]"], 2),
        (["{" * 5000], 2),
        ([{"kind": "wish"}], 2),
        ([task(), task(title="")], 3),
        ([task(title="x" * 201)], 2),
        ([task(status="done")], 2),
        ([task(id="1")], 2),
        ([task(created_at="yesterday")], 2),
        ([task(created_at="2026-01-02T03:04:05")], 2),
        ([task(title="a\0b")], 2),
        ([task(title="\ud800")], 2),
        ([task(colour="red")], 2),
        ([task(), HEADER], 3),
        ([task(id=LOOP), task(id=LOOP, title="other")], 3),
        ([item(parent_id=str(uuid4()))], 2),
        ([item(id=LOOP, parent_id=LOOP)], 2),
        ([item(id=LOOP, item_type="subtask"), item(parent_id=LOOP)], 3),
        ([ENTITY], 2),
        ([entity_type(id=TYPE, versions=[STRICT]), ENTITY], 3),
        ([entity_type(versions=[STRICT | {"schema": {"$ref": "http://example.org/x"}}])], 2),
        ([entity_type(versions=[STRICT | {"schema": {"type": "wish"}}])], 2),
        ([entity_type(version=2)], 2),
        ([entity_type(name="Same"), entity_type(name="same")], 3),
        ([{"kind": "agent_execution", "id": LOOP, "agent_id": LOOP, "at": NOW}], 2),
        ([{"kind": "anchor", "id": LOOP, "record_kind": "task", "record_id": LOOP, "ordinal": 0,
           "file": "a.py", "created_at": NOW}], 2),
    ],
    ids=lambda value: re.sub("[0-9a-f-]{36}", "ID", str(value))[:60],  # alike in each process
)  # fmt: skip
async def test_a_bad_line_is_named_and_nothing_is_stored(
    app: App, project_id: str, lines: list[Any], number: int
) -> None:
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    with pytest.raises(InvalidInput) as refused:
        await app.data.import_records(file_of(task(title="good"), *lines), project_id)
    assert f"line {number + 1}:" in refused.value.message
    assert await exported(app, project_id) == []


@pytest.mark.parametrize("content", [b"", b"\n", b'{"kind": "task"}\n', b"\xff\xfe\n"])
async def test_a_file_that_is_none_of_ours_is_refused(
    app: App, project_id: str, content: bytes
) -> None:
    with pytest.raises(InvalidInput, match="line 1"):
        await app.data.import_records(io.BytesIO(content), project_id)
    assert project_id not in {p.project.project_id for p in await app.projects()}


async def test_another_record_of_the_same_id_is_not_overwritten(app: App, project_id: str) -> None:
    first = task()
    await app.data.import_records(file_of(first), project_id)
    with pytest.raises(InvalidInput, match="a different task with this id exists"):
        await app.data.import_records(file_of(task(), {**first, "title": "other"}), project_id)
    [kept] = await exported(app, project_id)
    assert kept["title"] == "T"


async def test_an_imported_observation_is_found_by_its_meaning(
    app: App, filled: str, other_id: str
) -> None:
    from codebase_mcp.records.memory_search import (  # noqa: PLC0415
        MemoryFilters,
        ask,
        search_observations,
    )

    await app.data.import_records(file_of(*await exported(app, filled)), other_id)
    question = await ask(app.models, "how are passwords hashed")
    async with app.enter(other_id, readonly=True) as here:
        [found] = await search_observations(here.tx, question, MemoryFilters(), limit=5)
    assert found.content == "Passwords are hashed"
