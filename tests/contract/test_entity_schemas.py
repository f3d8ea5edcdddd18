"""Whatever schema a client sends: nothing is fetched for it, and nothing takes long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App

pytestmark = pytest.mark.anyio


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
    schema = {"type": "object"}
    await call.ok("register_entity_type", type_name="Service", schema=schema, project_id=in_project)
    return in_project


@pytest.fixture
async def connections(anyio_backend: str) -> AsyncIterator[tuple[int, list[Any]]]:
    """A port of this machine, and what has connected to it."""
    seen: list[Any] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername"))
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


async def test_nothing_that_a_schema_refers_to_is_fetched(
    call: Any, services: str, connections: tuple[int, list[Any]]
) -> None:
    port, seen = connections
    address = f"http://127.0.0.1:{port}/a.json"
    referring = {"type": "object", "properties": {"a": {"$ref": address}}}
    for schema in (
        referring,
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **referring},
        {"$id": f"http://127.0.0.1:{port}/b/", "properties": {"a": {"$ref": "c.json"}}},
        {"$schema": address, "type": "object"},
    ):
        error = await call.error(
            "register_entity_type", type_name="T", schema=schema, project_id=services
        )
        assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", "schema")
        error = await call.error(
            "update_entity_type_schema", type_name="Service", new_schema=schema,
            allow_breaking=True, project_id=services,
        )  # fmt: skip
        assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", "new_schema")
    quoting = {"type": "object", "properties": {"a": {"const": {"$ref": address}}}, "$id": address}
    await call.ok("register_entity_type", type_name="T", schema=quoting, project_id=services)
    await call.ok(
        "create_entity", entity_type="T", name="n", data={"a": {"$ref": address}},
        project_id=services,
    )  # fmt: skip
    assert seen == []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    assert len(seen) == 1  # it would have been noticed
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"$ref": "#"}, None),
        ({"type": "object", "allOf": [{"$ref": "#"}]}, None),
        (
            {
                "type": "object",
                "allOf": [{"$ref": "#/definitions/d0"}],
                "definitions": {
                    f"d{n}": {"anyOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(60)
                }
                | {"d60": False},
            },
            None,
        ),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)(a+)+$"}}}, None),
        ({"type": "object", "properties": {"a": {"pattern": "(a{999}){999}"}}}, None),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#"}},
                "patternProperties": {"a": {"$ref": "#"}},
            },
            '{"a": ' * 63 + "{}" + "}" * 63,
        ),
        (
            {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}},
            {"a": "a" * 250_000 + "!"},
        ),
    ],
)
async def test_a_hostile_schema_ends_in_an_error_and_changes_nothing(
    call: Any, services: str, schema: dict[str, Any], data: Any
) -> None:
    new = {"type_name": "T", "schema": schema, "project_id": services}
    if data is None:
        error = await call.error("register_entity_type", **new)
        assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", "schema")
        error = await call.error("query_entities", entity_type="T", project_id=services)
        assert error["message"] == "Entity type not found"
    else:
        await call.ok("register_entity_type", **new)
        error = await call.error(
            "create_entity", entity_type="T", name="n", data=data, project_id=services
        )
        assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", "data")
        reply = await call.ok("query_entities", entity_type="T", project_id=services)
        assert reply["total"] == 0
