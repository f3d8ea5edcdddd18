"""Input that is made to harm: each is refused or answered, and the server is well afterwards.

What would keep the server busy without end fails by the time limit of a hanging test. More of the
kind: slow clients in ``test_slow_clients.py``, many of them in ``test_overload.py`` and
``test_rate_limits.py``, schemas in ``unit/records/test_hostile_schemas.py``, lines on stdio in
``test_unreadable_lines.py``, random bytes in ``tests/fuzz``.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from inspect import signature
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from tests.web.conftest import running, serving
from tests.web.test_slow_clients import wire

from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.calling import MAX_BODY_BYTES
from codebase_mcp.web.http import make_asgi_app

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
JSON = {"Content-Type": "application/json"}
MCP = {**JSON, "Accept": "application/json, text/event-stream"}
# Long, of one letter, and deep: every star has many places to try.
PATHS = [f"{'a/' * 40}{'a' * 60}.py", "src/auth.py"]


@pytest.fixture
async def attacked(
    settings: Settings, make_repo: MakeRepo, project_id: str
) -> AsyncIterator[httpx2.AsyncClient]:
    """A server with an index, which answers as before when the attack is over."""
    text = "def authenticate(user):\n    return user.is_known\n"
    root = make_repo(dict.fromkeys(PATHS, text))
    async with running(make_asgi_app(settings)) as http:
        index = {"repo_path": str(root), "project_id": project_id}
        assert (await http.post("/tools/index_repository", json=index)).status_code == 200
        question = {"query": "authenticate", "project_id": project_id}
        before = (await http.post("/tools/search_code", json=question)).json()["results"]
        assert before
        yield http
        assert (await http.post("/tools/search_code", json=question)).json()["results"] == before


BOMBS = [
    "**/" * 166,
    "**/" * 20 + "z",
    "**/a/" * 99 + "z",
    "*a" * 249 + "z",
    "**a" * 160 + "z",
    "a*/**/" * 80 + "z",
    "*" * 500,
    "?" * 500,
    "{a,b}" * 100,
    "[" + "a-z" * 160 + "]*z",
    "(a+)+" * 100,
    "\\" * 500,
    "../" * 166,
    "a/" * 250,
]
EMOJI = "\N{PARTY POPPER}"
QUERIES = [
    EMOJI * 500,
    "\N{WOMAN}\N{ZERO WIDTH JOINER}" * 250,
    "a\N{COMBINING ACUTE ACCENT}" * 250,
    "\N{RIGHT-TO-LEFT OVERRIDE}" * 500,
    "a." * 250,
    "aA" * 250,
    "A" * 499 + "s",
    "please " * 71,
    "? " * 250,
    "'\"`([{<" * 71,
    "authentikate " * 38,
    " ".join(f"a{n}b" for n in range(100)),
]


async def test_patterns_that_make_others_try_for_ever(
    attacked: httpx2.AsyncClient, project_id: str
) -> None:
    question = {"query": "authenticate", "project_id": project_id}
    for _ in range(2):  # by the database, then in memory
        for bomb in BOMBS:
            answer = await attacked.post("/tools/search_code", json=question | {"directory": bomb})
            assert answer.status_code == 200, bomb
    for ref in ("HEAD^{/(a+)+$}", ":/(a+)+$", "HEAD" + "~1" * 400, "..." * 300, "*" * 900):
        answer = await attacked.post("/tools/search_code", json=question | {"ref": ref})
        assert answer.status_code == 400, ref


async def test_queries_of_strange_characters(attacked: httpx2.AsyncClient, project_id: str) -> None:
    for query in QUERIES:
        question = {"query": query[:500], "project_id": project_id}
        answer = await attacked.post("/tools/search_code", json=question)
        assert answer.status_code == 200, query
    too_long = await attacked.post("/tools/search_code", json={"query": EMOJI * 501})
    assert too_long.status_code == 400
    many = {"query": "x", "project_id": project_id, "filter": {"languages": ["a"] * 100_000}}
    assert (await attacked.post("/tools/search_code", json=many)).status_code == 400


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


BODIES = [
    deep(100_000),
    '{"a":' * 100_000,
    '{"query":' + deep(900) + "}",
    '{"query":"x","filter":' + '{"languages":' * 900 + "1" + "}" * 901,
    '{"query":"x","limit":' + "9" * 5_000 + "}",
    '{"query":"x","limit":1e999}',
    '{"query":"x","limit":-0.0000000000000000000000001}',
    '{"query":"' + "x" * 1_000_000 + '"}',
    "{" + ",".join(f'"k{n}":{n}' for n in range(50_000)) + "}",
    '{"' + "k" * 1_000_000 + '":1}',
    '{"query":"\\ud800"}',
    '{"query":"x","query":["y"]}',
    "\0" * 1000,
]


async def test_json_that_is_huge_deep_or_strange(attacked: httpx2.AsyncClient) -> None:
    for body in BODIES:
        answer = await attacked.post("/tools/search_code", content=body, headers=JSON)
        assert (answer.status_code, len(answer.content) < 5_000) == (400, True), body[:40]
        assert answer.json()["error"]["code"] == "VALIDATION_ERROR"
    for nesting in (60, 900):
        schema = {
            "type_name": "deep",
            "schema": json.loads('{"a":' * nesting + "1" + "}" * nesting),
        }
        made = await attacked.post("/tools/register_entity_type", json=schema)
        assert made.status_code == 400, made.text
    for body in (*BODIES[:4], "[" + ",".join(['{"jsonrpc":"2.0"}'] * 10_000) + "]"):
        answer = await attacked.post("/mcp", content=body, headers=MCP)
        assert 400 <= answer.status_code < 500, body[:40]
        assert len(answer.content) < 5_000


async def test_bodies_that_are_too_large_or_compressed(attacked: httpx2.AsyncClient) -> None:
    large = b'{"query":"' + b"x" * MAX_BODY_BYTES + b'"}'
    for path, headers in (("/tools/search_code", JSON), ("/mcp", MCP)):
        answer = await attacked.post(path, content=large, headers=headers)
        assert answer.status_code == 413
        # Nothing is inflated: the bytes count as they come.
        bomb = gzip.compress(large)
        inflated = headers | {"Content-Encoding": "gzip"}
        answer = await attacked.post(path, content=bomb, headers=inflated)
        assert 400 <= answer.status_code < 500
        assert answer.status_code != 413


def test_sessions_that_are_opened_and_left_are_bounded() -> None:
    options = signature(StreamableHTTPSessionManager).parameters
    assert 0 < options["max_sessions"].default <= 10_000
    assert 0 < options["session_idle_timeout"].default <= 30 * 60


FLOODS = [
    b"X: " + b"y" * 200_000,
    b"\r\n".join(b"X-%d: y" % number for number in range(20_000)),
    b"X" * 200_000,
]


async def test_floods_of_headers_and_a_body_announced_as_endless(settings: Settings) -> None:
    head = b"POST /tools/search_code HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    endless = b"Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{"
    async with serving(settings) as server:
        for flood in FLOODS:
            async with wire(server.address) as client:
                client.writer.write(head + flood)
                assert (await client.until_closed())[:12] in (b"HTTP/1.1 400", b"")
        async with wire(server.address, head + endless) as client:
            assert await client.status() == 413
        async with wire(server.address, b"\x16\x03\x01\x02\0" + b"\0" * 500) as client:
            assert (await client.until_closed()).startswith(b"HTTP/1.1 400")
        async with httpx2.AsyncClient(base_url=server.address) as http:
            alive = await asyncio.gather(*(http.get("/health/live") for _ in range(5)))
            assert {answer.status_code for answer in alive} == {200}


async def test_entity_schemas_that_explode(attacked: httpx2.AsyncClient, project_id: str) -> None:
    twice: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(30)
    }
    in_itself = {"$ref": "#"}
    schemas: list[dict[str, Any]] = [
        {"allOf": [{"$ref": "#/definitions/d0"}], "definitions": twice | {"d30": {}}},
        {"properties": {"a": {"type": "string", "pattern": "[a-z]{4000}" * 20}}},
        {"properties": {"a": {"type": "string", "pattern": "(" * 900}}},
        {"properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}},
    ]
    for number, schema in enumerate(schemas):
        kind = {"type_name": f"bomb{number}", "schema": {"type": "object"} | schema}
        made = await attacked.post(
            "/tools/register_entity_type", json=kind | {"project_id": project_id}
        )
        assert made.status_code == 400, made.text
    slow = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}, "b": in_itself}}
    kind = {"type_name": "slow", "schema": {"type": "object"} | slow, "project_id": project_id}
    assert (await attacked.post("/tools/register_entity_type", json=kind)).status_code == 200
    entity = {
        "entity_type": "slow", "name": "x", "data": {"a": "a" * 5_000 + "!"},
        "project_id": project_id,
    }  # fmt: skip
    made = await attacked.post("/tools/create_entity", json=entity)
    assert made.status_code == 400, made.text
