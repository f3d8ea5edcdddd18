"""Texts that several repositories of a project hold count once, and right for each of them."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.git import git
from tests.integration.indexes import check_frequencies

from codebase_mcp.app.app import App
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.index import store

SHARED = {
    f"vendor/part_{n}.py": f"def split_{n}(invoice):\n    return invoice.lines[{n}]\n"
    for n in range(6)
}
OWN = {
    "sales": {"sales.py": "def sell(article):\n    return article.price\n"},
    "stock": {"stock.py": "def reserve(article):\n    return article.shelf\n"},
}


@pytest.fixture
async def roots(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> AsyncIterator[list[Path]]:
    """Two repositories with most files in common, both indexed."""
    roots = [make_repo({**SHARED, **own}, name) for name, own in OWN.items()]
    for root in roots:
        await app.index(root, project_id)
    yield roots


async def check(app: App, project_id: str) -> int:
    """Check that all is counted right; the number of chunks that are counted."""
    async with app.enter(project_id, readonly=True) as here:
        await check_frequencies(here.tx)
        row = await here.tx.fetch_one(
            "SELECT sum(chunks) FROM term_frequency WHERE term = -1 HAVING sum(chunks) > 0"
        )
        return int(row[0]) if row else 0


async def labels(app: App, project_id: str) -> int:
    """For how many repositories something is counted."""
    async with app.enter(project_id, readonly=True) as here:
        row = await here.tx.fetch_one(
            "SELECT count(DISTINCT counted_for) FROM term_frequency WHERE chunks > 0"
        )
    assert row is not None
    return int(row[0])


async def test_a_text_of_several_repositories_counts_once(
    app: App, roots: list[Path], project_id: str
) -> None:
    assert await check(app, project_id) == len(SHARED) + len(OWN)
    assert await labels(app, project_id) == len(OWN)


async def test_counts_stay_right_when_the_first_repository_loses_a_shared_text(
    app: App, roots: list[Path], project_id: str
) -> None:
    (roots[0] / "vendor/part_0.py").unlink()
    (roots[0] / "vendor/part_1.py").write_text("def other(invoice):\n    return invoice\n")
    await app.index(roots[0], project_id)
    assert await check(app, project_id) == len(SHARED) + len(OWN) + 1
    (roots[1] / "vendor/part_0.py").unlink()  # nobody holds it any more
    await app.index(roots[1], project_id)
    assert await check(app, project_id) == len(SHARED) + len(OWN)
    (roots[1] / "vendor/part_0.py").write_text(SHARED["vendor/part_0.py"])  # and then one does
    await app.index(roots[1], project_id)
    assert await check(app, project_id) == len(SHARED) + len(OWN) + 1


@pytest.mark.parametrize("gone", [0, 1])
async def test_counts_stay_right_when_a_repository_is_removed_and_comes_back(
    app: App, roots: list[Path], project_id: str, gone: int
) -> None:
    await app.remove(roots[gone], project_id)
    assert await check(app, project_id) == len(SHARED) + 1
    await app.index(roots[gone], project_id)
    assert await check(app, project_id) == len(SHARED) + len(OWN)
    for root in roots:
        await app.remove(root, project_id)
    assert await check(app, project_id) == 0


async def test_counts_stay_right_when_a_repository_is_built_anew(
    app: App, roots: list[Path], project_id: str
) -> None:
    await app.index(roots[0], project_id, force_reindex=True)
    # Generations share no texts, so what both hold is stored twice until the other is built too.
    assert await check(app, project_id) == 2 * len(SHARED) + len(OWN)
    await app.index(roots[1], project_id, force_reindex=True)
    assert await check(app, project_id) == len(SHARED) + len(OWN)


async def test_counts_of_a_branch_are_its_own(app: App, roots: list[Path], project_id: str) -> None:
    root = roots[1]
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    git(root, "checkout", "-q", "-b", "topic")
    (root / "stock.py").write_text("def release(article):\n    return article.shelf\n")
    (root / "vendor/part_2.py").unlink()
    git(root, "commit", "-q", "-a", "-m", "topic")
    git(root, "checkout", "-q", "main")
    await app.index(root, project_id)
    await app.search("release the article", project_id, ref="topic")
    assert await check(app, project_id) == len(SHARED) + len(OWN)


async def test_what_is_erased_is_counted_no_more(
    app: App, roots: list[Path], project_id: str
) -> None:
    purged = await app.data.purge(await app.data.find(roots[0] / "sales.py", project_id))
    assert purged.is_complete and purged.before["term_frequency"]
    assert await check(app, project_id) == len(SHARED) + 1
    purged = await app.data.purge(await app.data.find(roots[0], project_id))
    assert purged.is_complete
    assert await check(app, project_id) == len(SHARED) + 1


async def test_counts_of_a_restored_project_stay_right(
    app: App, roots: list[Path], project_id: str
) -> None:
    backup, other = io.BytesIO(), f"{project_id}-other"
    await app.data.backup(backup, project_id)
    backup.seek(0)
    try:
        await app.data.restore(backup, "backup", other)
        assert await check(app, other) == len(SHARED) + len(OWN)
        (roots[0] / "vendor/part_3.py").write_text("def renewed(invoice):\n    return invoice\n")
        await app.index(roots[0], other)
        assert await check(app, other) == len(SHARED) + len(OWN) + 1
        await app.remove(roots[1], other)
        assert await check(app, other) == len(SHARED) + 1
    finally:
        with suppress(ProjectNotFound):
            await app.drop_project(other)


async def test_nothing_is_left_of_counts_once_swept(
    app: App, roots: list[Path], project_id: str
) -> None:
    for root in roots:
        await app.remove(root, project_id)
    async with app.enter(project_id) as here:
        await here.tx.lock(store.WRITE_LOCK)
        await store.sweep(here.tx, 0)
        assert await here.tx.fetch_all("SELECT FROM term_frequency") == []
