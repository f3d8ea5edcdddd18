"""``index --dry-run``: what a run would do, and that nothing is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.app.forecast import forecast_run
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import InvalidInput, ProjectNotFound
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]


async def test_a_dry_run_of_a_new_project_says_what_a_run_then_does(
    app: App, database: Database, make_repo: MakeRepo
) -> None:
    project_id = f"dry-{uuid.uuid4().hex[:12]}"  # that of the fixture has a schema
    root = make_repo()
    expected = (await forecast_run(app, root, project_id)).forecast
    with pytest.raises(ProjectNotFound):
        await app.search("x", project_id)
    async with database.unmigrated("public", readonly=True) as tx:
        row = await tx.fetch_one(
            "SELECT to_regnamespace(%(name)s) IS NULL",
            name="project_" + project_id.replace("-", "_"),
        )
    assert row == (True,)
    run = (await app.index(root, project_id)).run
    assert (expected.new, expected.chunks) == (run.files_indexed, run.chunks_created)
    assert expected.files == run.files_indexed
    assert dict(expected.skipped) == run.files_skipped
    assert not expected.is_indexed
    await app.drop_project(project_id)


async def test_a_dry_run_tells_new_changed_unchanged_and_removed_files_apart(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    settled = (await forecast_run(app, root, project_id)).forecast
    assert (settled.unchanged, settled.new, settled.changed, settled.removed) == (8, 0, 0, 0)
    assert (settled.chunks, settled.seconds, settled.database_bytes) == (0, 0.0, 0)
    (root / "src/auth.py").write_text("def changed():\n    pass\n")
    (root / "lib/retry.ts").unlink()
    (root / "new.py").write_text("def new():\n    pass\n")
    os.utime(root / "README.md", (1, 1))
    seen = [(await forecast_run(app, root, project_id)).forecast for _ in range(2)]
    for found in seen:
        assert (found.new, found.changed, found.unchanged, found.removed) == (1, 1, 6, 1)
        assert found.chunks == 2
    forced = (await forecast_run(app, root, project_id, force_reindex=True)).forecast
    assert forced.chunks == 8
    run = (await app.index(root, project_id)).run
    assert (run.files_indexed, run.files_removed, run.chunks_created) == (2, 1, 2)


async def test_a_dry_run_of_what_cannot_be_indexed_is_refused(app: App) -> None:
    with pytest.raises(InvalidInput):
        await forecast_run(app, "/nowhere/at/all")


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
    assert (told["files"], told["files_new"], told["is_indexed"]) == (8, 8, False)
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
    assert "2 files, 0.0 kB: 2 new, 0 changed, 0 unchanged, 0 removed" in done.stdout
    assert "To index: about 2 chunks, about a second, about" in done.stdout
    assert "[red]src/a[" in done.stdout
    assert "Nothing was written." in done.stdout
