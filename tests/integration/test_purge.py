"""What is purged is gone at once, from every table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.app.data import TABLES
from codebase_mcp.cli.main import run
from codebase_mcp.database.connection import Embedded
from codebase_mcp.errors import NotFound, ProjectNotFound

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

SECRET = "def hand_out(key=locked()):\n    return 'sup3rs3cr3tvalue and moreunheardofwords'\n"
EVERY_ROW = {"chunk", "chunk_vector", "blob", "symbol", "blob_reference", "file"}

# What people and agents keep, and what describes the schema itself.
HOLD_NO_CODE = {
    "git_ref", "replaced_file",
    "agent", "agent_execution", "anchor", "entity", "entity_type", "entity_type_version",
    "observation", "observation_vector", "profile", "schema_migration", "second_tier",
    "second_tier_away", "session", "task", "task_event", "task_link", "work_item",
}  # fmt: skip


async def rows_with(app: App, project_id: str, needle: str) -> dict[str, int]:
    """How many rows of each table of the project hold a text anywhere."""
    project, _ = await app.resolver.resolve(project_id, ANONYMOUS)
    async with app.enter(project_id, readonly=True) as here:
        tables = await here.tx.fetch_all(
            "SELECT relname FROM pg_class WHERE relnamespace = %(schema)s::regnamespace"
            " AND relkind = 'r'",
            schema=project.schema_name,
        )
        found = {}
        for (table,) in tables:
            row = await here.tx.fetch_one(
                f'SELECT count(*) FROM "{table}" AS t WHERE t::text LIKE %(needle)s',
                needle=f"%{needle}%",
            )
            assert row is not None
            found[table] = row[0]
    return {table: count for table, count in found.items() if count}


async def test_a_purged_file_is_in_no_table_any_more(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"keep.py": "def keep():\n    return 1\n", "lib/secret.py": SECRET})
    await app.index(root, project_id)
    assert await rows_with(app, project_id, "sup3rs3cr3tvalue")
    target = await app.data.find(root / "lib" / "secret.py", project_id)
    purged = await app.data.purge(target)
    assert purged.is_complete
    assert purged.paths == ("lib/secret.py",)
    assert all(purged.before[table] for table in EVERY_ROW | {"term_frequency"})
    assert await rows_with(app, project_id, "sup3rs3cr3tvalue") == {}
    assert await rows_with(app, project_id, "secret.py") == {}
    report = await app.search("keep", project_id)
    assert [hit.file_path for hit in report.answer.hits] == ["keep.py"]


async def test_earlier_versions_that_wait_for_the_sweep_go_with_the_file(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"keep.py": "x = 1\n", "secret.py": SECRET})
    await app.index(root, project_id)
    (root / "secret.py").write_text("nothing = 'to hide any more'\n")
    await app.index(root, project_id)
    assert await rows_with(app, project_id, "sup3rs3cr3tvalue")
    await app.data.purge(await app.data.find(root / "secret.py", project_id))
    assert await rows_with(app, project_id, "sup3rs3cr3tvalue") == {}


async def test_a_text_that_another_file_shows_stays_and_is_named(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"secret.py": SECRET, "copy.py": SECRET})
    await app.index(root, project_id)
    purged = await app.data.purge(await app.data.find(root / "secret.py", project_id))
    assert purged.is_complete
    assert purged.kept == (f"{root}/copy.py",)
    assert (await app.search("hand_out", project_id)).answer.hits[0].file_path == "copy.py"


async def test_a_directory_is_purged_with_all_below_it(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"lib/a.py": SECRET, "lib/in/b.py": "b = 2\n", "library.py": "c = 3\n"})
    await app.index(root, project_id)
    purged = await app.data.purge(await app.data.find(root / "lib", project_id))
    assert purged.paths == ("lib/a.py", "lib/in/b.py")
    assert purged.is_complete
    assert await rows_with(app, project_id, "library.py")


async def test_a_purged_repository_leaves_no_row_and_the_others_alone(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    first = make_repo({"a.py": SECRET, "LICENSE": "the same\n"}, "first")
    second = make_repo({"b.py": "def b():\n    return 2\n", "LICENSE": "the same\n"}, "second")
    await app.index(first, project_id)
    await app.index(second, project_id)
    purged = await app.data.purge(await app.data.find(first, project_id))
    assert purged.is_complete
    assert set(purged.before) == set(TABLES)
    assert await rows_with(app, project_id, str(first)) == {}
    assert await rows_with(app, project_id, "sup3rs3cr3tvalue") == {}
    assert (await app.index(second, project_id)).run.files_unchanged == 2


async def test_a_repository_is_found_by_its_id_when_its_directory_is_gone(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"a.py": SECRET})
    report = await app.index(root, project_id)
    (root / "a.py").unlink()
    root.rmdir()
    target = await app.data.find(str(report.run.repository_id), project_id)
    assert (await app.data.purge(target)).is_complete


async def test_a_purged_project_has_neither_tables_nor_a_place_in_the_catalogue(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    await app.index(make_repo({"a.py": SECRET}), project_id)
    purged = await app.data.purge_project(project_id)
    assert purged.is_complete
    assert purged.before["chunk"] and purged.before["codebase_mcp.project"] == 1
    with pytest.raises(ProjectNotFound):
        await app.search("hand_out", project_id)


async def test_only_indexed_paths_can_be_purged(
    app: App, project_id: str, make_repo: MakeRepo, tmp_path: Path
) -> None:
    root = make_repo({"a.py": SECRET})
    await app.index(root, project_id)
    with pytest.raises(NotFound, match="Nothing is indexed at"):
        await app.data.find(tmp_path / "elsewhere", project_id)
    target = await app.data.find(root / "b.py", project_id)
    with pytest.raises(NotFound, match="The path is not in the index"):
        await app.data.purge(target)


async def test_every_table_is_counted_or_known_to_hold_nothing_of_a_repository(
    app: App, project_id: str, make_repo: MakeRepo
) -> None:
    await app.index(make_repo(), project_id)
    project, _ = await app.resolver.resolve(project_id, ANONYMOUS)
    async with app.enter(project_id, readonly=True) as here:
        tables = await here.tx.fetch_all(
            "SELECT relname FROM pg_class WHERE relnamespace = %(schema)s::regnamespace"
            " AND relkind = 'r'",
            schema=project.schema_name,
        )
        assert {table for (table,) in tables} - set(TABLES) == HOLD_NO_CODE


def test_the_command_proves_what_it_did(
    embedded: Embedded, make_repo: MakeRepo, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_repo({"a.py": SECRET, "b.py": "b = 1\n"})
    data = f"--data-dir={embedded.data_dir}"
    project = ["--project", "test-purge-command", data]
    assert run(["index", str(root), *project]) == 0
    capsys.readouterr()
    assert run(["purge", str(root / "a.py"), *project]) == 1
    assert "Pass --yes" in capsys.readouterr().err
    assert run(["purge", str(root / "a.py"), "--yes", "--json", *project]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert printed["rows"]["chunk"] == {"before": 1, "after": 0}
    assert (printed["still_on_disk"], printed["read_again"]) == (True, True)
    assert run(["search", "hand out", *project]) == 0  # which looks at the files first
    assert "a.py" in capsys.readouterr().out
    assert run(["purge", str(root / "a.py"), "--yes", *project]) == 0
    assert "the next search or index run reads it again" in " ".join(
        capsys.readouterr().out.split()
    )
    assert run(["index", str(root), *project]) == 0
    (root / ".mcpignore").write_text("a.py\n", encoding="utf-8")
    capsys.readouterr()
    assert run(["purge", str(root / "a.py"), "--yes", "--json", *project]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["still_on_disk"], printed["read_again"]) == (True, False)
    assert run(["search", "hand out", *project]) == 0
    assert "a.py" not in capsys.readouterr().out
    assert run(["purge", "--everything", "--yes", *project]) == 0
    assert "codebase_mcp.project" in capsys.readouterr().out
    assert run(["purge", *project]) == 1
    assert "--everything" in capsys.readouterr().err
