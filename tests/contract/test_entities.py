"""The six tools of the toolset ``entities`` as the contract describes them."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any

import pytest

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App

pytestmark = pytest.mark.anyio

COMMIT = "a1b2c3d4e5f6789012345678901234567890abcd"
ENTITY = {
    "id", "entity_type", "name", "data", "tags", "version", "schema_version", "created_at",
    "updated_at", "deleted_at", "anchors",
}  # fmt: skip
SERVICE = {
    "type": "object",
    "properties": {
        "owner": {"type": "string"},
        "port": {"type": "integer", "minimum": 1},
        "tier": {"enum": ["gold", "silver"]},
    },
    "required": ["owner"],
    "additionalProperties": False,
}
UNICODE = "naïve 日本語 🎉 'quoted' \"double\" %s {} \\ \t;--"


@pytest.fixture
def toolsets() -> list[str]:
    return ["entities"]


@pytest.fixture
async def in_project(app: App, project_id: str) -> str:
    """The id of a project that is there."""
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    return project_id


@pytest.fixture
async def services(call: Any, in_project: str) -> str:
    """The id of a project with the type Service."""
    await call.ok(
        "register_entity_type", type_name="Service", schema=SERVICE, project_id=in_project
    )
    return in_project


async def test_a_new_type_has_the_documented_fields(call: Any, in_project: str) -> None:
    reply = await call.ok(
        "register_entity_type",
        type_name="  Service ",
        schema=SERVICE,
        description="What runs where",
        project_id=in_project,
    )
    assert reply.keys() == {
        "type_id", "type_name", "schema", "schema_version", "description", "created_at",
        "project_id", "project_source",
    }  # fmt: skip
    uuid.UUID(reply["type_id"])
    assert reply["type_name"] == "Service"
    assert list(reply["schema"]) == list(SERVICE)
    assert reply["schema"] == SERVICE
    assert (reply["schema_version"], reply["description"]) == (1, "What runs where")
    assert datetime.fromisoformat(reply["created_at"]).tzinfo is not None
    assert (reply["project_id"], reply["project_source"]) == (in_project, "explicit")


@pytest.mark.parametrize("other", ["Service", "SERVICE", " service\n"])
async def test_a_type_name_is_unique_regardless_of_case(
    call: Any, services: str, other: str
) -> None:
    error = await call.error(
        "register_entity_type", type_name=other, schema={"type": "object"}, project_id=services
    )
    assert (error["code"], error["type"]) == ("CONFLICT", "InvalidInput")
    assert error["message"] == "Entity type already exists: Service"
    assert "update_entity_type_schema" in error["hint"]
    for name in ("Service", "SERVICE", "sErViCe", " service "):
        reply = await call.ok("query_entities", entity_type=name, project_id=services)
        assert reply["total"] == 0


async def test_a_new_entity_has_the_documented_fields(call: Any, services: str) -> None:
    entity = await call.ok(
        "create_entity",
        entity_type="service",
        name=" mail ",
        data={"owner": "ops", "port": 25},
        tags=["smtp", " core ", "smtp"],
        anchors=[{"commit": COMMIT}],
        project_id=services,
    )
    assert entity.keys() == ENTITY | {"project_id", "project_source"}
    uuid.UUID(entity["id"])
    assert (entity["entity_type"], entity["name"]) == ("Service", "mail")
    assert entity["data"] == {"owner": "ops", "port": 25}
    assert entity["tags"] == ["smtp", "core"]
    assert (entity["version"], entity["schema_version"]) == (1, 1)
    assert entity["created_at"] == entity["updated_at"]
    assert entity["deleted_at"] is None
    assert [anchor["commit"] for anchor in entity["anchors"]] == [COMMIT]
    reply = await call.ok("query_entities", entity_type="Service", project_id=services)
    assert reply.keys() == {"entities", "total", "next_cursor", "project_id", "project_source"}
    [found] = reply["entities"]
    assert found == {name: entity[name] for name in ENTITY}


async def test_type_name_and_data_are_all_that_an_entity_needs(call: Any, in_project: str) -> None:
    await call.ok(
        "register_entity_type", type_name="T", schema='{"type": "object"}', collection=in_project
    )
    entity = await call.ok(
        "create_entity", entity_type="T", name="n", data="{}", tags=None, anchors=None,
        collection=in_project,
    )  # fmt: skip
    assert (entity["data"], entity["tags"], entity["anchors"]) == ({}, [], [])


async def test_a_name_is_unique_until_its_entity_is_deleted(call: Any, services: str) -> None:
    new = {"entity_type": "Service", "data": {"owner": "o"}, "project_id": services}
    entity = await call.ok("create_entity", name="mail", **new)
    error = await call.error("create_entity", name=" mail", **new)
    assert (error["code"], error["message"]) == ("CONFLICT", "Entity already exists: mail")
    assert error["details"]["entity_id"] == entity["id"]
    await call.ok("create_entity", name="Mail", **new)
    await call.ok("delete_entity", entity_id=entity["id"], confirmed=True, project_id=services)
    again = await call.ok("create_entity", name="mail", **new)
    assert again["id"] != entity["id"]


async def test_all_problems_of_the_data_are_reported_at_once(call: Any, services: str) -> None:
    error = await call.error(
        "create_entity",
        entity_type="Service",
        name="mail",
        data={"port": "25", "tier": "tin", "colour": 1},
        project_id=services,
    )
    assert error["code"] == "VALIDATION_ERROR"
    assert error["message"] == (
        "Entity data does not match the schema of Service (version 1): "
        '/port must be of type integer, got "25" (and 3 more)'
    )
    assert error["details"]["field"] == "data"
    assert error["details"]["problems"] == [
        {"path": "/port", "message": 'must be of type integer, got "25"'},
        {"path": "/tier", "message": 'must be one of "gold", "silver", got "tin"'},
        {"path": "/owner", "message": "is required"},
        {"path": "/colour", "message": "is not a field of the schema (fields: owner, port, tier)"},
    ]
    assert error["details"]["schema"] == SERVICE
    assert (await call.ok("query_entities", entity_type="Service", project_id=services))[
        "total"
    ] == 0


async def test_an_update_replaces_the_data_and_keeps_what_is_not_given(
    call: Any, services: str
) -> None:
    entity = await call.ok(
        "create_entity", entity_type="Service", name="mail", data={"owner": "ops", "port": 25},
        tags=["a"], anchors=[{"commit": COMMIT}], project_id=services,
    )  # fmt: skip
    change = {"entity_id": entity["id"], "project_id": services}
    after = await call.ok("update_entity", **change, data={"owner": "dev"}, version=1)
    assert after == {
        **entity, "data": {"owner": "dev"}, "version": 2, "updated_at": after["updated_at"],
    }  # fmt: skip
    assert after["updated_at"] > entity["updated_at"]
    retagged = await call.ok(
        "update_entity", **change, data={"owner": "dev"}, version=2, tags=["b", "b"], anchors=[]
    )
    assert (retagged["tags"], retagged["anchors"]) == (["b"], [])
    cleared = await call.ok(
        "update_entity", **change, data={"owner": "dev"}, version=3, tags=None, anchors=None
    )
    assert (cleared["tags"], cleared["anchors"], cleared["version"]) == ([], [], 4)


@pytest.mark.parametrize("version", [1, 3, 2**31 - 1])
async def test_another_version_is_a_conflict(call: Any, services: str, version: int) -> None:
    entity = await call.ok(
        "create_entity", entity_type="Service", name="m", data={"owner": "a"}, project_id=services
    )
    change = {"entity_id": entity["id"], "project_id": services}
    latest = await call.ok("update_entity", **change, data={"owner": "b"}, version=1)
    # Whether the data fits is of no interest before.
    error = await call.error("update_entity", **change, data={"no": "fit"}, version=version)
    assert (error["code"], error["type"]) == ("CONFLICT", "InvalidInput")
    assert error["message"] == (
        f"The entity was changed meanwhile: version {version} was expected, it is 2"
    )
    assert error["details"]["expected_version"] == version
    assert error["details"]["current_version"] == 2
    assert "query_entities" in error["hint"]
    reply = await call.ok("query_entities", entity_type="Service", project_id=services)
    assert reply["entities"] == [{name: latest[name] for name in ENTITY}]


@pytest.mark.parametrize("given", [{}, {"confirmed": False}])
async def test_nothing_is_deleted_without_a_confirmation(
    call: Any, services: str, given: dict[str, Any]
) -> None:
    entity = await call.ok(
        "create_entity", entity_type="Service", name="m", data={"owner": "a"}, project_id=services
    )
    error = await call.error("delete_entity", entity_id=entity["id"], project_id=services, **given)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["message"] == (
        "Deleting must be confirmed: the Service 'm' (version 1) would be deleted"
    )
    assert error["details"]["field"] == "confirmed"
    reply = await call.ok("query_entities", entity_type="Service", project_id=services)
    assert reply["total"] == 1


async def test_deleting_an_entity_marks_it_and_is_idempotent(call: Any, services: str) -> None:
    entity = await call.ok(
        "create_entity", entity_type="Service", name="m", data={"owner": "a"}, project_id=services
    )
    target = {"entity_id": entity["id"].upper(), "project_id": services}
    deleted = await call.ok("delete_entity", **target, confirmed=True)
    assert (deleted["entity_id"], deleted["deleted"]) == (entity["id"], True)
    assert datetime.fromisoformat(deleted["deleted_at"]).tzinfo is not None
    assert await call.ok("delete_entity", **target, confirmed=True) == deleted
    listing = {"entity_type": "Service", "project_id": services}
    assert (await call.ok("query_entities", **listing))["total"] == 0
    everything = await call.ok("query_entities", **listing, include_deleted=True)
    [found] = everything["entities"]
    assert found["deleted_at"] == found["updated_at"] == deleted["deleted_at"]
    error = await call.error("update_entity", **target, data={"owner": "a"}, version=1)
    assert (error["code"], error["message"]) == ("NOT_FOUND", "Entity not found")


async def test_entities_are_found_by_content_and_tags(call: Any, services: str) -> None:
    for n, (owner, tags) in enumerate([("ops", ["x"]), ("dev", ["x", "y"]), ("ops", ["y"])]):
        await call.ok(
            "create_entity", entity_type="Service", name=f"s{n}", data={"owner": owner}, tags=tags,
            project_id=services,
        )  # fmt: skip
    for wanted, names in (
        ({}, ["s2", "s1", "s0"]),
        ({"filter": None, "tags": None}, ["s2", "s1", "s0"]),
        ({"filter": {}, "tags": []}, ["s2", "s1", "s0"]),
        ({"filter": {"owner": "ops"}}, ["s2", "s0"]),
        ({"filter": '{"owner": "ops"}', "tags": ["x"]}, ["s0"]),
        ({"tags": ["y", "x"]}, ["s1"]),
        ({"tags": ["z"]}, []),
        ({"filter": {"port": 1}}, []),
    ):
        reply = await call.ok(
            "query_entities", entity_type="s" + "ERVICE", project_id=services, **wanted
        )
        assert [entity["name"] for entity in reply["entities"]] == names
        assert (reply["total"], reply["next_cursor"]) == (len(names), None)


async def test_ten_entities_are_shown_and_pages_go_on(call: Any, services: str) -> None:
    for n in range(12):
        await call.ok(
            "create_entity", entity_type="Service", name=f"s{n}", data={"owner": "o"},
            project_id=services,
        )  # fmt: skip
    listing = {"entity_type": "Service", "project_id": services}
    first = await call.ok("query_entities", **listing)
    assert (len(first["entities"]), first["total"]) == (10, 12)
    rest = await call.ok("query_entities", **listing, cursor=first["next_cursor"])
    assert [entity["name"] for entity in rest["entities"]] == ["s1", "s0"]
    assert (rest["total"], rest["next_cursor"]) == (12, None)
    some = await call.ok("query_entities", **listing, limit=2, offset=9, filter={"owner": "o"})
    assert [entity["name"] for entity in some["entities"]] == ["s2", "s1"]
    whole = await call.ok("query_entities", **listing, limit=100)
    assert len(whole["entities"]) == 12


async def test_a_compatible_schema_becomes_the_next_version(call: Any, services: str) -> None:
    await call.ok(
        "create_entity", entity_type="Service", name="m", data={"owner": "a"}, project_id=services
    )
    schema = json.loads(json.dumps(SERVICE))
    schema["properties"]["region"] = {"type": "string"}
    schema["properties"]["tier"]["enum"].append("bronze")
    schema["required"] = []
    change = {"type_name": "SERVICE", "new_schema": schema, "project_id": services}
    reply = await call.ok("update_entity_type_schema", **change)
    assert reply == {
        "type_name": "Service",
        "schema_version": 2,
        "previous_version": 1,
        "changes": [
            {"path": "/properties/tier/enum", "change": 'added "bronze"', "breaking": False},
            {
                "path": "/properties/region",
                "change": 'optional field "region" added',
                "breaking": False,
            },
            {
                "path": "/properties/owner",
                "change": 'field "owner" is no longer required',
                "breaking": False,
            },
        ],
        "project_id": services,
        "project_source": "explicit",
    }
    again = await call.ok("update_entity_type_schema", **change, validate_existing=True)
    assert (again["schema_version"], again["previous_version"]) == (2, 2)
    assert (again["changes"], again["entities_checked"]) == ([], 1)
    reply = await call.ok("query_entities", entity_type="Service", project_id=services)
    assert reply["entities"][0]["schema_version"] == 2


async def test_a_breaking_schema_is_refused_unless_allowed(call: Any, services: str) -> None:
    schema = {"type": "object", "properties": {"owner": {"type": "integer"}}, "required": ["owner"]}
    change = {"type_name": "Service", "new_schema": schema, "project_id": services}
    error = await call.error("update_entity_type_schema", **change)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["message"] == (
        "New schema of Service is not backward compatible: /properties/owner/type: "
        "changed from string to integer (and 2 more)"
    )
    assert error["details"]["field"] == "new_schema"
    assert error["details"]["breaking_changes"] == [
        {"path": "/properties/owner/type", "change": "changed from string to integer"},
        {"path": "/properties/port", "change": 'field "port" removed'},
        {"path": "/properties/tier", "change": 'field "tier" removed'},
    ]
    assert "allow_breaking=true" in error["hint"]
    await call.ok(
        "create_entity", entity_type="Service", name="m", data={"owner": "a"}, project_id=services
    )
    error = await call.error(
        "update_entity_type_schema", **change, allow_breaking=True, validate_existing=True
    )
    assert error["message"] == "1 of 1 entities of type Service do not match the new schema"
    [misfit] = error["details"]["entities"]
    assert misfit["problem"] == '/owner must be of type integer, got "a"'
    assert misfit["name"] == "m"
    reply = await call.ok("update_entity_type_schema", **change, allow_breaking=True)
    assert (reply["schema_version"], "entities_checked" in reply) == (2, False)
    assert sum(one["breaking"] for one in reply["changes"]) == 3
    reply = await call.ok("query_entities", entity_type="Service", project_id=services)
    assert reply["entities"][0]["schema_version"] == 1


CREATE = {"entity_type": "T", "name": "n", "data": {}}
QUERY = {"entity_type": "T"}
UPDATE = {"entity_id": str(uuid.uuid4()), "data": {}, "version": 1}
DELETE = {"entity_id": str(uuid.uuid4()), "confirmed": True}
CHANGE = {"type_name": "T", "new_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("tool", "given"),
    [("create_entity", CREATE), ("query_entities", QUERY), ("update_entity_type_schema", CHANGE)],
)
async def test_an_unknown_type_is_not_found_and_the_known_are_named(
    call: Any, services: str, tool: str, given: dict[str, Any]
) -> None:
    error = await call.error(tool, **given, project_id=services)
    assert (error["code"], error["type"]) == ("NOT_FOUND", "NotFound")
    assert error["message"] == "Entity type not found"
    assert error["hint"] == "Types of this project: Service."


@pytest.mark.parametrize(("tool", "given"), [("update_entity", UPDATE), ("delete_entity", DELETE)])
async def test_an_unknown_entity_is_not_found(
    call: Any, services: str, tool: str, given: dict[str, Any]
) -> None:
    for more in ({}, {"confirmed": False} if tool == "delete_entity" else {}):
        error = await call.error(tool, **{**given, **more}, project_id=services)
        assert (error["code"], error["message"]) == ("NOT_FOUND", "Entity not found")
        assert error["details"]["entity_id"] == given["entity_id"]


async def test_nothing_is_found_from_another_project(call: Any, app: App, services: str) -> None:
    entity = await call.ok(
        "create_entity", entity_type="Service", name="m", data={"owner": "a"}, project_id=services
    )
    other = f"{services}-b"
    await app.resolver.resolve(other, ANONYMOUS, create=True)
    try:
        error = await call.error("query_entities", entity_type="Service", project_id=other)
        assert error["message"] == "Entity type not found"
        assert "Service" not in error["hint"]
        error = await call.error(
            "delete_entity", entity_id=entity["id"], confirmed=True, project_id=other
        )
        assert error["message"] == "Entity not found"
    finally:
        await app.drop_project(other)


@pytest.mark.parametrize(
    "given",
    [
        {"name": "n" * 200, "tags": ["t" * 100] + [str(n) for n in range(19)]},
        {"name": UNICODE, "tags": [UNICODE], "data": {UNICODE: UNICODE}},
        {"data": {"n": 2**70, "x": 0.1, "l": [None, True, {"": []}]}},
        {"data": {"a": "x" * (262_144 - 8)}},
        {"data": json.loads('{"a": ' + "[" * 63 + "]" * 63 + "}")},
    ],
)
async def test_valid_values_are_stored_unchanged(
    call: Any, in_project: str, given: dict[str, Any]
) -> None:
    kind = {"type_name": "t" * 100, "schema": {"type": "object"}, "description": "d" * 2000}
    await call.ok("register_entity_type", **kind, project_id=in_project)
    values = {"name": "n", "data": {}, "tags": [], **given}
    entity = await call.ok("create_entity", entity_type="T" * 100, project_id=in_project, **values)
    assert {name: entity[name] for name in values} == values
    reply = await call.ok("query_entities", entity_type="t" * 100, project_id=in_project)
    assert reply["entities"] == [{name: entity[name] for name in ENTITY}]
