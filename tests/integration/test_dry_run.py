"""``index --dry-run``: which files a run would index, and that nothing is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.cli.dry_run import largest_folders
from codebase_mcp.model import FileKind, SourceFile
from codebase_mcp.settings.loading import Settings

MakeRepo = Callable[..., Path]
COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]


@pytest.fixture
def shell(settings: Settings) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run one command, in a data folder of its own where one is named."""

    def run(*arguments: str, data_dir: Path | None = None) -> subprocess.CompletedProcess[str]:
        folder = data_dir or settings.data_dir
        environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(folder), "COLUMNS": "120"}
        return subprocess.run(
            [*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False
        )

    return run


Shell = Callable[..., subprocess.CompletedProcess[str]]


def test_the_first_command_of_all_may_be_a_dry_run_and_starts_no_database(
    shell: Shell, make_repo: MakeRepo, tmp_path: Path
) -> None:
    root = make_repo()
    (root / "huge.py").write_text("x = 1\n" * 200_000)
    done = shell("index", str(root), "--dry-run", "--json", data_dir=tmp_path / "data")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == "dry_run"
    assert told["files"] == 8
    assert told["errors"] == ["Failed to process huge.py: File exceeds size limit"]
    assert told["files_skipped"] == {"binary": 1, "ignored": 2}
    assert told["languages"]["python"] == 5
    assert told["kinds"] == {"code": 5, "test": 1, "docs": 1, "config": 1}
    assert told["largest_files"][0]["path"] == "src/auth.py"
    assert {folder["path"] for folder in told["largest_folders"]} >= {"src", "src/parsers", "lib"}
    left = (
        {path.name for path in (tmp_path / "data").iterdir()}
        if (tmp_path / "data").exists()
        else set()
    )
    assert left <= {"grammars"}  # unpacked parsers


def test_people_get_a_table(shell: Shell, make_repo: MakeRepo) -> None:
    root = make_repo({"[red]src/a[/b].py": "x = 1\n", "b/c.py": "def f():\n    pass\n"})
    done = shell("index", str(root), "--dry-run", "--project", f"none-{uuid.uuid4().hex[:8]}")
    assert done.returncode == 0, done.stderr
    assert "2 files, 0.0 kB" in done.stdout
    assert "languages: 2 python" in done.stdout
    assert "[red]src/a[" in done.stdout
    assert "Nothing was written." in done.stdout


def test_the_largest_folders_count_all_below_them_and_say_nothing_twice() -> None:
    sizes = {
        "top.py": 1000,
        "a/only/x.py": 90,
        "a/only/y.py": 5,
        "b/one/z.py": 30,
        "b/two/z.py": 30,
    }
    kind = FileKind.CODE
    found = largest_folders(
        SourceFile(path, path, size, 0, 0, "python", kind, named_as_source=True)
        for path, size in sizes.items()
    )
    assert found == [
        {"path": "a/only", "files": 2, "bytes": 95},
        {"path": "b", "files": 2, "bytes": 60},
        {"path": "b/one", "files": 1, "bytes": 30},
        {"path": "b/two", "files": 1, "bytes": 30},
    ]
