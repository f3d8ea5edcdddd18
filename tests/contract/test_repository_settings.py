"""What a repository's ``.mcp-context.toml`` and the operator say about indexing it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.access.context_file import FILE_NAME
from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
CODE = {
    "src/owl.py": "def hoot_at_night():\n    return 'hoo'\n",
    "gen/heron.py": "def wade_in_water():\n    return 'fish'\n",
}


async def index(call: Any, root: Path, project_id: str) -> dict[str, Any]:
    reply: dict[str, Any] = await call.ok(
        "index_repository", repo_path=str(root), project_id=project_id
    )
    return reply


async def paths(call: Any, query: str, project_id: str) -> list[str]:
    found = await call.ok("search_code", query=query, project_id=project_id)
    return [hit["file_path"] for hit in found["results"]]


async def test_patterns_of_the_file_hold_from_the_next_run_on(
    call: Any, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(CODE)
    first = await index(call, root, project_id)
    assert "repository_settings" not in first
    assert await paths(call, "wade in water", project_id) == ["gen/heron.py"]

    context = root / FILE_NAME
    context.write_text('[git]\nignore_patterns = ["gen/"]\ndepht = 3\n')
    assert await paths(call, "wade in water", project_id) == ["gen/heron.py"]
    second = await index(call, root, project_id)
    assert (second["files_removed"], second["files_skipped"]["ignored"]) == (1, 1)
    assert second["repository_settings"] == {
        "file": str(context),
        "ignore_patterns": ["gen/"],
        "warnings": [f"{context}: git.depht is not a setting; did you mean git.depth?"],
    }
    assert await paths(call, "wade in water", project_id) == []
    assert await paths(call, "hoot at night", project_id) == ["src/owl.py"]

    context.unlink()
    third = await index(call, root, project_id)
    assert third["files_indexed"] == 1
    assert await paths(call, "wade in water", project_id) == ["gen/heron.py"]


async def test_a_file_lowers_the_limit_of_size(
    call: Any, make_repo: MakeRepo, project_id: str
) -> None:
    files = {"small.py": "x = 1\n", "large.py": "y = 2\n" * 20}
    root = make_repo(files | {FILE_NAME: "max_file_bytes = 100\n"})
    reply = await index(call, root, project_id)
    assert reply["status"] == "partial"
    assert reply["errors"] == ["Failed to process large.py: File exceeds size limit"]
    assert reply["repository_settings"]["max_file_bytes"] == 100


async def test_submodules_are_left_out_where_the_file_says_so(
    call: Any, make_repo: MakeRepo, project_id: str
) -> None:
    library, root = make_repo(CODE, name="library"), make_repo({"a.py": "x = 1\n"})
    settings = ["-c", "user.name=t", "-c", "user.email=t@e", "-c", "protocol.file.allow=always"]

    def git(directory: Path, *arguments: str) -> None:
        subprocess.run(
            ["git", *settings, *arguments], cwd=directory, check=True, capture_output=True
        )

    for directory in (library, root):
        git(directory, "init")
    git(library, "add", "-A")
    git(library, "commit", "-m", "birds")
    git(root, "submodule", "add", str(library), "birds")
    await index(call, root, project_id)
    assert await paths(call, "hoot at night", project_id) == ["birds/src/owl.py"]
    (root / FILE_NAME).write_text("[git]\ninclude_submodules = false\n")
    without = await index(call, root, project_id)
    assert without["files_skipped"]["submodule"] == 1
    assert await paths(call, "hoot at night", project_id) == []


async def test_an_invalid_file_stops_a_run_before_the_project_is_created(
    call: Any, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(CODE | {FILE_NAME: "max_file_bytes = 0\n[git]\ndepth = 'all'\n"})
    arguments = {"repo_path": str(root), "project_id": project_id}
    error = await call.error("index_repository", **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert [problem["field"] for problem in error["details"]["fields"]] == [
        f"{root / FILE_NAME}: max_file_bytes",
        f"{root / FILE_NAME}: git.depth",
    ]
    error = await call.error("search_code", query="owl", project_id=project_id)
    assert error["code"] == "PROJECT_NOT_FOUND"


async def test_the_operators_patterns_hold_for_every_repository(
    settings: Settings, make_repo: MakeRepo, project_id: str
) -> None:
    keeps = make_repo(CODE | {FILE_NAME: 'ignore_patterns = ["!gen/", "!*.py"]\n'}, name="keeps")
    async with await App.open(replace(settings, ignore_patterns=("/gen",))) as app:
        for root in (make_repo(CODE, name="plain"), keeps):
            report = await app.index(root, project_id)
            assert "src/owl.py" in report.run.added
            assert "gen/heron.py" not in report.run.added


async def test_calls_without_a_project_mean_the_one_the_server_was_started_for(
    settings: Settings, make_repo: MakeRepo, project_id: str, mode: Any
) -> None:
    root = make_repo(CODE | {FILE_NAME: 'project = "somebody-elses"\n'})
    chosen = replace(settings, project=project_id, auto_index="never")
    server = server_of(AppHolder(replace(chosen, project_dir=root)), ["code"])
    async with Client(server, mode=mode) as client:
        missing = await client.call_tool("search_code", {"query": "x"}, raise_on_error=False)
        assert "CODEBASE_MCP_PROJECT" in str(missing.structured_content)
        for tool, arguments in (
            ("index_repository", {"repo_path": str(root)}),
            ("search_code", {"query": "hoot at night"}),
        ):
            reply = (await client.call_tool(tool, arguments)).structured_content
            assert reply is not None
            assert (reply["project_id"], reply["project_source"]) == (project_id, "config")
