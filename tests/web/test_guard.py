"""Pages and names that are not the server's own get nothing from it, whatever they ask for."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest
from tests.web.conftest import running

from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.door import require_known_names
from codebase_mcp.web.http import make_asgi_app

pytestmark = pytest.mark.anyio

PATHS = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
    ("POST", "/tools/search_code"),
    ("GET", "/openapi.json"),
    ("GET", "/health"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
)
async def test_a_host_or_origin_that_is_not_allowed_is_refused_on_every_path(
    settings: Settings, headers: dict[str, str], status: int
) -> None:
    async with running(make_asgi_app(replace(settings, sse=True))) as http:
        answers = {
            f"{method} {path}": (await http.request(method, path, headers=headers)).status_code
            for method, path in PATHS
        }
    assert answers == dict.fromkeys(answers, status)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost:3000"},
        {"Host": "[::1]:3000"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "http://localhost:6274"},
    ],
)
async def test_local_host_names_and_origins_are_allowed(
    http: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    assert (await http.get("/health/live", headers=headers)).status_code == 200


async def test_names_and_origins_can_be_allowed(settings: Settings) -> None:
    allowed = replace(
        settings, allowed_hosts=("code.example.com",), allowed_origins=("https://app.example.com",)
    )
    async with running(make_asgi_app(allowed)) as http:
        ours = {"Host": "code.example.com", "Origin": "https://app.example.com"}
        assert (await http.get("/health/live", headers=ours)).status_code == 200
        theirs = {"Host": "code.example.com.evil.example"}
        assert (await http.get("/health/live", headers=theirs)).status_code == 421
        theirs = {"Host": "code.example.com", "Origin": "https://other.example.com"}
        assert (await http.get("/health/live", headers=theirs)).status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "code.example.com"])
def test_a_server_that_others_reach_must_know_its_names(settings: Settings, host: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        require_known_names(replace(settings, host=host))
    assert caught.value.details["field"] == "CODEBASE_MCP_ALLOWED_HOSTS"
    require_known_names(replace(settings, host=host, allowed_hosts=("code.example.com",)))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_a_server_for_this_machine_alone_needs_no_names(settings: Settings, host: str) -> None:
    require_known_names(replace(settings, host=host))
