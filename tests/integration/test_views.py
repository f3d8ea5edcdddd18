"""Any branch, tag or commit can be searched, and its answers are its own."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.git import git

import codebase_mcp
from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.errors import InvalidInput
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.usefixtures("loads_at_once")

PACKAGE = Path(codebase_mcp.__file__).parent
# Real code, but little of it: every test here indexes it.
CODE = ("search/[q-w]*.py", "index/p*.py", "index/st*", "database/[sv]*")

QUERIES = [
    "where are failed requests retried",
    "how is a vector stored in the database",
    "parse_query",
    "Searcher",
    "return the value of self for each",
    "supervisor",
    "quuxify",
    "zebra stripes are counted",
]


def commit_all(root: Path, message: str) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    """A real repository with a branch that changes, adds, renames and deletes files."""
    root = tmp_path / "work"
    for pattern in CODE:
        for file in PACKAGE.glob(pattern):
            (root / file.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, root / file.parent.name)
    git(root, "init", "-q", "-b", "main")
    commit_all(root, "first")
    git(root, "checkout", "-q", "-b", "feature")
    for name in ("search/query.py", "index/plan.py"):
        file = root / name
        file.write_text(file.read_text() + "\n\ndef quuxify(zebra):\n    return zebra.stripes\n")
    (root / "search/zebra.py").write_text("def count_stripes(zebra):\n    return zebra.stripes\n")
    (root / "search/verify.py").unlink()
    (root / "index/pool.py").rename(root / "database/pacing.py")
    (root / "database/supervisor.py").write_text("def supervise():\n    pass\n")
    commit_all(root, "zebras")
    git(root, "checkout", "-q", "main")
    return root


def clone_at(root: Path, ref: str, to: Path) -> Path:
    git(root, "clone", "-q", str(root), str(to))
    git(to, "checkout", "-q", ref)
    return to


async def answers(app: App, project_id: str, ref: str | None) -> list[list[tuple[str, int, float]]]:
    """What is found for each query: paths, lines and scores."""
    found = []
    for query in QUERIES:
        report = await app.search(query, project_id, Request(limit=20), ref=ref)
        found.append(
            [(hit.file_path, hit.start_line, hit.similarity_score) for hit in report.answer.hits]
        )
    return found


async def test_a_branch_is_searched_as_if_it_alone_were_indexed(
    app: App, by_database: App, branches: Path, project_id: str, tmp_path: Path
) -> None:
    fresh = f"{project_id}-fresh"
    await app.index(branches, project_id)
    await app.index(clone_at(branches, "feature", tmp_path / "fresh"), fresh)
    try:
        wanted = await answers(by_database, fresh, None)
        assert await answers(by_database, project_id, "feature") == wanted
        assert wanted != await answers(by_database, project_id, None)
        await app.search("anything", project_id, ref="feature")
        await app.memory_indexes.wait_idle()
        assert await answers(app, project_id, "feature") == wanted
    finally:
        await app.drop_project(fresh)


async def test_the_working_tree_is_searched_as_if_no_branch_were_indexed(
    app: App, by_database: App, branches: Path, project_id: str
) -> None:
    await app.index(branches, project_id)
    before = await answers(by_database, project_id, None)
    await app.search("anything", project_id, ref="feature")
    assert await answers(by_database, project_id, None) == before
    await app.memory_indexes.wait_idle()
    assert await answers(app, project_id, None) == before


async def rows(app: App, project_id: str, statement: str) -> int:
    async with app.enter(project_id, readonly=True) as here:
        row = await here.tx.fetch_one(statement)  # type: ignore[arg-type]
    assert row is not None
    count: int = row[0]
    return count


async def test_only_what_a_second_branch_changes_is_stored(
    app: App, branches: Path, project_id: str
) -> None:
    await app.index(branches, project_id)
    await app.search("anything", project_id, ref="main")
    blobs = await rows(app, project_id, "SELECT count(*) FROM blob")
    files = await rows(app, project_id, "SELECT count(*) FROM file")
    await app.search("anything", project_id, ref="feature")
    # Two changed files, one new, one emptied; a renamed one has a text that is stored.
    assert await rows(app, project_id, "SELECT count(*) FROM blob") == blobs + 4
    assert await rows(app, project_id, "SELECT count(*) FROM file") == files + 5


async def test_tags_commits_and_ancestors_can_be_named(
    app: App, branches: Path, project_id: str
) -> None:
    git(branches, "tag", "-a", "v1", "-m", "first", "feature")
    commit = git(branches, "rev-parse", "feature")
    await app.index(branches, project_id)
    for ref in ("v1", commit, commit[:8], "heads/feature"):
        report = await app.search("count_stripes", project_id, ref=ref)
        assert report.answer.hits[0].file_path == "search/zebra.py"
        assert report.answer.hits[0].view == commit
        assert report.index.state == "ready"
    report = await app.search("count_stripes", project_id, ref="feature~1")
    assert not [hit for hit in report.answer.hits if hit.file_path == "search/zebra.py"]


async def test_a_branch_follows_its_ref(app: App, branches: Path, project_id: str) -> None:
    await app.index(branches, project_id)
    assert (await app.search("count_stripes", project_id, ref="feature")).answer.hits
    git(branches, "checkout", "-q", "feature")
    (branches / "search/zebra.py").write_text("def count_spots(leopard):\n    return 1\n")
    commit_all(branches, "leopards")
    git(branches, "checkout", "-q", "main")
    app.views.forget()
    report = await app.search("count_spots", project_id, ref="feature")
    assert report.answer.hits[0].file_path == "search/zebra.py"


async def test_a_branch_is_searched_beside_the_working_tree(
    app: App, branches: Path, project_id: str
) -> None:
    await app.index(branches, project_id)
    (branches / "search/here.py").write_text("def count_stripes_here():\n    pass\n")
    report = await app.search("count stripes", project_id, ref="worktree feature")
    views = {(hit.file_path, hit.view == "worktree") for hit in report.answer.hits}
    assert {("search/here.py", True), ("search/zebra.py", False)} <= views


async def test_an_unknown_ref_is_refused_with_the_nearest_name(
    app: App, branches: Path, project_id: str
) -> None:
    await app.index(branches, project_id)
    with pytest.raises(InvalidInput) as caught:
        await app.search("anything", project_id, ref="featrue")
    assert "feature" in str(caught.value.hint)


async def test_files_and_branches_that_vanish_are_forgotten(
    app: App, branches: Path, project_id: str
) -> None:
    run = await app.index(branches, project_id)
    await app.search("anything", project_id, ref="feature")
    blobs = await rows(app, project_id, "SELECT count(*) FROM blob")
    git(branches, "branch", "-q", "-D", "feature")
    project, _ = await app.resolver.resolve(project_id, ANONYMOUS)
    await app.views.refresh(project, run.run.repository_id, branches, ())
    snapshots = "SELECT count(*) FROM snapshot WHERE view <> 'worktree'"
    assert await rows(app, project_id, snapshots) == 0
    assert await rows(app, project_id, "SELECT count(*) FROM blob") < blobs


async def test_removing_a_repository_leaves_what_only_a_branch_of_another_has_out_of_the_counts(
    app: App, by_database: App, branches: Path, project_id: str, tmp_path: Path
) -> None:
    await app.index(branches, project_id)
    await app.search("anything", project_id, ref="feature")
    before = await answers(by_database, project_id, None)
    clone = clone_at(branches, "feature", tmp_path / "clone")
    await app.index(clone, project_id)
    await app.remove(clone, project_id)
    searched = "SELECT chunks FROM term_frequency WHERE term = -1"
    held = (
        "SELECT count(*) FROM chunk WHERE blob_id IN (SELECT f.blob_id FROM file AS f"
        " JOIN snapshot AS s ON s.id = f.snapshot_id WHERE s.active)"
    )
    assert await rows(app, project_id, searched) == await rows(app, project_id, held)
    assert await answers(by_database, project_id, None) == before


async def test_branches_that_match_a_setting_are_indexed_with_the_working_tree(
    settings: Settings, branches: Path, project_id: str
) -> None:
    async with await App.open(replace(settings, git_branches=("feat*",))) as app:
        await app.index(branches, project_id)
        snapshots = "SELECT count(*) FROM snapshot WHERE view <> 'worktree' AND files_pending = 0"
        assert await rows(app, project_id, snapshots) == 1
        commit_all(branches, "more")
        git(branches, "branch", "-q", "-f", "feature", "main")
        await app.index(branches, project_id)
        commit = git(branches, "rev-parse", "main")
        assert await rows(app, project_id, f"{snapshots} AND view = '{commit}'") == 1
        await app.drop_project(project_id)


async def test_a_branch_stays_as_it_is_while_the_working_tree_that_it_differs_from_changes(
    by_database: App, branches: Path, project_id: str
) -> None:
    app = by_database
    await app.index(branches, project_id)
    before = await answers(app, project_id, "main feature")
    based_on_files = (
        "SELECT count(*) FROM snapshot AS s JOIN snapshot AS b ON b.id = s.base_id WHERE b.active"
    )
    assert await rows(app, project_id, based_on_files) == 2
    (branches / "search/query.py").write_text("def parse_query():\n    pass\n")
    (branches / "search/scope.py").unlink()
    (branches / "search/zebra.py").write_text("def quuxify_zebra():\n    pass\n")
    (branches / "index/store.py").rename(branches / "index/shop.py")
    await app.index(branches, project_id)
    assert await answers(app, project_id, "main feature") == before


async def found_changes(app: App, project_id: str, query: str, ref: str) -> dict[str, str | None]:
    request = Request(limit=20, by_definition=True)
    report = await app.search(query, project_id, request, ref=ref)
    return {hit.file_path: hit.change for hit in report.answer.hits}


async def test_a_range_is_searched_for_what_changed_alone(
    app: App, branches: Path, project_id: str
) -> None:
    await app.index(branches, project_id)
    found = await found_changes(app, project_id, "quuxify zebra stripes", "main...feature")
    assert found["search/zebra.py"] == "added"
    assert found["search/query.py"] == "added"
    assert "search/vocabulary.py" not in found
    removed = await found_changes(
        app, project_id, "lines of a hit that differ from the file on disk", "main...feature"
    )
    assert removed["search/verify.py"] == "removed"
    assert set(removed.values()) <= {"added", "changed", "removed"}
    back = await found_changes(
        app, project_id, "lines of a hit that differ from the file on disk", "feature..main"
    )
    assert back["search/verify.py"] == "added"


async def test_three_dots_begin_where_the_branch_left(
    app: App, branches: Path, project_id: str
) -> None:
    (branches / "later.py").write_text("def count_giraffes():\n    return 7\n")
    commit_all(branches, "giraffes on main")
    await app.index(branches, project_id)
    assert "later.py" not in await found_changes(
        app, project_id, "count giraffes", "main...feature"
    )
    gone = await found_changes(app, project_id, "count giraffes", "main..feature")
    assert gone["later.py"] == "removed"


async def test_uncommitted_work_is_searched_alone(
    app: App, branches: Path, project_id: str
) -> None:
    await app.index(branches, project_id)
    file = branches / "search/query.py"
    lines = file.read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if line.startswith("def parse_query"))
    lines.insert(place + 1, "    leopards = 3  # spots of leopards are counted\n")
    file.write_text("".join(lines))
    report = await app.search("where are leopards counted", project_id, ref="uncommitted")
    [hit] = report.answer.hits
    assert (hit.file_path, hit.change, hit.view) == ("search/query.py", "changed", "worktree")
    assert hit.start_line <= place + 2 <= hit.end_line


async def test_a_backup_keeps_branches_as_they_are_stored(
    by_database: App, branches: Path, project_id: str
) -> None:
    app = by_database
    await app.index(branches, project_id)
    before = await answers(app, project_id, "feature main")
    backup = io.BytesIO()
    await app.data.backup(backup, project_id)
    copied = f"{project_id}-copy"
    backup.seek(0)
    await app.data.restore(backup, "backup.tar.gz", copied)
    try:
        snapshots = "SELECT count(*) FROM snapshot WHERE base_id IS NOT NULL"
        assert await rows(app, copied, snapshots) == await rows(app, project_id, snapshots) > 0
        shutil.rmtree(branches)  # what was indexed can be searched without the files
        app.views.forget()
        assert await answers(app, copied, "feature main") == before
    finally:
        await app.drop_project(copied)
