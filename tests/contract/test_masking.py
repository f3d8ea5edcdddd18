"""What callers write is stored without the secrets in it, and they are told."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.integration.test_purge import rows_with

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App

pytestmark = pytest.mark.anyio

PASSWORD = "Tr0ub4dor" + "&3"
STARS = "*" * len(PASSWORD)
NOTE = f"The staging password is password='{PASSWORD}' for now."
SCHEMA = {"type": "object", "properties": {"password": {"type": "string"}}}


@pytest.fixture
def toolsets() -> list[str]:
    return ["memory", "tasks", "entities", "work_items", "agents"]


@pytest.fixture
async def project(app: App, project_id: str) -> str:
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    return project_id


async def test_secrets_in_records_are_masked_and_named_by_kind(
    call: Any, app: App, project: str
) -> None:
    here = {"project_id": project}
    replies = [
        await call.ok(
            "memory", operation="store", content=NOTE, observation_type="Insight", **here
        ),
        await call.ok("create_task", title="Rotate it", notes=NOTE, **here),
        await call.ok("register_entity_type", type_name="service", schema=SCHEMA, **here),
        await call.ok(
            "create_entity",
            entity_type="service",
            name="staging",
            data={"password": PASSWORD},
            **here,
        ),
        await call.ok("create_work_item", item_type="project", title=NOTE, **here),
    ]
    assert [reply.get("secrets_masked") for reply in replies] == [
        ["password"],
        ["password"],
        None,
        ["password"],
        ["password"],
    ]
    assert replies[0]["observations"][0]["content"] == NOTE.replace(PASSWORD, STARS)
    assert replies[3]["data"] == {"password": STARS}
    assert await rows_with(app, project, PASSWORD) == {}


async def test_ids_are_left_as_they_are(call: Any, project: str) -> None:
    error = await call.error("get_task", task_id=str(uuid.uuid4()), project_id=project)
    assert error["code"] == "NOT_FOUND"
