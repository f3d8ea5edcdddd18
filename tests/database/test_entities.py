"""Entities in the database: many at once, while their schema changes, page by page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.errors import Conflict, InvalidInput, NotFound
from codebase_mcp.records.anchoring import CodeReference
from codebase_mcp.records.entities import (
    Entity,
    create_entity,
    delete_entity,
    query_entities,
    update_entity,
)
from codebase_mcp.records.entity_types import (
    EntityType,
    SchemaUpdate,
    register_entity_type,
    schema_problems,
    update_entity_type_schema,
)
from codebase_mcp.records.page import Cursor, Page, Paging

pytestmark = pytest.mark.anyio

ANY = {"type": "object"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


class Shelf:
    """Each operation in a transaction of its own, as tools do it; the type is called Thing."""

    def __init__(self, database: Database, project: Project) -> None:
        self._database = database
        self._project = project

    async def register(self, name: str = "Thing", schema: Mapping[str, Any] = ANY) -> EntityType:
        async with self._database.transaction(self._project) as tx:
            return await register_entity_type(tx, name, schema, None)

    async def create(self, name: str, data: Any = None, **given: Any) -> Entity:
        async with self._database.transaction(self._project) as tx:
            return await create_entity(tx, "Thing", name, data or {}, **given)

    async def update(self, entity: Entity, data: Any, version: int = 1, **given: Any) -> Entity:
        async with self._database.transaction(self._project) as tx:
            return await update_entity(tx, entity.id, data, version, **given)

    async def delete(self, entity_id: UUID) -> Entity:
        async with self._database.transaction(self._project) as tx:
            return await delete_entity(tx, entity_id, confirmed=True)

    async def query(
        self, limit: int = 100, cursor: str | None = None, **wanted: Any
    ) -> Page[Entity]:
        paging = Paging(limit, cursor=None if cursor is None else Cursor.decoded(cursor))
        async with self._database.transaction(self._project, readonly=True) as tx:
            return await query_entities(tx, wanted.pop("type", "Thing"), paging, **wanted)

    async def change(self, schema: Mapping[str, Any], **how: Any) -> SchemaUpdate:
        async with self._database.transaction(self._project) as tx:
            return await update_entity_type_schema(tx, "Thing", schema, **how)

    async def rows(self, query: str, **params: object) -> list[tuple[Any, ...]]:
        async with self._database.transaction(self._project) as tx:
            await tx.become_owner()
            return await tx.fetch_all(query, **params)  # type: ignore[arg-type]


@pytest.fixture
def shelf(database: Database, project: Project) -> Shelf:
    return Shelf(database, project)


def only(results: Sequence[Any], kind: type, losers: type[BaseException]) -> Any:
    """The one that succeeded; all others failed in the same way."""
    winners = [result for result in results if isinstance(result, kind)]
    assert len(winners) == 1
    assert all(isinstance(result, losers) for result in results if result is not winners[0])
    return winners[0]


async def test_of_many_registrations_one_wins_whatever_the_case(shelf: Shelf) -> None:
    names = ["Straße", "STRASSE", "strasse", "sTRaSSE"] * 3
    results = await asyncio.gather(
        *(shelf.register(name) for name in names), return_exceptions=True
    )
    winner = only(results, EntityType, Conflict)
    losers = {result.message for result in results if isinstance(result, Conflict)}
    assert losers == {f"Entity type already exists: {winner.name}"}
    assert await shelf.rows("SELECT count(*) FROM entity_type_version") == [(1,)]


async def test_of_many_creations_of_one_name_one_wins(shelf: Shelf) -> None:
    await shelf.register()
    results = await asyncio.gather(
        *(shelf.create("same", {"n": n}) for n in range(12)), return_exceptions=True
    )
    winner = only(results, Entity, Conflict)
    taken = next(result for result in results if isinstance(result, Conflict))
    assert taken.message == "Entity already exists: same"
    assert taken.details["entity_id"] == str(winner.id)
    assert (await shelf.query()).items == [winner]


async def test_of_many_updates_of_one_version_one_wins(shelf: Shelf) -> None:
    await shelf.register()
    entity = await shelf.create("a")
    for version in range(1, 4):
        results = await asyncio.gather(
            *(shelf.update(entity, {"n": n}, version) for n in range(10)), return_exceptions=True
        )
        winner = only(results, Entity, Conflict)
        assert winner.version == version + 1
        assert (await shelf.query()).items == [winner]
        for loser in (result for result in results if isinstance(result, Conflict)):
            assert loser.details == {
                "entity_id": str(entity.id),
                "expected_version": version,
                "current_version": version + 1,
            }


async def test_an_update_beside_a_deletion_is_stored_or_not_found(shelf: Shelf) -> None:
    await shelf.register()
    for n in range(5):
        entity = await shelf.create(f"e{n}")
        changed, deleted = await asyncio.gather(
            shelf.update(entity, {"n": 1}), shelf.delete(entity.id), return_exceptions=True
        )
        assert isinstance(deleted, Entity)
        assert deleted.deleted_at is not None
        assert isinstance(changed, Entity | NotFound)
        assert deleted.version == (2 if isinstance(changed, Entity) else 1)
    assert (await shelf.query()).total == 0


async def test_deletions_at_once_are_one(shelf: Shelf) -> None:
    await shelf.register()
    entity = await shelf.create("a")
    answers = await asyncio.gather(*(shelf.delete(entity.id) for _ in range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].updated_at == answers[0].deleted_at


async def test_no_entity_is_stored_against_a_schema_that_is_not_current(shelf: Shelf) -> None:
    schemas = [of(n={"const": version}) for version in range(1, 6)]
    await shelf.register(schema=schemas[0])

    async def create(name: str, n: int) -> Entity | None:
        try:
            return await shelf.create(name, {"n": n})
        except InvalidInput:
            return None

    async def raise_versions() -> None:
        for schema in schemas[1:]:
            await shelf.change(schema, allow_breaking=True)

    async def store_all() -> list[Entity | None]:
        return await asyncio.gather(
            *(create(f"{n} {again}", n) for again in range(8) for n in range(1, 6))
        )

    _, first = await asyncio.gather(raise_versions(), store_all())
    last = [await create(f"last {n}", n) for n in range(1, 6)]
    stored = [entity for entity in [*first, *last] if entity is not None]
    # What it holds tells which schema it was held against.
    assert stored
    assert all(entity.schema_version == entity.data["n"] for entity in stored)
    assert [entity.name for entity in last if entity] == ["last 5"]
    assert (await shelf.query()).total == len(stored)


async def until_waiting(shelf: Shelf, task: asyncio.Task[Any]) -> None:
    """Until something waits for a lock of another transaction, or is done without."""
    query = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'entity'"
    while not task.done() and not await shelf.rows(query):
        pass


async def test_whoever_stores_waits_for_a_schema_that_is_being_changed(
    shelf: Shelf, database: Database, project: Project
) -> None:
    await shelf.register(schema=of(n={"type": "integer"}))
    entity = await shelf.create("a", {"n": 1})
    text = of(n={"type": "string"})
    for store in (lambda: shelf.create("b", {"n": 1}), lambda: shelf.update(entity, {"n": 2})):
        async with database.transaction(project) as tx:
            await update_entity_type_schema(tx, "Thing", text, allow_breaking=True)
            storing = asyncio.create_task(store())
            await until_waiting(shelf, storing)
            assert not storing.done()
        with pytest.raises(InvalidInput, match=r"^Entity data does not match the schema of Thing"):
            await storing
        await shelf.change(of(n={"type": "integer"}), allow_breaking=True)
    assert (await shelf.query()).items == [entity]


async def test_a_schema_change_waits_for_whoever_stores(
    shelf: Shelf, database: Database, project: Project
) -> None:
    await shelf.register()
    entity = await shelf.create("a", {"n": 1})
    how = {"validate_existing": True, "allow_breaking": True}
    async with database.transaction(project) as tx:
        await update_entity(tx, entity.id, {"n": "text"}, 1)
        changing = asyncio.create_task(shelf.change(of(n={"type": "integer"}), **how))
        await until_waiting(shelf, changing)
        assert not changing.done()
    with pytest.raises(InvalidInput, match=r"^1 of 1 entities of type Thing do not match"):
        await changing
    assert [e.schema_version for e in (await shelf.query()).items] == [1]


async def test_a_check_of_all_misses_none_that_are_stored_meanwhile(shelf: Shelf) -> None:
    await shelf.register()

    async def create(n: int) -> bool:
        try:
            await shelf.create(f"e{n}", {"n": n if n % 10 else "text"})
        except InvalidInput:
            return False
        return True

    async def check() -> SchemaUpdate | InvalidInput:
        try:
            return await shelf.change(
                of(n={"type": "integer"}), validate_existing=True, allow_breaking=True
            )
        except InvalidInput as error:
            return error

    result, *stored = await asyncio.gather(check(), *(create(n) for n in range(1, 41)))
    assert not isinstance(result, bool)
    found = (await shelf.query()).items
    texts = [entity for entity in found if entity.data["n"] == "text"]
    assert len(found) == sum(map(bool, stored))
    if isinstance(result, SchemaUpdate):
        assert texts == []
        assert all(entity.schema_version == 2 for entity in found)
    else:
        assert texts
        assert all(entity.schema_version == 1 for entity in found)


async def test_schema_changes_at_once_follow_each_other(shelf: Shelf) -> None:
    await shelf.register()
    schemas = [of(**{f"f{n}": {}}) for n in range(8)]
    updates = await asyncio.gather(*(shelf.change(s, allow_breaking=True) for s in schemas))
    assert sorted(update.type.version for update in updates) == list(range(2, 10))
    assert all(update.previous_version == update.type.version - 1 for update in updates)
    rows = await shelf.rows("SELECT version, schema::text FROM entity_type_version ORDER BY 1")
    assert [version for version, _ in rows] == list(range(1, 10))
    kept = {version: json.loads(text) for version, text in rows}
    assert all(kept[update.type.version] == update.type.document for update in updates)


async def test_entities_keep_the_version_that_they_fit_until_they_are_checked(
    shelf: Shelf,
) -> None:
    await shelf.register(schema=of(a={"type": "integer"}))
    kept, gone = await shelf.create("kept", {"a": 1}), await shelf.create("gone", {"a": 1})
    await shelf.delete(gone.id)
    update = await shelf.change(of(a={"type": "integer"}, b={}))
    assert (update.previous_version, update.type.version, update.checked) == (1, 2, None)
    assert (await shelf.query()).items[0].schema_version == 1
    again = await shelf.update(kept, {"a": 2})
    assert (again.version, again.schema_version) == (2, 2)
    update = await shelf.change(of(a={"type": "integer"}, b={}, c={}), validate_existing=True)
    assert update.checked == 1
    live = (await shelf.query()).items[0]
    assert (live.schema_version, live.version, live.updated_at) == (3, 2, again.updated_at)
    everything = await shelf.query(include_deleted=True)
    assert [entity.schema_version for entity in everything.items] == [3, 1]


async def test_the_same_schema_makes_no_version_but_can_be_checked(shelf: Shelf) -> None:
    schema = of(a={"type": "integer"})
    await shelf.register(schema=schema)
    await shelf.create("a", {"a": 1})
    await shelf.rows('UPDATE entity SET data = \'{"a": "x"}\' RETURNING id')
    update = await shelf.change({"properties": {"a": {"type": "integer"}}, "type": "object"})
    assert (update.type.version, update.changes, update.checked) == (1, [], None)
    with pytest.raises(InvalidInput, match=r"^1 of 1 entities of type Thing do not match"):
        await shelf.change(schema, validate_existing=True)
    assert await shelf.rows("SELECT version FROM entity_type_version") == [(1,)]


async def test_all_entities_are_checked_batch_by_batch(shelf: Shelf) -> None:
    await shelf.register()
    await shelf.register("Other")
    await shelf.rows(
        "INSERT INTO entity (id, type_id, name, data, schema_version, updated_at)"
        " SELECT gen_random_uuid(), t.id, 'e' || i,"
        '        CASE WHEN i %% 50 = 0 THEN \'{"n": "x"}\'::jsonb ELSE \'{"n": 1}\' END, 1,'
        "        now() - make_interval(secs => i / 7)"
        " FROM generate_series(1, 1000) AS i CROSS JOIN entity_type AS t RETURNING id"
    )
    schema = of(n={"type": "integer"})
    with pytest.raises(InvalidInput) as caught:
        await shelf.change(schema, validate_existing=True)
    assert caught.value.message == "20 of 1000 entities of type Thing do not match the new schema"
    details = caught.value.details
    assert (details["entities_checked"], details["entities_not_fitting"]) == (1000, 20)
    assert [entity["name"] for entity in details["entities"]] == [
        f"e{n}" for n in range(50, 501, 50)
    ]
    assert {entity["problem"] for entity in details["entities"]} == {
        '/n must be of type integer, got "x"'
    }
    assert await shelf.rows("SELECT DISTINCT schema_version FROM entity") == [(1,)]
    assert await shelf.rows("SELECT max(version) FROM entity_type") == [(1,)]
    await shelf.rows("UPDATE entity SET data = '{}' WHERE data <> '{\"n\": 1}' RETURNING id")
    assert (await shelf.change(schema, validate_existing=True)).checked == 1000
    assert await shelf.rows(
        "SELECT t.name, e.schema_version, count(*) FROM entity AS e"
        " JOIN entity_type AS t ON t.id = e.type_id GROUP BY 1, 2 ORDER BY 1"
    ) == [("Other", 1, 1000), ("Thing", 2, 1000)]


async def test_what_fails_changes_nothing(shelf: Shelf) -> None:
    await shelf.register(schema=of(a={"type": "integer"}))
    entity = await shelf.create("a", {"a": 1}, tags=["t"], anchors=[CodeReference(commit=COMMIT)])
    nowhere = [CodeReference(file="/nowhere/a.py")]
    for operation in (
        shelf.update(entity, {"a": "x"}, tags=[], anchors=[]),
        shelf.update(entity, {"a": 2}, tags=[], anchors=nowhere),
        shelf.create("b", {"a": 1}, anchors=nowhere),
        shelf.create("b", {"a": "x"}),
        shelf.change(of(a={"type": "string"})),
        shelf.change(of(a={"type": "string"}), allow_breaking=True, validate_existing=True),
        shelf.change(of(a={"$ref": "#/nowhere"}), allow_breaking=True),
    ):
        with pytest.raises(InvalidInput):
            await operation
    page = await shelf.query(include_deleted=True)
    assert page.items == [entity]
    assert await shelf.rows("SELECT version FROM entity_type") == [(1,)]
    assert await shelf.rows("SELECT version FROM entity_type_version") == [(1,)]


async def test_a_name_is_free_again_after_a_deletion(shelf: Shelf) -> None:
    await shelf.register()
    for n in range(3):
        entity = await shelf.create("same", {"n": n})
        with pytest.raises(Conflict):
            await shelf.create("same")
        await shelf.delete(entity.id)
    last = await shelf.create("same", {"n": 3})
    await shelf.create("Same")
    assert (await shelf.query(filter={"n": 3})).items == [last]
    everything = await shelf.query(include_deleted=True)
    assert [e.name for e in everything.items] == ["Same", "same", "same", "same", "same"]


async def test_names_are_unique_in_their_type_only(
    shelf: Shelf, database: Database, project: Project
) -> None:
    await shelf.register()
    await shelf.register("Other")
    entity = await shelf.create("same")
    async with database.transaction(project) as tx:
        other = await create_entity(tx, "Other", "same", {})
    assert (await shelf.query()).items == [entity]
    assert (await shelf.query(type="OTHER")).items == [other]


async def test_unknown_ids_are_not_found(shelf: Shelf) -> None:
    await shelf.register()
    entity = await shelf.create("a")
    deleted = await shelf.delete(entity.id)
    for unknown in (deleted, await shelf.delete(entity.id)):
        with pytest.raises(NotFound, match=r"^Entity not found$"):
            await shelf.update(unknown, {})
    with pytest.raises(NotFound, match=r"^Entity not found$") as caught:
        await shelf.delete(missing := uuid4())
    assert caught.value.details == {"entity_id": str(missing)}


@pytest.mark.parametrize(
    "data",
    [
        {"n": 2**64 + 1, "m": -(10**40)},
        {"x": 0.1, "y": 1e-7, "z": 1e22, "w": 1.0},
        {"ä \u2028 🎉": ["'", '"', "\\", "%s", "", None, True, {"": {}}]},
        {"deep": [[[[[[{"a": [1]}]]]]]]},
    ],
)
async def test_data_comes_back_as_it_was(shelf: Shelf, data: dict[str, Any]) -> None:
    await shelf.register()
    entity = await shelf.create("a", data)
    assert entity.data == data
    assert (await shelf.query(filter=data)).items == [entity]


async def test_types_of_the_same_id_in_two_projects_keep_their_schemas_apart(
    shelf: Shelf, database: Database, project: Project
) -> None:
    kind = await shelf.register(schema=of(a={"type": "integer"}))
    await shelf.create("a", {"a": 1})
    # As if another project had imported the type, and then gone its own way.
    await shelf.rows('UPDATE entity_type_version SET schema = \'{"type": "object"}\' RETURNING 1')
    assert (await shelf.create("b", {"a": "x"})).schema_version == kind.version


def test_data_from_elsewhere_is_held_against_its_schema_and_the_limits() -> None:
    assert schema_problems(of(a={"type": "integer"}), {"a": 1}) == []
    assert schema_problems(of(a={"type": "integer"}), {"a": "x"}) == [
        '/a must be of type integer, got "x"'
    ]
    [problem] = schema_problems({"type": "array"}, {})
    assert problem == 'Schema must describe an object: add "type": "object" at its root'
    [problem] = schema_problems(ANY, {"a": "x" * 262_144})
    assert problem == "Entity data must be at most 262,144 bytes as JSON, got 262,152"
