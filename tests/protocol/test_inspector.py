"""The official Inspector on the product: its list lints clean, and calls do what they should."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.protocol import node
from tests.protocol.conftest import PRODUCT, Listening

from codebase_mcp.tools.catalog import all_tools

SNAPSHOT = Path(__file__).parents[1] / "contract/schemas.json"
TOOL_ERROR = 5  # the Inspector's exit status for a result with isError

# Transport and revision; SSE belongs to the older one.
SERVED = [("stdio", "legacy"), ("stdio", "modern"), ("http", "legacy"), ("http", "modern")]
SERVED += [("sse", "legacy")]


@dataclass(frozen=True, slots=True)
class Inspector:
    """The Inspector's command line, set to one server."""

    server: tuple[str, ...]
    home: Path

    def run(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Exit status, what was printed as JSON, and what was said beside it."""
        environment = {"HOME": str(self.home), "MCP_INSPECTOR_SECRET_STORE": "memory"}
        options = ("--cli", *self.server, "--format", "json", *arguments)
        done = node.run(node.INSPECTOR, *options, environment=environment)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    def call(self, tool: str, **arguments: Any) -> tuple[int, dict[str, Any]]:
        """Exit status and result of a tool call; the text has to say the same as the structure."""
        options = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        status, printed, _ = self.run("--method", "tools/call", *options)
        result: dict[str, Any] = printed["result"]
        assert [json.loads(part["text"]) for part in result["content"]] == [
            result["structuredContent"]
        ]
        return status, result


@pytest.fixture(params=SERVED, ids="-".join)
def inspector(
    request: pytest.FixtureRequest, programs: None, environment: dict[str, str], tmp_path: Path
) -> Inspector:
    """An Inspector for each transport and each revision of the protocol."""
    transport, era = request.param
    server: dict[str, Any] = {"command": PRODUCT[0], "args": PRODUCT[1:], "env": environment}
    if transport != "stdio":
        path, kind = {"http": ("mcp", "streamable-http"), "sse": ("sse", "sse")}[transport]
        product: Listening = request.getfixturevalue("product")
        product.require_alive()
        server = {"type": kind, "url": f"{product.address}/{path}"}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"codebase": server}}), encoding="utf-8")
    options = ("--config", str(config), "--server", "codebase", "--protocol-era", era)
    return Inspector(options, tmp_path)


def test_the_tools_lint_clean_and_are_those_of_the_snapshot(inspector: Inspector) -> None:
    status, printed, findings = inspector.run("--method", "tools/list", "--strict", "--quiet")
    assert (status, findings) == (0, "")
    listed = {
        tool["name"]: {"listed": tool["inputSchema"], "output": tool["outputSchema"]}
        for tool in printed["result"]["tools"]
    }
    snapshot = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert listed == {  # as programs see them: with every limit
        tool.name: {"listed": tool.listed_schema(), "output": snapshot[tool.name]["output"]}
        for tool in all_tools()
    }


def test_an_index_run_and_a_search_give_what_they_should(
    inspector: Inspector, make_repo: Callable[..., Path]
) -> None:
    project = f"test-{uuid.uuid4().hex[:12]}"
    repo_path = str(make_repo())
    status, result = inspector.call("index_repository", repo_path=repo_path, project_id=project)
    assert (status, result["structuredContent"]["status"]) == (0, "success")
    status, result = inspector.call("search_code", query="user login", project_id=project)
    assert status == 0
    assert result["structuredContent"]["results"][0]["file_path"] == "src/auth.py"


@pytest.mark.parametrize("inspector", [("http", "modern")], ids="-".join, indirect=True)
def test_a_task_is_created_and_listed(inspector: Inspector) -> None:
    project = f"test-{uuid.uuid4().hex[:12]}"
    inspector.call("create_project", name=project, project_id=project)
    status, created = inspector.call("create_task", title="Prove it", project_id=project)
    assert (status, created["structuredContent"]["status"]) == (0, "need to be done")
    status, listed = inspector.call("list_tasks", project_id=project)
    assert status == 0
    assert [task["title"] for task in listed["structuredContent"]["tasks"]] == ["Prove it"]


def test_an_error_is_a_result_that_names_field_and_rule(inspector: Inspector) -> None:
    status, result = inspector.call("search_code", query="x", limit=100)
    assert (status, result["isError"]) == (TOOL_ERROR, True)
    error = result["structuredContent"]["error"]
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"]["field"] == "limit"


def test_many_calls_at_once_all_succeed(inspector: Inspector) -> None:
    load = ("--load", "--load-requests", "60", "--load-concurrency", "20")
    options = ("--tool-name", "get_active_project", "--tool-args-json", "{}")
    status, printed, _ = inspector.run("--method", "tools/call", *options, *load)
    assert status == 0, printed
    assert (printed["result"]["requests"], printed["result"]["errors"]) == (60, 0)
