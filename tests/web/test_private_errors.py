"""What an error tells the user of this machine, and a caller over HTTP does not learn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from tests.web.conftest import running, serving

from codebase_mcp.database.placement import POSTGRES_MAJOR
from codebase_mcp.database.supervisor import CLUSTER
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.reply import HIDDEN
from codebase_mcp.tools.server import AppHolder, server_of
from codebase_mcp.web.http import make_asgi_app

pytestmark = pytest.mark.anyio

QUESTION = {"query": "x"}


@pytest.fixture(
    params=[9, POSTGRES_MAJOR], ids=["of another version", "of which files are missing"]
)
def broken(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Settings]:
    """Settings whose data folder holds a cluster that cannot be started."""
    data_dir = Path(mkdtemp())  # not below the folder of the tests, which only its owner may enter
    data_dir.chmod(0o755)
    (data_dir / CLUSTER).mkdir()
    (data_dir / CLUSTER / "PG_VERSION").write_text(f"{request.param}\n")
    yield replace(settings, data_dir=data_dir)
    shutil.rmtree(data_dir)


async def asked_over(transport: Any) -> dict[str, Any]:
    async with Client(transport) as client:
        result = await client.call_tool("search_code", QUESTION, raise_on_error=False)
    assert result.structured_content is not None
    error: dict[str, Any] = result.structured_content["error"]
    return error


async def test_the_data_folder_and_the_database_log_are_shown_only_locally(
    broken: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    here = await asked_over(server_of(AppHolder(broken), broken.toolsets))
    assert str(broken.data_dir) in json.dumps(here)
    async with serving(broken) as server:
        caplog.clear()
        error = await asked_over(StreamableHttpTransport(f"{server.address}/mcp"))
        assert str(broken.data_dir) in caplog.text
    async with running(make_asgi_app(broken)) as http:
        answer = await http.post("/tools/search_code", json=QUESTION)
    assert answer.status_code == 503
    for told in (error, answer.json()["error"]):
        assert told["code"] == "DATABASE_ERROR"
        assert HIDDEN in told["message"] + told.get("hint", "")
        assert str(broken.data_dir) not in json.dumps(told)
        assert "log" not in told.get("details", {})


async def test_hints_do_not_show_the_servers_working_directory(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(make_asgi_app(settings)) as http:
        answer = await http.post("/tools/index_repository", json={"repo_path": "my/shop"})
        named = {"repo_path": f"{Path.cwd()}/no-such-folder"}
        echoed = await http.post("/tools/index_repository", json=named)
    assert answer.status_code == 400
    assert str(Path.cwd()) not in answer.text
    assert "my/shop" not in caplog.text
    assert named["repo_path"] in echoed.json()["error"]["message"]
