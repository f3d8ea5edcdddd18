"""``POST /tools/{name}``: what comes back, and under which status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest
from tests.waiting import until
from tests.web.conftest import Hold, running, serving

from codebase_mcp.errors import (
    Conflict,
    DatabaseUnavailable,
    EmbeddingUnavailable,
    IndexingFailed,
    InternalError,
    InvalidInput,
    NotFound,
    PermissionDenied,
    ProjectNotFound,
    ShuttingDown,
)
from codebase_mcp.settings.loading import TOOLSETS, Settings
from codebase_mcp.tools.catalog import tools_of
from codebase_mcp.web.answers import error_answer
from codebase_mcp.web.calling import MAX_BODY_BYTES
from codebase_mcp.web.http import make_asgi_app

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
JSON = {"Content-Type": "application/json"}


async def test_a_tool_replies_as_it_does_over_mcp(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    indexed = await http.post(
        "/tools/index_repository", json={"repo_path": str(make_repo()), "project_id": project_id}
    )
    assert (indexed.status_code, indexed.json()["status"]) == (200, "success")
    question = {"query": "user login", "project_id": project_id, "limit": 3}
    found = await http.post("/tools/search_code", json=question)
    assert found.headers["content-type"] == "application/json"
    assert found.json()["results"][0]["file_path"] == "src/auth.py"


async def test_older_names_are_understood_and_numbers_as_text_are_not(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    root = str(make_repo())
    indexed = await http.post(
        "/tools/index_repository", json={"repository_path": root, "collection": project_id}
    )
    assert indexed.status_code == 200
    question = {"query": "user login", "collection": project_id, "limit": 1}
    found = await http.post("/tools/search_code", json=question)
    assert found.json()["results"][0]["file"] == "src/auth.py"
    for field, value in (("limit", "1"), ("limit", 1.5), ("explain", "true"), ("explain", 1)):
        refused = await http.post("/tools/search_code", json={**question, field: value})
        error = refused.json()["error"]
        assert (refused.status_code, error["details"]["field"]) == (400, field)


async def test_an_error_has_the_contracts_shape(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/tools/search_code", json={"query": "x", "limit": 100})
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {
            "code": "VALIDATION_ERROR",
            "type": "InvalidInput",
            "message": "Limit must be between 1 and 50, got 100",
            "details": {
                "field": "limit", "value": 100, "constraint": "1..50", "jsonrpc_code": -32602,
            },
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code", "old_number"),
    [
        ("search_code", {"query": "x", "project_id": "gone"}, 404, "PROJECT_NOT_FOUND", -32000),
        ("get_task", {"task_id": str(UUID(int=4))}, 404, "NOT_FOUND", -32000),
        ("get_task", {"task_id": "no uuid"}, 400, "VALIDATION_ERROR", -32602),
        ("index_repository", {"repo_path": "/nowhere"}, 400, "VALIDATION_ERROR", -32602),
        ("switch_project", {"project_id": "default"}, 403, "PERMISSION_DENIED", -32603),
        ("no_such_tool", {}, 404, "NOT_FOUND", -32601),
    ],
)
async def test_errors_of_tools_come_under_their_status_and_have_the_old_number(
    http: httpx2.AsyncClient,
    tool: str,
    arguments: dict[str, Any],
    status: int,
    code: str,
    old_number: int,
) -> None:
    answer = await http.post(f"/tools/{tool}", json=arguments)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert error["details"]["jsonrpc_code"] == old_number


async def test_a_project_never_indexed_is_answered_with_the_call_that_comes_first(
    http: httpx2.AsyncClient, project_id: str
) -> None:
    made = {"name": "x", "project_id": project_id}
    assert (await http.post("/tools/create_project", json=made)).status_code == 200
    for name in (project_id, "never-made"):
        answer = await http.post("/tools/search_code", json={"query": "x", "project_id": name})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (404, "PROJECT_NOT_FOUND")
        assert error["message"] == "Project has not been indexed or does not exist"
        assert "index_repository" in error["hint"]


async def test_the_query_names_the_project_and_nothing_else(
    http: httpx2.AsyncClient, project_id: str
) -> None:
    await http.post("/tools/create_project", json={"name": "x", "project_id": project_id})
    for body in ({}, {"project_id": project_id}):
        answer = await http.post(f"/tools/list_tasks?project_id={project_id}", json=body)
        assert answer.json()["project_id"] == project_id
    other = {"project_id": "another"}
    for query, arguments, field in (
        ("limit=5", {}, "limit"),
        (f"project_id={project_id}&made_up=", {}, "made_up"),
        (f"project_id={project_id}", other, "project_id"),
        (f"project_id={project_id}&project_id=another", {}, "project_id"),
        (f"project_id={project_id}", {"collection": "another"}, "project_id"),
        ("project_id=", {}, "project_id"),
    ):
        refused = await http.post(f"/tools/list_tasks?{query}", json=arguments)
        error = refused.json()["error"]
        assert (refused.status_code, error["details"]["field"]) == (400, field), query


async def test_a_name_that_is_taken_is_a_conflict(
    http: httpx2.AsyncClient, project_id: str
) -> None:
    arguments = {"name": "A project", "project_id": project_id}
    assert (await http.post("/tools/create_project", json=arguments)).status_code == 200
    again = await http.post("/tools/create_project", json=arguments)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInput, 400),
        (PermissionDenied, 403),
        (ProjectNotFound, 404),
        (NotFound, 404),
        (Conflict, 409),
        (IndexingFailed, 500),
        (InternalError, 500),
        (DatabaseUnavailable, 503),
        (EmbeddingUnavailable, 503),
        (ShuttingDown, 503),
    ],
)
def test_every_error_has_a_status_and_retryable_ones_have_retry_after(
    error: type[InvalidInput], status: int
) -> None:
    answer = error_answer(error("What is wrong"))
    assert answer.status_code == status
    assert ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The body is not JSON"),
        (b"{", "The body is not JSON"),
        (b"\xff\xfe", "The body is not JSON"),
        (b"[" * 100_000, "The body is not JSON"),
        (b'{"limit": NaN}', "NaN is not a valid JSON number"),
        (b'{"limit": 1e999}', "1e999 is not a valid JSON number"),
        (b'{"limit": ' + b"9" * 5000 + b"}", "The body is not JSON"),
        (b"[]", "The body must be a JSON object, got list"),
        (b"null", "The body must be a JSON object, got NoneType"),
    ],
)
async def test_a_body_that_is_not_a_json_object_is_refused(
    http: httpx2.AsyncClient, body: bytes, message: str
) -> None:
    answer = await http.post("/tools/search_code", content=body, headers=JSON)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


async def test_a_large_invalid_body_gets_a_short_reply(
    http: httpx2.AsyncClient,
) -> None:
    body = {f"unknown_{number}": number for number in range(40_000)}
    assert len(json.dumps(body)) > 800_000
    answer = await http.post("/tools/search_code", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "VALIDATION_ERROR")
    assert len(answer.content) < 4_096
    for path in ("/tools/", "/nowhere/"):
        method = http.post if path == "/tools/" else http.get
        assert len((await method(path + "x" * 50_000)).content) < 4_096


async def test_invalid_unicode_is_quoted_safely_in_errors(http: httpx2.AsyncClient) -> None:
    body = rb'{"query": "x", "file_type": "\ud800", "\udfff": 1}'
    answer = await http.post("/tools/search_code", content=body, headers=JSON)
    assert answer.status_code == 400
    assert r"\udfff" in answer.text


async def test_no_text_parameter_of_any_tool_takes_half_a_surrogate_pair(
    http: httpx2.AsyncClient,
) -> None:
    for spec in tools_of(TOOLSETS):
        for name, schema in spec.input_schema()["properties"].items():
            if "string" in json.dumps(schema.get("type") or schema.get("anyOf")):
                body = json.dumps({name: "\ud800"})
                answer = await http.post(f"/tools/{spec.name}", content=body, headers=JSON)
                assert answer.status_code in (400, 403, 404), (spec.name, name, answer.text)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_requests_that_a_web_page_can_send_without_preflight_are_refused(
    http: httpx2.AsyncClient, content_type: str
) -> None:
    answer = await http.post(
        "/tools/search_code", content=b'{"query": "x"}', headers={"Content-Type": content_type}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "VALIDATION_ERROR")


async def test_a_body_that_is_too_large_is_refused(http: httpx2.AsyncClient) -> None:
    body = b'{"query": "' + b"x" * MAX_BODY_BYTES + b'"}'
    answer = await http.post("/tools/search_code", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "VALIDATION_ERROR")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_tools_are_called_with_post_alone(http: httpx2.AsyncClient, method: str) -> None:
    answer = await http.request(method, "/tools/search_code")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"


async def test_tools_of_toolsets_that_are_not_shown_are_not_called(settings: Settings) -> None:
    async with running(make_asgi_app(replace(settings, toolsets=("code",)))) as http:
        answer = await http.post("/tools/list_tasks", json={})
    assert answer.status_code == 404
    assert "--toolsets code,tasks." in answer.json()["error"]["hint"]


async def test_unknown_paths_answer_in_the_same_shape(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/tool/search_code")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_disconnecting_cancels_the_call(
    settings: Settings, make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    root = make_repo()
    arguments = {"repo_path": str(root), "project_id": project_id}
    async with (
        held(root, project_id),
        serving(settings) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=None) as http,
    ):
        call = asyncio.create_task(http.post("/tools/index_repository", json=arguments))
        await until(lambda: len(server.holder.calls))
        call.cancel()
        await until(lambda: len(server.holder.calls) == 0)
        answer = await http.get("/health/live")
    assert answer.status_code == 200
