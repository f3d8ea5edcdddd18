"""Entities are found by what they hold, page by page."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.errors import NotFound
from codebase_mcp.records.entities import (
    Entity,
    create_entity,
    delete_entity,
    query_entities,
    update_entity,
)
from codebase_mcp.records.entity_types import (
    register_entity_type,
    update_entity_type_schema,
)
from codebase_mcp.records.page import Cursor, Page, Paging

pytestmark = pytest.mark.anyio

ANY = {"type": "object"}


class Shelf:
    """Each operation in a transaction of its own, as tools do it; the type is called Thing."""

    def __init__(self, database: Database, project: Project) -> None:
        self._database = database
        self._project = project

    async def register(self, name: str = "Thing") -> None:
        async with self._database.transaction(self._project) as tx:
            await register_entity_type(tx, name, ANY)

    async def create(self, name: str, data: Any = None, **given: Any) -> Entity:
        async with self._database.transaction(self._project) as tx:
            return await create_entity(tx, "Thing", name, data or {}, **given)

    async def update(self, entity: Entity, data: Any, version: int) -> Entity:
        async with self._database.transaction(self._project) as tx:
            return await update_entity(tx, entity.id, data, version)

    async def delete(self, entity_id: UUID) -> None:
        async with self._database.transaction(self._project) as tx:
            await delete_entity(tx, entity_id, confirmed=True)

    async def query(
        self, limit: int = 100, cursor: str | None = None, offset: int = 0, **wanted: Any
    ) -> Page[Entity]:
        paging = Paging(limit, offset, None if cursor is None else Cursor.decoded(cursor))
        async with self._database.transaction(self._project, readonly=True) as tx:
            return await query_entities(tx, "thing", paging, **wanted)

    async def change(self) -> None:
        async with self._database.transaction(self._project) as tx:
            await update_entity_type_schema(tx, "thing", ANY)

    async def execute(self, query: str) -> None:
        async with self._database.transaction(self._project) as tx:
            await tx.execute(query)  # type: ignore[arg-type]


@pytest.fixture
def shelf(database: Database, project: Project) -> Shelf:
    return Shelf(database, project)


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({"owner": "ops"}, "ac"),
        ({"owner": "ops", "port": 1}, "a"),
        ({"port": 1.0}, "a"),
        ({"config": {"tls": True}}, "bc"),
        ({"config": {}}, "bc"),
        ({"hosts": ["x"]}, "ab"),
        ({"hosts": ["y", "x"]}, "b"),
        ({"hosts": []}, "ab"),
        ({"owner": None}, "d"),
        ({"owner": "OPS"}, ""),
        ({"missing": 1}, ""),
        ({}, "abcd"),
    ],
)
@pytest.mark.parametrize("tags", [None, ["t"]])
async def test_a_filter_is_contained_in_what_it_finds(
    shelf: Shelf, filter: dict[str, Any], found: str, tags: list[str] | None
) -> None:
    await shelf.register()
    for name, data in {
        "a": {"owner": "ops", "port": 1, "hosts": ["x"]},
        "b": {"owner": "dev", "config": {"tls": True, "v": 2}, "hosts": ["x", "y", "z"]},
        "c": {"owner": "ops", "config": {"tls": True}},
        "d": {"owner": None},
    }.items():
        await shelf.create(name, data, tags=["t", name])
    page = await shelf.query(filter=filter, tags=tags)
    assert sorted(entity.name for entity in page.items) == sorted(found)
    assert page.total == len(found)


async def test_entities_are_found_by_all_of_some_tags(shelf: Shelf) -> None:
    await shelf.register()
    for name, tags in {"a": ["x"], "b": ["x", "y"], "c": ["y", "X"], "d": []}.items():
        await shelf.create(name, tags=tags)
    for tags, found in ((["x"], "ab"), (["y", "x"], "b"), (["z"], ""), ([], "abcd")):
        page = await shelf.query(tags=tags)
        assert sorted(entity.name for entity in page.items) == sorted(found)


@pytest.mark.parametrize("wanted", [{}, {"filter": {"n": 1}}, {"tags": ["t"]}])
async def test_pages_hold_each_unchanged_entity_once_while_others_come(
    shelf: Shelf, wanted: dict[str, Any]
) -> None:
    await shelf.register()
    made = [await shelf.create(f"e{n}", {"n": 1}, tags=["t"]) for n in range(11)]
    moved = made.pop(3)
    seen: list[UUID] = []
    cursor: str | None = None
    for step in range(20):
        page = await shelf.query(3, cursor, **wanted)
        seen += [entity.id for entity in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
        await shelf.create(f"new {step}", {"n": 1}, tags=["t"])
        await shelf.update(moved, {"n": 1}, step + 1)
    assert cursor is None
    unchanged = [entity.id for entity in made]
    assert [identity for identity in seen if identity in unchanged] == unchanged[::-1]


@pytest.mark.parametrize("wanted", [{}, {"filter": {"n": 1}}, {"tags": ["t"]}])
async def test_totals_agree_with_pages_also_beyond_the_last(
    shelf: Shelf, wanted: dict[str, Any]
) -> None:
    await shelf.register()
    for n in range(7):
        await shelf.create(f"e{n}", {"n": 1}, tags=["t"])
        await shelf.create(f"other {n}", {"n": 2}, tags=["u"])
    await shelf.delete((await shelf.query(filter={"n": 1})).items[0].id)
    expected = 13 if not wanted else 6
    whole = await shelf.query(**wanted)
    assert (whole.total, len(whole.items), whole.next_cursor) == (expected, expected, None)
    times = [entity.updated_at for entity in whole.items]
    assert times == sorted(times, reverse=True)
    for offset in (0, 4, expected, 50):
        page = await shelf.query(3, offset=offset, **wanted)
        assert page.items == whole.items[offset : offset + 3]
        assert page.total == expected
    deleted = await shelf.query(include_deleted=True, **wanted)
    assert deleted.total == expected + 1
    assert deleted.items[0].deleted_at is not None


async def test_entities_of_one_moment_are_paged_by_their_ids(shelf: Shelf) -> None:
    await shelf.register()
    for n in range(7):
        await shelf.create(f"e{n}", {"n": 1})
    await shelf.execute("UPDATE entity SET updated_at = '2024-01-15T10:00:00Z'")
    for wanted in ({}, {"filter": {"n": 1}}):
        ids = [entity.id for entity in (await shelf.query(**wanted)).items]
        assert ids == sorted(ids, reverse=True)
        paged: list[UUID] = []
        page = await shelf.query(2, **wanted)
        while page.next_cursor is not None:
            paged += [entity.id for entity in page.items]
            page = await shelf.query(2, page.next_cursor, **wanted)
        assert [*paged, *(entity.id for entity in page.items)] == ids


async def test_an_unknown_type_names_some_that_are_known(shelf: Shelf) -> None:
    with pytest.raises(NotFound, match=r"^Entity type not found$") as caught:
        await shelf.query()
    assert caught.value.hint == "This project has no types yet: register_entity_type makes one."
    names = [f"Type {n:02}" for n in range(21)]
    for name in names:
        await shelf.register(name)
    operations = {
        "thing": (shelf.query(), shelf.query(filter={"a": 1}), shelf.change()),
        "Thing": (shelf.create("a"),),
    }
    for name, operation in ((name, one) for name, some in operations.items() for one in some):
        with pytest.raises(NotFound, match=r"^Entity type not found$") as caught:
            await operation
        assert caught.value.hint == f"Types of this project: {', '.join(names[:20])}, and more."
        assert caught.value.details == {"entity_type": name}
