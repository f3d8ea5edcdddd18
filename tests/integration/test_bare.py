"""Bare repositories and clones without files: indexed and searched straight from git's objects."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git import git

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.app.background.lifespan import watching
from codebase_mcp.app.forecast import forecast_run
from codebase_mcp.app.freshness import trees
from codebase_mcp.cli.watch import watch
from codebase_mcp.errors import IndexingFailed, InvalidInput
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


@pytest.fixture
def work(make_repo: MakeRepo) -> Path:
    """A work tree with a commit and a tag."""
    root = make_repo()
    (root / "zebra.py").write_text("def count_stripes(zebra):\n    return zebra.stripes\n")
    git(root, "init", "-q", "-b", "main")
    commit_all(root)
    git(root, "tag", "v1")
    return root


def commit_all(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a change")


@pytest.fixture
def bare(work: Path, tmp_path: Path) -> Path:
    """A bare repository to which the work tree pushes."""
    git(tmp_path, "clone", "-q", "--bare", str(work), "served.git")
    git(work, "remote", "add", "origin", str(tmp_path / "served.git"))
    return tmp_path / "served.git"


@pytest.fixture(autouse=True)
def checks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search looks at HEAD, not only one each second."""
    monkeypatch.setattr(trees, "FRESH_S", 0.0)


async def found(app: App, project_id: str, query: str, ref: str | None = None) -> list[str]:
    """The paths of the hits."""
    report = await app.search(query, project_id, Request(limit=20), ref=ref)
    return [hit.file_path for hit in report.answer.hits]


async def kinds_of_files(app: App, project_id: str) -> dict[str, str]:
    """The files in the index, and their kinds."""
    async with app.enter(project_id, readonly=True) as here:
        return dict(await here.tx.fetch_all("SELECT path, kind FROM file"))


async def test_a_bare_repository_is_indexed_as_a_checkout_of_its_head(
    app: App, work: Path, bare: Path, project_id: str
) -> None:
    checkout = f"{project_id}-checkout"
    expected = (await app.index(work, checkout)).run
    run = (await app.index(bare, project_id)).run
    try:
        assert run.status == "success"
        assert run.files_indexed == expected.files_indexed > 3
        for query in ("count the stripes", "where is a password checked", "parse_config"):
            hits, theirs = [
                (await app.search(query, p)).answer.hits for p in (project_id, checkout)
            ]
            assert [(h.file_path, h.start_line, h.content) for h in hits] == [
                (h.file_path, h.start_line, h.content) for h in theirs
            ]
            assert hits[0].view == "worktree"
        assert (await app.search("stripes", project_id)).index.state == "ready"
    finally:
        await app.drop_project(checkout)


async def test_what_is_pushed_is_found_by_the_next_search_and_only_that_is_read(
    app: App, work: Path, bare: Path, project_id: str
) -> None:
    await app.index(bare, project_id)
    assert (await found(app, project_id, "count_stripes"))[0] == "zebra.py"
    (work / "zebra.py").unlink()
    (work / "leopard.py").write_text("def count_spots(leopard):\n    return leopard.spots\n")
    commit_all(work)
    git(work, "push", "-q", "origin", "main")
    assert (await found(app, project_id, "count_spots"))[0] == "leopard.py"
    assert "zebra.py" not in await found(app, project_id, "count_stripes")
    run = (await app.index(bare, project_id)).run
    assert (run.files_read, run.files_indexed, run.files_removed) == (0, 0, 0)
    (work / "leopard.py").write_text("def count_paws(leopard):\n    return 4\n")
    commit_all(work)
    git(work, "push", "-q", "origin", "main")
    run = (await app.index(bare, project_id)).run
    assert (run.files_read, run.changed) == (1, ("leopard.py",))


async def test_another_process_finds_what_was_pushed_before_it_began(
    app: App, settings: Settings, work: Path, bare: Path, project_id: str
) -> None:
    await app.index(bare, project_id)
    (work / "src/auth.py").write_text("def moved_elsewhere():\n    pass\n")
    commit_all(work)
    git(work, "push", "-q", "origin", "main")
    async with await App.open(settings, only_once=True) as other:
        report = await other.search("moved_elsewhere", project_id)
    assert report.answer.hits[0].file_path == "src/auth.py"
    assert report.index.state == "ready"


async def test_its_tags_and_branches_can_be_searched(
    app: App, work: Path, bare: Path, project_id: str
) -> None:
    (work / "zebra.py").write_text("def count_spots(leopard):\n    return leopard.spots\n")
    commit_all(work)
    git(work, "push", "-q", "origin", "main", "main:feature")
    await app.index(bare, project_id)
    hits = (await app.search("count_stripes", project_id, ref="v1")).answer.hits
    assert hits[0].content.startswith("def count_stripes")
    assert (await found(app, project_id, "count_spots", "feature"))[0] == "zebra.py"
    report = await app.index(bare, project_id, history_depth=10)
    assert report.commits == 2


async def test_rules_of_the_commit_decide_what_is_indexed(
    app: App, work: Path, bare: Path, project_id: str
) -> None:
    (work / ".mcpignore").write_text("zebra.py\n")
    (work / ".mcp-context.toml").write_text('ignore_patterns = ["src/"]\n')
    commit_all(work)
    git(work, "push", "-q", "origin", "main")
    report = await app.index(bare, project_id)
    assert report.repository.context == str(bare / ".mcp-context.toml")
    kinds = await kinds_of_files(app, project_id)
    assert kinds["src2/other.py"] == "code"
    assert not [path for path in kinds if path == "zebra.py" or path.startswith("src/")]
    (work / ".mcp-context.toml").write_text('ignore_patterns = ["none/"]\n')
    (work / ".gitattributes").write_text("src2/* linguist-generated\n")
    commit_all(work)
    git(work, "push", "-q", "origin", "main")
    assert (await found(app, project_id, "authenticate"))[0] == "src/auth.py"
    assert (await kinds_of_files(app, project_id))["src2/other.py"] == "generated"


async def test_a_repository_that_does_not_name_a_commit_is_refused_with_a_hint(
    app: App, work: Path, tmp_path: Path, project_id: str
) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "trunk", "empty.git")
    with pytest.raises(IndexingFailed, match="is a branch without a commit") as caught:
        await app.index(tmp_path / "empty.git", project_id)
    assert caught.value.hint == "Push a commit first."
    git(work, "push", "-q", str(tmp_path / "empty.git"), "main")
    with pytest.raises(IndexingFailed) as caught:
        await app.index(tmp_path / "empty.git", project_id)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("git symbolic-ref HEAD refs/heads/main")


async def test_an_index_is_kept_while_head_names_no_commit(
    app: App, work: Path, bare: Path, project_id: str
) -> None:
    await app.index(bare, project_id)
    git(bare, "symbolic-ref", "HEAD", "refs/heads/none")
    assert "zebra.py" in await found(app, project_id, "count_stripes")


async def test_nothing_that_a_hostile_repository_brings_is_run(
    app: App, work: Path, bare: Path, project_id: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho run >> '{trace}'\ncat\n")
    program.chmod(0o755)
    (work / ".gitattributes").write_text("* filter=theirs diff=theirs\n")
    commit_all(work)
    git(work, "push", "-q", "origin", "main")
    for hook in ("post-index-change", "reference-transaction", "pre-auto-gc", "post-checkout"):
        (bare / "hooks" / hook).write_bytes(program.read_bytes())
        (bare / "hooks" / hook).chmod(0o755)
    with (bare / "config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {program}\n\tpager = {program}\n\tworktree = /etc\n"
            f"\tsshCommand = {program}\n\talternateRefsCommand = {program}\n"
            f'[filter "theirs"]\n\tsmudge = {program}\n\tclean = {program}\n'
            f'[diff "theirs"]\n\ttextconv = {program}\n\tcommand = {program}\n'
        )
    await app.index(bare, project_id, history_depth=5)
    assert "zebra.py" in await found(app, project_id, "count_stripes")
    await found(app, project_id, "count_stripes", "v1")
    assert not trace.exists()


async def test_a_forecast_says_what_a_run_would_do(
    app: App, work: Path, bare: Path, project_id: str
) -> None:
    new = (await forecast_run(app, bare, project_id)).forecast
    assert new.new == new.files > 3
    assert new.chunks > 3
    await app.index(bare, project_id)
    (work / "zebra.py").write_text("def count_spots(leopard):\n    return leopard.spots\n")
    commit_all(work)
    git(work, "push", "-q", "origin", "main")
    later = (await forecast_run(app, bare, project_id)).forecast
    assert (later.new, later.changed, later.unchanged) == (0, 1, new.files - 1)


async def test_named_paths_of_a_bare_repository_mean_its_whole_commit(
    app: App, work: Path, bare: Path, project_id: str
) -> None:
    await app.index(bare, project_id)
    (work / "zebra.py").write_text("def count_spots(leopard):\n    return leopard.spots\n")
    (work / "config").write_text("a = 1\n")  # as a file of git's own is named
    commit_all(work)
    git(work, "push", "-q", "origin", "main")
    run = (await app.update(bare, ["config"], project_id)).run
    assert (run.files_indexed, run.changed) == (2, ("zebra.py",))


async def test_a_bare_repository_needs_no_watcher(
    bare: Path, settings: Settings, project_id: str
) -> None:
    options = Namespace(paths=[str(bare)], project=project_id, json=True, poll=False)
    with pytest.raises(InvalidInput, match="has no files to watch") as caught:
        await watch(options, settings)
    assert caught.value.hint == "It needs no watcher: each search follows its HEAD."


async def test_a_server_that_watches_leaves_it_to_each_search(
    app: App, make_repo: MakeRepo, work: Path, bare: Path, project_id: str
) -> None:
    later = make_repo(name="zz")  # watched after the bare one would be
    for root in (bare, later):
        await app.index(root, project_id)
    project, _ = await app.resolver.resolve(project_id, ANONYMOUS)
    watched: list[Path] = []
    async with asyncio.timeout(60), watching(app):
        while not watched:
            await asyncio.sleep(0.05)
            watched = [t.root for t in await app.trees.load(project) if t.is_watched]
        assert watched == [later]
        (work / "zebra.py").write_text("def count_spots(leopard):\n    return leopard.spots\n")
        commit_all(work)
        git(work, "push", "-q", "origin", "main")
        assert (await found(app, project_id, "count_spots"))[0] == "zebra.py"


async def test_an_erased_file_of_the_commit_is_read_again(
    app: App, bare: Path, project_id: str
) -> None:
    await app.index(bare, project_id)
    target = await app.data.find(bare / "zebra.py", project_id)
    purged = await app.data.purge(target)
    assert await app.data.is_read_again(target, purged)
    assert not await app.data.still_on_disk(target, purged)
