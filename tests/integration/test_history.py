"""The history that is kept is that of what is checked out, as deep as was asked for."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.git import git
from tests.waiting import until

from codebase_mcp.app.app import App, IndexReport
from codebase_mcp.cli.main import run
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project, index_lock
from codebase_mcp.database.server import Embedded
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.index.commit_history import assign_positions, refresh_history
from codebase_mcp.index.store import remove_repository
from codebase_mcp.settings.choices import database_target
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

NEWEST_FIRST = """
SELECT encode(c.hash, 'hex'), c.message, c.paths, c.paths_total
FROM commit_entry AS c
ORDER BY c.repository_id, c.position DESC
"""


def commit(root: Path, message: str, *, file: str = "a.py", at: str | None = None) -> None:
    """Commit a change of one file."""
    (root / file).write_text(f"text = {message!r}\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message, at=at)


@pytest.fixture
def repository(make_repo: MakeRepo) -> Path:
    """Five commits of one file."""
    root = make_repo({"a.py": ""})
    git(root, "init", "-q", "-b", "main")
    for number in range(5):
        commit(root, f"number {number}", at=f"2020-01-0{number + 1}T00:00:00Z")
    return root


async def kept(app: App, project_id: str) -> list[str]:
    """The messages of the commits that are kept, newest first."""
    async with app.enter(project_id, readonly=True) as here:
        return [row[1] for row in await here.tx.fetch_all(NEWEST_FIRST)]


async def rows(app: App, project_id: str) -> list[tuple[object, ...]]:
    async with app.enter(project_id, readonly=True) as here:
        return await here.tx.fetch_all(NEWEST_FIRST)


async def index(app: App, root: Path, project_id: str, depth: int | None = None) -> IndexReport:
    report = await app.index(root, project_id, history_depth=depth)
    assert (report.run.status, report.run.notice) == ("success", None)
    return report


async def test_no_history_is_kept_unless_it_is_asked_for(
    app: App, repository: Path, project_id: str
) -> None:
    assert (await index(app, repository, project_id)).commits == 0
    assert await kept(app, project_id) == []


async def test_history_stays_as_deep_as_asked_for_until_another_depth_is(
    app: App, repository: Path, project_id: str
) -> None:
    assert (await index(app, repository, project_id, 3)).commits == 3
    assert await kept(app, project_id) == ["number 4", "number 3", "number 2"]
    commit(repository, "new")
    assert (await index(app, repository, project_id)).commits == 3
    assert await kept(app, project_id) == ["new", "number 4", "number 3"]
    await index(app, repository, project_id, 5)
    assert await kept(app, project_id) == ["new", *(f"number {n}" for n in (4, 3, 2, 1))]
    await index(app, repository, project_id, 1)
    assert await kept(app, project_id) == ["new"]
    await index(app, repository, project_id, 0)
    commit(repository, "newer")
    await index(app, repository, project_id)
    assert await kept(app, project_id) == []


async def test_an_update_of_single_paths_keeps_the_history_true_as_well(
    app: App, repository: Path, project_id: str
) -> None:
    await index(app, repository, project_id, 2)
    commit(repository, "new")
    report = await app.update(repository, ["a.py"], project_id)
    assert report.commits == 2
    assert await kept(app, project_id) == ["new", "number 4"]


def go_back(root: Path) -> None:
    git(root, "reset", "-q", "--hard", "HEAD~2")


def go_forth(root: Path) -> None:
    git(root, "reset", "-q", "--hard", "ORIG_HEAD")


def amend(root: Path) -> None:
    git(root, "commit", "-q", "--amend", "-m", "amended")


def merge_older(root: Path) -> None:
    """Bring commits in that belong between those which are known."""
    git(root, "switch", "-q", "-c", "older", "HEAD~3")
    for _ in range(2):
        name = uuid.uuid4().hex
        commit(root, f"older {name}", file=f"{name}.py", at="2020-01-02T12:00:00Z")
    git(root, "switch", "-q", "main")
    git(root, "merge", "-q", "older", "-m", "merged")


def rebase(root: Path) -> None:
    git(root, "rebase", "-q", "--force-rebase", "HEAD~2")


def detach(root: Path) -> None:
    git(root, "checkout", "-q", "HEAD~1")


def come_back(root: Path) -> None:
    git(root, "switch", "-q", "main")


def start_anew(root: Path) -> None:
    git(root, "checkout", "-q", "--orphan", "anew")
    commit(root, "anew")


async def test_whatever_is_done_to_a_branch_the_newest_commits_are_kept_in_gits_order(
    app: App, repository: Path, project_id: str
) -> None:
    for depth in (4, 100):
        git(repository, "switch", "-q", "main")
        for change in (
            lambda root: commit(root, "one more"),
            go_back,
            go_forth,
            amend,
            merge_older,
            lambda root: commit(root, "after the merge"),
            rebase,
            detach,
            come_back,
            start_anew,
        ):
            change(repository)
            await index(app, repository, project_id, depth)
            expected = git(repository, "rev-list", f"--max-count={depth}", "HEAD").split()
            assert [row[0] for row in await rows(app, project_id)] == expected
        git(repository, "switch", "-q", "main")
        git(repository, "branch", "-q", "-D", "anew", "older")


async def test_nothing_is_read_where_nothing_changed_and_only_new_commits_are_read(
    app: App, repository: Path, project_id: str
) -> None:
    await index(app, repository, project_id, 10)
    before = await rows(app, project_id)
    tree = git(repository, "rev-parse", "HEAD~2^{tree}").strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    commit(repository, "new")
    await index(app, repository, project_id)  # reading an old commit again would fail
    assert (await rows(app, project_id))[1:] == before
    shutil.rmtree(repository / ".git" / "objects")
    (repository / ".git" / "objects").mkdir()
    await index(app, repository, project_id)
    assert len(await kept(app, project_id)) == 6


async def test_a_history_that_cannot_be_read_fails_no_run_and_loses_nothing(
    app: App, repository: Path, project_id: str
) -> None:
    await index(app, repository, project_id, 10)
    before = await rows(app, project_id)
    commit(repository, "broken")
    tree = git(repository, "rev-parse", "HEAD^{tree}").strip()
    lost = repository / ".git" / "objects" / tree[:2] / tree[2:]
    aside = lost.rename(repository.parent / "aside")
    report = await app.index(repository, project_id)
    assert report.run.status == "success"
    assert report.run.files_indexed == 1
    assert "The history could not be read: git diff-tree failed" in (report.run.notice or "")
    assert await rows(app, project_id) == before
    aside.rename(lost)
    await index(app, repository, project_id)
    assert (await kept(app, project_id))[0] == "broken"


async def test_a_shallow_clone_that_is_deepened_is_read_further(
    app: App, repository: Path, project_id: str, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repository}", str(clone))
    await index(app, clone, project_id, 10)
    assert [row[1:] for row in await rows(app, project_id)] == [
        ("number 4", ["a.py"], 1),
        ("number 3", [], None),
    ]
    git(clone, "fetch", "-q", "--unshallow")
    await index(app, clone, project_id)
    assert [row[1:] for row in await rows(app, project_id)] == [
        (f"number {n}", ["a.py"], 1) for n in (4, 3, 2, 1, 0)
    ]


async def test_a_directory_outside_git_has_no_history_until_it_is_in_git(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"a.py": "x = 1\n"})
    assert (await index(app, root, project_id, 10)).commits == 0
    git(root, "init", "-q")
    assert (await index(app, root, project_id)).commits == 0
    commit(root, "first")
    assert (await index(app, root, project_id)).commits == 1
    shutil.rmtree(root / ".git")
    assert (await index(app, root, project_id)).commits == 0
    assert await kept(app, project_id) == []


async def test_a_context_file_says_how_deep_unless_the_run_does(
    app: App, repository: Path, project_id: str
) -> None:
    (repository / ".mcp-context.toml").write_text("[git]\ndepth = 2\n")
    assert (await index(app, repository, project_id)).commits == 2
    assert (await index(app, repository, project_id, 4)).commits == 4
    assert (await index(app, repository, project_id)).commits == 2


async def test_the_operators_depth_comes_before_that_of_a_context_file(
    settings: Settings, repository: Path, project_id: str
) -> None:
    (repository / ".mcp-context.toml").write_text("[git]\ndepth = 4\n")
    environment = {
        "CODEBASE_MCP_DATA_DIR": str(settings.data_dir), "CODEBASE_MCP_GIT_DEPTH": "3",
    }  # fmt: skip
    async with await App.open(Settings.load(environment)) as app:
        assert (await index(app, repository, project_id)).commits == 3
        await app.drop_project(project_id)


async def test_several_repositories_of_a_project_have_a_history_each(
    app: App, repository: Path, make_repo: MakeRepo, project_id: str
) -> None:
    other = make_repo({"b.py": ""}, "other")
    git(other, "init", "-q")
    commit(other, "of the other")
    await index(app, repository, project_id, 2)
    await index(app, other, project_id, 2)
    assert len(await kept(app, project_id)) == 3
    await app.remove(repository, project_id)
    assert await kept(app, project_id) == ["of the other"]


async def test_runs_at_the_same_time_leave_one_history(
    app: App, settings: Settings, repository: Path, project_id: str
) -> None:
    await index(app, repository, project_id)
    async with await App.open(settings) as another:
        apps = [app, another] * 2
        await asyncio.gather(*(index(one, repository, project_id, 4) for one in apps))
        commit(repository, "new")
        await asyncio.gather(*(index(one, repository, project_id) for one in apps))
    assert await kept(app, project_id) == ["new", "number 4", "number 3", "number 2"]


async def test_a_repository_that_is_removed_before_its_history_is_read_gets_none(
    app: App, settings: Settings, repository: Path, project_id: str
) -> None:
    report = await index(app, repository, project_id)
    of = report.run.repository_id
    other = await Database.open(database_target(settings))
    try:
        async with other.session_locks(report.project, [index_lock(of)]):
            waiting = asyncio.create_task(
                refresh_history(
                    app.database,
                    await app.models.primary(),
                    report.project,
                    of,
                    repository,
                    depth=5,
                )
            )
            await until_someone_waits(other, report.project)
            async with other.transaction(report.project) as tx:
                await remove_repository(tx, of)
        assert await waiting == 0
    finally:
        await other.close()
    assert await kept(app, project_id) == []


async def until_someone_waits(database: Database, project: Project) -> None:
    """Return once a session waits for a lock."""

    async def is_waiting() -> bool:
        async with database.transaction(project, readonly=True) as tx:
            row = await tx.fetch_one(
                "SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND NOT granted"
            )
        return row is not None

    await until(is_waiting)


async def test_a_backup_takes_the_history_along_and_leaves_the_runs_behind(
    app: App, repository: Path, project_id: str
) -> None:
    await index(app, repository, project_id, 10)
    before = await rows(app, project_id)
    file = io.BytesIO()
    await app.data.backup(file, project_id)
    other_id = f"other-{uuid.uuid4().hex[:12]}"
    try:
        await app.data.restore(io.BytesIO(file.getvalue()), "backup", other_id)
        assert await rows(app, other_id) == before
        async with app.enter(other_id, readonly=True) as here:
            assert await here.tx.fetch_all("SELECT FROM index_run") == []
        commit(repository, "new")
        report = await index(app, repository, other_id)
        assert report.run.files_indexed == 1
        assert [row[1] for row in await rows(app, other_id)] == ["new", *(r[1] for r in before)]
    finally:
        with suppress(ProjectNotFound):
            await app.drop_project(other_id)


def test_the_shell_asks_for_a_history_and_tells_how_much_is_kept(
    embedded: Embedded, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--project", "test-history-command", f"--data-dir={embedded.data_dir}"]
    assert run(["index", str(repository), "--history", "10001", *here]) == 1
    assert "--history must be a whole number from 0 to 10000" in capsys.readouterr().err
    assert run(["index", str(repository), "--history", "3", *here]) == 0
    assert "3 commits of history" in capsys.readouterr().out
    assert run(["status", *here]) == 0
    assert "3 commits of history" in capsys.readouterr().out
    assert run(["index", str(repository), "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out)["commits"] == 3
    assert run(["remove", str(repository), *here]) == 0


@given(st.lists(st.integers(0, 40), unique=True), st.data())
def test_positions_grow_to_the_newest_and_move_nothing_without_need(
    stored: list[int], data: st.DataObject
) -> None:
    known = {str(commit): -10 - 3 * n for n, commit in enumerate(stored)}
    before, behind = ["b1", "b2"], ["a1", "a2"]
    first = data.draw(st.integers(0, len(stored)))
    kept_ones = [str(commit) for commit in stored[first:]]
    placed = assign_positions([*before, *kept_ones, *behind], known)
    assert {c: placed[c] for c in kept_ones} == {c: known[c] for c in kept_ones}
    mixed = data.draw(st.permutations([*before, *known, *behind]))
    positions = list(assign_positions(mixed, known).values())
    assert positions == sorted(set(positions))
    assert len(positions) == len(mixed)
