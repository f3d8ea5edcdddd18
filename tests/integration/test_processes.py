"""The product as processes: stdio and HTTP servers, the shell commands, and what they leave."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from resource import RLIMIT_FSIZE, setrlimit
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from tests.integration.conftest import Shell

from codebase_mcp.cli.data import appearing
from codebase_mcp.database.connection import Embedded

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]


@pytest.fixture(scope="module")
def environment(embedded: Embedded) -> dict[str, str]:
    return {**os.environ, "CODEBASE_MCP_DATA_DIR": str(embedded.data_dir), "COLUMNS": "200"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_whole_day_of_an_assistant_over_stdio(
    environment: dict[str, str], make_repo: MakeRepo, project_id: str, mode: Any
) -> None:
    root = make_repo()
    server = StdioTransport(COMMAND[0], COMMAND[1:], env=environment, keep_alive=False)
    async with Client(server, mode=mode) as client:
        assert len(await client.list_tools()) == 2
        first = await client.call_tool(
            "search_code", {"query": "login", "project_id": project_id}, raise_on_error=False
        )
        assert first.structured_content is not None
        assert first.structured_content["error"]["code"] == "PROJECT_NOT_FOUND"
        arguments = {"repo_path": str(root), "project_id": project_id}
        indexed = await client.call_tool("index_repository", arguments)
        assert indexed.structured_content is not None
        question = {
            "query": "user login",
            "project_id": project_id,
            "repository_id": indexed.structured_content["repository_id"],
            "limit": 5,
        }
        found = await client.call_tool("search_code", question)
        assert found.structured_content is not None
        assert found.structured_content["results"][0]["file_path"] == "src/auth.py"
        (root / "src/auth.py").write_text(
            "def sign_in_with_token(token):\n    return bool(token)\n"
        )
        again = await client.call_tool("index_repository", arguments)
        assert again.structured_content is not None
        assert again.structured_content["files_indexed"] == 1
        found = await client.call_tool("search_code", question | {"query": "sign in with token"})
        assert found.structured_content is not None
        content = found.structured_content["results"][0]["content"]
        assert content.startswith("def sign_in_with_token")


async def test_standard_output_carries_the_protocol_alone_and_eof_ends_the_process(
    environment: dict[str, str], make_repo: MakeRepo, project_id: str
) -> None:
    server = subprocess.Popen(
        COMMAND,
        env={**environment, "CODEBASE_MCP_LOG_LEVEL": "DEBUG"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {
                "name": "index_repository",
                "arguments": {"repo_path": str(make_repo()), "project_id": project_id},
            },
        },
    ]
    for message in messages:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()
    replies = [json.loads(server.stdout.readline()) for _ in range(2)]
    assert [reply["id"] for reply in replies] == [1, 2]
    assert replies[1]["result"]["structuredContent"]["status"] == "success"
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    server.stdin.close()
    assert server.stdout.read() == ""
    assert server.wait(timeout=60) == 0
    server.stdout.close()
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


@pytest.fixture(scope="module")
def http_server(environment: dict[str, str]) -> Iterator[str]:
    """The address of an HTTP server process."""
    server = subprocess.Popen(
        [*COMMAND, "serve", "--transport", "http", "--port", "0"],
        env={**environment, "CODEBASE_MCP_LOG_LEVEL": "INFO"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    while not (found := re.search(r"serves (http://\S+)", line := server.stderr.readline())):
        assert line, "the server ended before it was ready"
    yield found[1]
    server.send_signal(signal.SIGTERM)
    server.stderr.read()
    server.stderr.close()
    assert server.wait(timeout=60) == 0


async def test_http_serves_both_revisions_and_many_callers(
    http_server: str, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    for mode in ("auto", "legacy"):
        async with Client(StreamableHttpTransport(http_server), mode=mode) as client:
            arguments = {"repo_path": str(root), "project_id": project_id}
            await client.call_tool("index_repository", arguments)
            question = {"query": "parse json", "project_id": project_id}
            answers = await asyncio.gather(
                *(client.call_tool("search_code", question) for _ in range(20))
            )
            paths = {a.structured_content["results"][0]["file_path"] for a in answers}
            assert len(paths) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)],
)
async def test_http_refuses_foreign_hosts_and_origins(
    http_server: str, headers: dict[str, str], status: int
) -> None:
    async with httpx2.AsyncClient() as client:
        reply = await client.post(http_server, headers=headers, json={})
    assert reply.status_code == status


def test_the_shell_indexes_searches_shows_and_removes(
    shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    project = ["--project", project_id]
    indexed = shell("index", str(root), *project)
    assert (indexed.returncode, indexed.stderr) == (0, "")
    assert re.search(r"success\s+repo", indexed.stdout)
    assert "8 files indexed, 0 unchanged" in indexed.stdout
    found = shell("search", "user", "login", *project)
    assert "1. repo/src/auth.py:5-10" in found.stdout
    assert "def authenticate(user, password):" in found.stdout
    assert "8 files" in shell("status", *project).stdout
    assert str(root) in shell("projects").stdout
    removed = shell("remove", str(root), *project)
    assert removed.stdout == f"Removed {root}\n"
    gone = shell("search", "login", *project)
    assert gone.returncode == 1
    assert gone.stderr.startswith("Error: Project has not been indexed or does not exist\nHint:")


def test_every_command_prints_json_when_asked(
    shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    root = str(make_repo())
    options = ["--project", project_id, "--json"]
    assert json.loads(shell("index", root, *options).stdout)["status"] == "success"
    assert json.loads(shell("search", "user login", *options).stdout)["results"]
    assert json.loads(shell("status", *options).stdout)[0]["files"] == 8
    assert json.loads(shell("projects", *options).stdout)[0]["project_id"] == project_id
    assert json.loads(shell("remove", root, *options).stdout)["status"] == "removed"
    failed = shell("remove", root, *options)
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["error"]["code"] == "NOT_FOUND"


def test_every_tool_is_a_command_with_the_older_names(
    shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    root = str(make_repo())
    indexed = shell("index_repository", "--repository_path", root, "--collection", project_id)
    assert json.loads(indexed.stdout)["status"] == "success"
    found = shell(
        "search_code", "--query", "authenticate user", "--collection", project_id, "--limit", "5"
    )
    assert json.loads(found.stdout)["results"][0]["file"] == "src/auth.py"
    filters = '{"languages": ["typescript"]}'
    found = shell(
        "search_code", "--query", "retry", "--project-id", project_id, "--filter", filters
    )
    assert json.loads(found.stdout)["results"][0]["file_path"] == "lib/retry.ts"
    refused = shell("search_code", "--query", "x", "--limit", "100")
    assert refused.returncode == 1
    error = json.loads(refused.stdout)["error"]
    assert error["message"] == "Limit must be between 1 and 50, got 100"


def test_a_flag_that_is_repeated_gives_all_entries_of_a_list(shell: Shell, project_id: str) -> None:
    made = shell("create_project", "--name", "Lists", "--project-id", project_id)
    assert made.returncode == 0
    task = ["create_task", "--title", "t", "--project-id", project_id]
    commits = [f"{number}a" * 20 for number in range(2)]
    anchors = [flag for c in commits for flag in ("--anchors", json.dumps({"commit": c}))]
    references = ["--planning_references", "a.md", "--planning-references", "b, c.md"]
    both = json.loads(shell(*task, *references, *anchors).stdout)
    assert both["planning_references"] == ["a.md", "b, c.md"]
    assert [anchor["commit"] for anchor in both["anchors"]] == commits
    for given, kept in (("a.md", ["a.md"]), ("5", ["5"]), ('["a", "b"]', ["a", "b"]), ("null", [])):
        one = json.loads(shell(*task, "--planning_references", given).stdout)
        assert one["planning_references"] == kept


def test_the_shell_hints_at_commands_and_counts_one_as_one(
    shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    nowhere = shell("search", "login", "--project", "never-made-at-all")
    assert nowhere.stderr.splitlines()[1] == (
        f'Hint:  Make it first: codebase-mcp index "{Path.cwd()}" --project "never-made-at-all", '
        "or codebase-mcp create_project."
    )
    root = str(make_repo({"a.py": "a = 1\n"}))
    indexed = shell("index", root, "--project", project_id)
    assert "1 file indexed, 0 unchanged, 0 removed, 1 new chunk, " in indexed.stdout
    assert "1 file, 1 chunk, " in shell("status", "--project", project_id).stdout


def test_doctor_goes_the_whole_way_and_leaves_nothing(shell: Shell) -> None:
    report = shell("doctor", "--json")
    assert report.returncode == 0
    checks = {check["name"]: check["ok"] for check in json.loads(report.stdout)}
    steps = ("settings", "database", "model", "index", "search", "callers")
    assert checks == dict.fromkeys(steps, True)
    assert "codebase-mcp-doctor" not in shell("projects", "--json").stdout


def test_doctor_names_the_way_out(environment: dict[str, str]) -> None:
    broken = {**environment, "DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}
    report = subprocess.run(
        [*COMMAND, "doctor"], env=broken, capture_output=True, text=True, check=False
    )
    assert report.returncode == 1
    assert "FAIL database" in report.stdout
    assert "DATABASE_URL" in report.stdout


def test_a_backup_that_the_disk_cannot_hold_says_so_and_no_more(
    environment: dict[str, str], shell: Shell, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    names = [[f"def value_{n}_{k}(): return {n * k}\n" for k in range(100)] for n in range(20)]
    root = make_repo({f"m{n}.py": "".join(lines) for n, lines in enumerate(names)})
    assert shell("index", str(root), "--project", project_id).returncode == 0
    target = tmp_path / "backups" / "all.tar.gz"
    target.parent.mkdir()
    most = 5_000  # bytes that a file may have, as a disk of that size
    done = subprocess.run(
        [*COMMAND, "backup", "--project", project_id, "--output", str(target)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: setrlimit(RLIMIT_FSIZE, (most, most)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"Error: {target}: File too large"]
    assert list(target.parent.iterdir()) == []


def test_what_a_killed_backup_leaves_goes_with_the_next(
    environment: dict[str, str], shell: Shell, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    assert shell("index", str(make_repo()), "--project", project_id).returncode == 0
    folder = tmp_path / "backups"
    folder.mkdir()
    killed = "import os, sys; from codebase_mcp.cli.data import appearing\n"
    killed += (
        "with appearing(sys.argv[1]) as file: file.write_text('half'); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", killed, str(folder / "monday.tar.gz")]
    assert subprocess.run(command, env=environment, check=False).returncode == -9
    [_] = folder.iterdir()
    with appearing(str(folder / "at-the-same-time.tar.gz")) as other:
        other.write_text("whole")
        target = folder / "tuesday.tar.gz"
        assert shell("backup", "--project", project_id, "--output", str(target)).returncode == 0
        assert {*folder.iterdir()} == {target, other}
    assert (folder / "at-the-same-time.tar.gz").read_text() == "whole"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("CODEBASE_MCP_WORKERS", "many", "CODEBASE_MCP_WORKERS"),
        ("CODEBASE_MCP_EMBEDDING_MODEL", "/nowhere", "model.safetensors"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_starts(
    environment: dict[str, str], variable: str, value: str, expected: str
) -> None:
    result = subprocess.run(
        [*COMMAND, "status"],
        env={**environment, variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_help_lists_every_command_and_wrong_usage_exits_with_2(shell: Shell) -> None:
    text = shell("--help").stdout
    for command in ("serve", "index", "search", "status", "projects", "remove", "doctor"):
        assert f"  {command} " in text
    assert shell("nonsense").returncode == 2
    assert shell("index").returncode == 2
    assert "--force_reindex" in shell("index_repository", "--help").stdout
