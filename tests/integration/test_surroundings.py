"""Commands where the system is not as usual: no working directory, a locale of ASCII alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.conftest import Shell

from codebase_mcp.settings.loading import Settings

MakeRepo = Callable[..., Path]

COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]
LIMIT_S = 90


@pytest.mark.parametrize(
    "arguments",
    [["search", "x"], ["serve"], ["index", "."], ["settings"], ["tasks", "list"], ["trust"]],
    ids=" ".join,
)
def test_a_working_directory_that_is_gone_is_told_in_words(
    shell: Shell, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ended = shell(*arguments, cwd=None)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: The working directory no longer exists\nHint: ")


def test_a_process_whose_working_directory_is_gone_tells_so_in_words(
    settings: Settings, tmp_path: Path
) -> None:
    ended = in_a_directory_that_is_gone(settings, tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: The working directory no longer exists\nHint: ")
    assert "Traceback" not in ended.stderr


def test_a_tool_without_a_working_directory_has_its_error_in_the_one_shape(
    settings: Settings, tmp_path: Path
) -> None:
    ended = in_a_directory_that_is_gone(settings, tmp_path, "search_code", "--query", "x")
    error = json.loads(ended.stdout)["error"]
    assert (error["code"], error["type"]) == ("VALIDATION_ERROR", "InvalidInput")
    assert not ended.stderr


def in_a_directory_that_is_gone(
    settings: Settings, tmp_path: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    (tmp_path / "gone").mkdir()
    return subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$0" "$@"', *COMMAND, *arguments],
        cwd=tmp_path / "gone",
        env={**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_where_the_locale_is_ascii_alone_paths_may_hold_any_letters(
    settings: Settings, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"ä/größe.py": "def authenticate(user):\n    return user\n"}, "ünïcödé-文")

    def run(*arguments: str) -> str:
        return subprocess.run(
            [*COMMAND, *arguments],
            env={
                **os.environ,
                "CODEBASE_MCP_DATA_DIR": str(settings.data_dir),
                "LC_ALL": "C",
                "PYTHONUTF8": "0",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            timeout=LIMIT_S,
            check=True,
        ).stdout

    indexed = json.loads(run("index_repository", "--repo_path", str(root), "--project", project_id))
    assert (indexed["status"], indexed["files_indexed"]) == ("success", 1)
    found = json.loads(run("search", "authenticate", "--project", project_id, "--json"))
    assert found["results"][0]["file_path"] == "ä/größe.py"
    assert "ünïcödé-文" in run("status", "--project", project_id)
