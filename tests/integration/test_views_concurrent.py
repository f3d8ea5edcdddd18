"""Refs are searched while others index, rebuild, drop and remove them: each answer is right, or the
error says what happened.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.git import git

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app import views
from codebase_mcp.app.app import App
from codebase_mcp.app.views import Views
from codebase_mcp.errors import (
    IndexingFailed,
    InvalidInput,
    NotFound,
    ProjectNotFound,
    SnapshotDropped,
)
from codebase_mcp.index import batches
from codebase_mcp.index.commits import CommitIndexer
from codebase_mcp.index.pool import PreparerPool
from codebase_mcp.index.prepare import PreparedBlob
from codebase_mcp.search.search import Request
from codebase_mcp.symbols.answer import SymbolQuestion

QUERIES = ("count the stripes of a zebra", "backoff", "spots")

MAIN = {
    "a.py": "def count_stripes(zebra):\n    return zebra.stripes\n",
    "b.py": "class Retry:\n    def backoff(self, attempt):\n        return 2 ** attempt\n",
    "c.md": "# Zebras\n\nHow stripes are counted.\n",
}
FEATURE = {
    "b.py": "class Retry:\n    def wait_longer(self, attempt):\n        return 3 ** attempt\n",
    "d.py": "def count_spots(leopard):\n    return leopard.spots\n",
    "e.py": "def feed(leopard):\n    return leopard.meal\n",
}


class PausingPool(PreparerPool):
    """Prepares one batch; before the second it waits."""

    def __init__(self) -> None:
        super().__init__(1)
        self.is_paused, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.batches = 0

    async def prepare(self, *arguments: Any, **options: Any) -> list[PreparedBlob]:
        """Prepare a batch."""
        self.batches += 1
        if self.batches == 2:
            self.is_paused.set()
            await self.may_go_on.wait()
        return await super().prepare(*arguments, **options)


def commit(root: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (root / path).write_text(content)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "work")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a branch; ``main`` is checked out."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, MAIN)
    git(folder, "checkout", "-q", "-b", "feature")
    commit(folder, FEATURE)
    git(folder, "checkout", "-q", "main")
    return folder


@pytest.fixture(autouse=True)
def one_file_a_batch(loads_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_FILES", 1)


@pytest.fixture
def paused(app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[PausingPool]:
    """What pauses ``app`` while it indexes a commit."""
    pool = PausingPool()
    indexer = CommitIndexer(app.database, app.models, pool)
    chosen = Views(app.database, lambda: indexer, app.trees.selection_of)
    monkeypatch.setitem(vars(app), "views", chosen)
    yield pool
    pool.close()


async def answers(app: App, project_id: str, ref: str | None) -> list[list[tuple[str, int, float]]]:
    found = []
    for query in QUERIES:
        report = await app.search(query, project_id, Request(limit=20), ref=ref)
        hits = report.answer.hits
        found.append([(hit.file_path, hit.start_line, hit.similarity_score) for hit in hits])
    return found


async def snapshots(app: App, project_id: str) -> list[tuple[Any, ...]]:
    async with app.enter(project_id, readonly=True) as here:
        return await here.tx.fetch_all(
            "SELECT view, indexed_at IS NOT NULL FROM snapshot WHERE view <> 'worktree'"
        )


async def forget_what_vanished(app: App, project_id: str, root: Path) -> None:
    """As the end of an index run does."""
    project, _ = await app.resolver.resolve(project_id, ANONYMOUS)
    [tree] = await app.trees.load(project)
    await app.views.refresh(project, tree.repository_id, root, ())


async def test_two_processes_asked_for_the_same_commit_index_it_once(
    app: App, by_database: App, root: Path, project_id: str
) -> None:
    await app.index(root, project_id)
    both = await asyncio.gather(
        *(answers(one, project_id, "feature") for one in (app, by_database) * 2)
    )
    assert all(one == both[0] for one in both)
    assert "d.py" in {path for path, _, _ in both[0][2]}
    assert await snapshots(app, project_id) == [(git(root, "rev-parse", "feature"), True)]


async def test_two_processes_asked_for_different_commits_do_not_block_each_other(
    app: App, by_database: App, root: Path, project_id: str
) -> None:
    await app.index(root, project_id)
    wanted = [await answers(by_database, project_id, ref) for ref in ("main", "feature")]
    await app.index(root, project_id, force_reindex=True)
    found = await asyncio.gather(
        *(
            answers(one, project_id, ref)
            for one in (app, by_database)
            for ref in ("main", "feature")
        )
    )
    assert found == [*wanted, *wanted]


async def test_a_ref_answers_alike_while_the_working_tree_is_edited_and_indexed(
    app: App, by_database: App, root: Path, project_id: str
) -> None:
    await app.index(root, project_id)
    wanted = await answers(by_database, project_id, "main feature")

    async def edit() -> None:
        for turn in range(12):
            (root / "a.py").write_text(f"def count_stripes_{turn % 3}(zebra):\n    pass\n")
            (root / "d.py").write_text(f"def spots_{turn}(leopard):\n    return {turn}\n")
            if turn % 4 == 3:
                (root / "c.md").unlink(missing_ok=True)
                (root / "d.py").unlink()
            await by_database.index(root, project_id)

    editing = asyncio.create_task(edit())
    searches = 0
    while not editing.done():
        for one in (app, by_database):
            assert await answers(one, project_id, "main feature") == wanted
        searches += 1
    await editing
    assert searches > 2
    await app.memory_indexes.wait_idle()
    assert await answers(app, project_id, "main feature") == wanted


async def test_a_branch_that_vanished_is_refused_also_if_it_was_searched_a_moment_ago(
    app: App, by_database: App, root: Path, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "FRESH_S", 60.0)
    await app.index(root, project_id)
    await app.search("spots", project_id, ref="feature")
    git(root, "branch", "-q", "-D", "feature")
    await forget_what_vanished(by_database, project_id, root)
    assert await snapshots(app, project_id) == []
    with pytest.raises(InvalidInput):
        await app.search("spots", project_id, ref="feature")


@pytest.mark.parametrize("ref", ["feature", "worktree feature"])
async def test_a_rebuild_drops_commits_and_the_next_search_indexes_them_again(
    app: App,
    by_database: App,
    root: Path,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
    ref: str,
) -> None:
    monkeypatch.setattr(views, "FRESH_S", 60.0)
    await app.index(root, project_id)
    wanted = await answers(app, project_id, ref)
    await by_database.index(root, project_id, force_reindex=True)
    assert await answers(app, project_id, ref) == wanted


async def test_a_rebuild_drops_commits_and_the_next_outline_indexes_them_again(
    app: App, by_database: App, root: Path, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "FRESH_S", 60.0)
    await app.index(root, project_id)
    question = SymbolQuestion("outline", path="", ref="feature")

    async def outlined() -> list[str]:
        outline = (await app.symbols.ask(question, project_id)).facts.outline
        assert outline is not None
        return [shown.file.path for shown in outline.files]

    wanted = await outlined()
    assert wanted
    await by_database.index(root, project_id, force_reindex=True)
    assert await outlined() == wanted


async def test_searches_go_on_while_their_commit_is_dropped_again_and_again(
    app: App, by_database: App, root: Path, project_id: str
) -> None:
    await app.index(root, project_id)
    wanted = await answers(app, project_id, "feature")

    async def drop() -> None:
        for _ in range(15):
            async with by_database.enter(project_id) as here:
                await here.tx.execute("DELETE FROM snapshot WHERE view <> 'worktree'")
            await asyncio.sleep(0.02)

    dropping = asyncio.create_task(drop())
    while not dropping.done():
        with contextlib.suppress(SnapshotDropped):  # dropped as fast as it is made
            assert await answers(app, project_id, "feature") == wanted
    await dropping
    assert await answers(app, project_id, "feature") == wanted


async def test_a_repository_that_is_removed_while_a_commit_is_indexed_ends_the_search_clearly(
    app: App, by_database: App, root: Path, project_id: str, paused: PausingPool
) -> None:
    await app.index(root, project_id)
    search = asyncio.create_task(app.search("spots", project_id, ref="feature"))
    await paused.is_paused.wait()
    await by_database.remove(root, project_id)
    paused.may_go_on.set()
    with pytest.raises(ProjectNotFound, match="Nothing is indexed"):
        await search
    with pytest.raises(NotFound):
        await by_database.remove(root, project_id)
    async with app.enter(project_id, readonly=True) as here:
        for table in ("snapshot", "file", "blob", "chunk", "chunk_vector", "git_ref"):
            query = f"SELECT count(*) FROM {table}"
            assert await here.tx.fetch_all(query) == [(0,)], table  # type: ignore[arg-type]


async def test_a_rebuild_that_ends_while_a_commit_is_indexed_has_it_indexed_anew(
    app: App, by_database: App, root: Path, project_id: str, paused: PausingPool
) -> None:
    await app.index(root, project_id)
    search = asyncio.create_task(answers(app, project_id, "feature"))
    await paused.is_paused.wait()
    await by_database.index(root, project_id, force_reindex=True)
    paused.may_go_on.set()
    assert await search == await answers(by_database, project_id, "feature")
    assert await snapshots(app, project_id) == [(git(root, "rev-parse", "feature"), True)]


async def test_a_branch_that_moves_while_it_is_indexed_is_searched_where_it_is_now(
    app: App, by_database: App, root: Path, project_id: str, paused: PausingPool
) -> None:
    await app.index(root, project_id)
    search = asyncio.create_task(app.search("spots", project_id, ref="feature"))
    await paused.is_paused.wait()
    git(root, "checkout", "-q", "feature")
    commit(root, {"f.py": "def paint_spots(leopard):\n    return leopard.paint\n"})
    git(root, "checkout", "-q", "main")
    await by_database.search("spots", project_id, ref="feature")
    paused.may_go_on.set()
    report = await search
    moved = git(root, "rev-parse", "feature")
    assert {hit.file_path for hit in report.answer.hits} >= {"d.py", "f.py"}
    assert {hit.view for hit in report.answer.hits} == {moved}


async def test_the_working_tree_may_become_the_commit_that_is_being_indexed(
    app: App, by_database: App, root: Path, project_id: str, paused: PausingPool
) -> None:
    """The files that the commit has stored come into the tree that its snapshot differs from."""
    for number in range(8):  # so that the branch differs in few of them
        (root / f"more_{number}.py").write_text(f"MORE = {number}\n")
    await app.index(root, project_id)
    git(root, "checkout", "-q", "feature")
    commit(root, {f"more_{number}.py": f"MORE = {number}\n" for number in range(8)})
    git(root, "checkout", "-q", "main")
    for number in range(8):
        (root / f"more_{number}.py").write_text(f"MORE = {number}\n")
    await app.index(root, project_id)
    search = asyncio.create_task(app.search("spots", project_id, ref="feature"))
    await paused.is_paused.wait()
    search.cancel()
    await app.views.close()
    git(root, "checkout", "-q", "-f", "feature")
    await by_database.index(root, project_id)
    assert await answers(by_database, project_id, "feature") == await answers(
        by_database, project_id, None
    )


async def test_half_a_change_is_not_searched(
    app: App, root: Path, project_id: str, paused: PausingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one of the two states is being indexed, nothing of the other is found."""
    monkeypatch.setattr(views, "BUDGET_S", 0.01)
    with pytest.raises(ProjectNotFound):
        await app.search("spots", project_id, ref="main...feature")
    await app.index(root, project_id)
    for _ in range(2):  # the second time it is not answered from what is remembered
        with pytest.raises(IndexingFailed, match="still being indexed"):
            await app.search("spots", project_id, ref="main...feature")
    paused.may_go_on.set()
    monkeypatch.setattr(views, "BUDGET_S", 60.0)
    report = await app.search("spots", project_id, ref="main...feature")
    assert "d.py" in {hit.file_path for hit in report.answer.hits}
