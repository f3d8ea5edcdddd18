"""A watcher: the index follows the files, whatever happens to them, and nobody calls."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.git import git
from tests.waiting import until

from codebase_mcp.app.app import App
from codebase_mcp.app.freshness.watcher import IndexUpdate, Watcher
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import Project, find_project
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.read import SourceText, read_source
from codebase_mcp.source.walk import list_files

pytestmark = pytest.mark.anyio

STORED = """
SELECT f.path, b.hash
FROM file AS f
JOIN blob AS b ON b.id = f.blob_id
JOIN snapshot AS s ON s.id = f.snapshot_id
WHERE s.active
"""


def on_disk(root: Path) -> dict[str, bytes]:
    """What a fresh index would hold: the hash of each file's text."""
    contents = {file.path: read_source(file) for file in list_files(root).files}
    return {p: c.blob_hash for p, c in contents.items() if isinstance(c, SourceText)}


@dataclass
class Watch:
    """A repository that is watched, and what was said of it."""

    app: App
    project: Project
    root: Path
    said: list[IndexUpdate] = field(default_factory=list)
    taken: list[Path] = field(default_factory=list)

    async def stored(self) -> dict[str, bytes]:
        async with self.app.enter(self.project.project_id, readonly=True) as here:
            return {row[0]: bytes(row[1]) for row in await here.tx.fetch_all(STORED)}

    async def is_true(self) -> bool:
        return await self.stored() == on_disk(self.root)

    async def is_true_and_known(self) -> bool:
        """The index equals the tree, and whoever searches can rely on that."""
        [tree] = await self.app.trees.load(self.project)
        return tree.is_watched and await self.is_true()

    async def has_said(self) -> bool:
        return bool(self.said) and await self.is_true_and_known()

    async def catch_up(self) -> list[IndexUpdate]:
        """Wait until an update made the index equal to the tree; the updates which that took."""
        await until(self.has_said)
        said = list(self.said)
        self.said.clear()
        return said

    @asynccontextmanager
    async def running(self, *, watch_events: bool = True) -> AsyncIterator[Watch]:
        async def projects() -> list[Project]:
            return [self.project]

        watcher = Watcher(
            self.app.database,
            self.app.trees,
            projects,
            on_update=self.said.append,
            on_taken_elsewhere=self.taken.append,
            watch_events=watch_events,
        )
        task = asyncio.create_task(watcher.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture
async def unwatched(
    app: App, project_id: str, database: Database, make_repo: Callable[..., Path]
) -> Watch:
    root = make_repo()
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    await app.index(root, project_id)
    return Watch(app, await find_project(database, project_id), root)


@pytest.fixture
async def watch(unwatched: Watch) -> AsyncIterator[Watch]:
    async with unwatched.running():
        await unwatched.catch_up()
        yield unwatched


async def test_changes_made_before_watching_are_indexed_first(unwatched: Watch) -> None:
    (unwatched.root / "src/new.py").write_text("def cancel_invoice():\n    pass\n")
    (unwatched.root / "lib/retry.ts").unlink()

    async with unwatched.running():
        await unwatched.catch_up()


async def test_edits_new_files_and_deletions_are_followed(watch: Watch) -> None:
    (watch.root / "src/auth.py").write_text("def authenticate(user, token):\n    return token\n")
    [update] = await watch.catch_up()
    assert update.run is not None
    assert update.run.changed == ("src/auth.py",)

    (watch.root / "deep/er").mkdir(parents=True)
    (watch.root / "deep/er/new.py").write_text("def cancel_invoice():\n    pass\n")
    await watch.catch_up()
    (watch.root / "deep/er/new.py").write_text("def cancel_order():\n    pass\n")
    await watch.catch_up()

    shutil.rmtree(watch.root / "deep")
    await watch.catch_up()
    report = await watch.app.search("authenticate", watch.project.project_id)
    assert report.index.state == "ready"


async def test_an_editors_atomic_save_is_one_update_of_one_file(watch: Watch) -> None:
    target = watch.root / "src/auth.py"
    (watch.root / "src/.auth.py.swp").write_bytes(b"b0VIM 9.0\0\0")
    (watch.root / "src/4913").write_text("")
    (watch.root / "src/4913").unlink()
    target.rename(watch.root / "src/auth.py~")
    written = watch.root / "src/.auth.py.tmp"
    written.write_text("def authenticate(user, token):\n    return token\n")
    written.rename(target)
    (watch.root / "src/auth.py~").unlink()
    (watch.root / "src/.auth.py.swp").unlink()

    updates = await watch.catch_up()

    changed = [path for one in updates if one.run for path in (*one.run.changed, *one.run.added)]
    assert changed[-1:] == ["src/auth.py"]
    assert len(updates) <= 2


async def test_saving_the_same_text_again_is_no_update(watch: Watch) -> None:
    text = (watch.root / "src/auth.py").read_text()
    (watch.root / "src/auth.py").write_text(text)
    (watch.root / "last.py").write_text("def last():\n    pass\n")

    updates = await watch.catch_up()

    assert [one.run.files_indexed for one in updates if one.run] == [1]


async def test_a_directory_that_is_renamed_moves_with_all_its_files(watch: Watch) -> None:
    (watch.root / "src").rename(watch.root / "lib/source")
    await watch.catch_up()
    (watch.root / "lib/source/parsers/json_parser.py").write_text("def parse_again():\n    pass\n")
    await watch.catch_up()
    # The same name again, which is another directory.
    (watch.root / "src").mkdir()
    (watch.root / "src/auth.py").write_text("def authenticate_again():\n    pass\n")
    await watch.catch_up()
    (watch.root / "src/auth.py").write_text("def authenticate_anew():\n    pass\n")
    await watch.catch_up()


async def test_a_directory_that_is_replaced_is_followed_on(watch: Watch) -> None:
    for number in range(3):
        shutil.rmtree(watch.root / "src/parsers")
        (watch.root / "src/parsers").mkdir()
        (watch.root / f"src/parsers/p{number}.py").write_text(f"def parse_{number}():\n    pass\n")
        await watch.catch_up()
        (watch.root / f"src/parsers/p{number}.py").write_text(f"def read_{number}():\n    pass\n")
        await watch.catch_up()


async def test_a_checkout_that_changes_1000_files_takes_few_updates(watch: Watch) -> None:
    git(watch.root, "checkout", "--quiet", "-b", "many")
    for number in range(1000):
        file = watch.root / f"many/d{number % 20}/m{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def number_{number}():\n    return {number}\n")
    git(watch.root, "add", "--all")
    git(watch.root, "commit", "--quiet", "--message", "many")
    await watch.catch_up()

    git(watch.root, "checkout", "--quiet", "main")
    updates = await watch.catch_up()
    assert len(updates) <= 4
    assert sum(one.run.files_removed for one in updates if one.run) == 1000
    git(watch.root, "checkout", "--quiet", "many")
    updates = await watch.catch_up()
    assert len(updates) <= 4
    assert sum(one.run.chunks_created for one in updates if one.run) == 0  # all still stored


async def test_a_rebase_and_a_stash_are_followed(watch: Watch) -> None:
    git(watch.root, "checkout", "--quiet", "-b", "feature")
    for number in range(5):
        (watch.root / f"src/f{number}.py").write_text(f"def feature_{number}():\n    pass\n")
        git(watch.root, "add", "--all")
        git(watch.root, "commit", "--quiet", "--message", f"feature {number}")
    git(watch.root, "checkout", "--quiet", "main")
    (watch.root / "src/auth.py").write_text("def authenticate(user, token):\n    return token\n")
    git(watch.root, "commit", "--quiet", "--all", "--message", "main goes on")
    git(watch.root, "checkout", "--quiet", "feature")
    git(watch.root, "rebase", "--quiet", "main")
    await watch.catch_up()

    (watch.root / "src/f1.py").write_text("def unfinished():\n    pass\n")
    await watch.catch_up()
    git(watch.root, "stash", "--quiet")
    await watch.catch_up()
    git(watch.root, "stash", "pop", "--quiet")
    await watch.catch_up()


async def test_rules_that_change_are_followed(watch: Watch) -> None:
    (watch.root / "drafts").mkdir()
    (watch.root / "drafts/a.py").write_text("a = 1\n")
    await watch.catch_up()
    (watch.root / ".gitignore").write_text("drafts/\n")
    await watch.catch_up()
    assert "build/generated.py" in await watch.stored()
    assert "drafts/a.py" not in await watch.stored()

    # What was let in is listened to as well; what git tracks counts, whatever the rules say.
    (watch.root / "build/generated.py").write_text("def generated_again():\n    pass\n")
    await watch.catch_up()
    git(watch.root, "add", "--force", "drafts/a.py")
    await watch.catch_up()
    assert "drafts/a.py" in await watch.stored()
    (watch.root / "drafts/a.py").write_text("a = 2\n")
    await watch.catch_up()


async def test_nothing_is_lost_that_happens_while_an_update_runs(
    watch: Watch, database: Database
) -> None:
    [tree] = await watch.app.trees.load(watch.project)
    held = database.session_locks(watch.project, [index_lock(tree.repository_id)])
    async with held:
        (watch.root / "src/auth.py").write_text("one = 1\n")

        async def has_begun() -> bool:
            async with watch.app.enter(watch.project.project_id, readonly=True) as here:
                waiting = (
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                )
                [row] = await here.tx.fetch_all(waiting)
            return bool(row[0])

        await until(has_begun)
        (watch.root / "src/auth.py").write_text("two = 2\n")
        (watch.root / "src/new.py").write_text("three = 3\n")
    await watch.catch_up()


async def test_one_of_two_watchers_follows_until_it_ends(
    unwatched: Watch, settings: Settings
) -> None:
    async with await App.open(settings) as other_app:
        other = Watch(other_app, unwatched.project, unwatched.root)
        async with unwatched.running():
            await unwatched.catch_up()
            async with other.running():

                async def is_refused() -> bool:
                    return other.taken == [unwatched.root]

                await until(is_refused)
                (unwatched.root / "src/auth.py").write_text("one = 1\n")
                assert len(await unwatched.catch_up()) == 1
                assert other.said == []
        async with other.running():
            (unwatched.root / "src/auth.py").write_text("two = 2\n")
            await other.catch_up()


async def test_a_root_that_vanishes_is_waited_for(watch: Watch) -> None:
    before = await watch.stored()
    watch.root.rename(watch.root.with_name("away"))
    (watch.root.parent / "away/src/new.py").write_text("new = 1\n")
    (watch.root.parent / "away/src/newer.py").write_text("newer = 1\n")
    assert await watch.stored() == before

    watch.root.with_name("away").rename(watch.root)

    await watch.catch_up()
    (watch.root / "src/newest.py").write_text("newest = 1\n")
    await watch.catch_up()


async def test_a_repository_that_comes_later_is_followed_and_a_removed_one_not(
    watch: Watch, make_repo: Callable[..., Path]
) -> None:
    other = make_repo({"b.py": "b = 1\n"}, "other")
    await watch.app.index(other, watch.project.project_id)
    await watch.app.remove(watch.root, watch.project.project_id)
    watch.root = other
    await until(watch.is_true_and_known)
    (other / "b.py").write_text("b = 2\n")
    await watch.catch_up()


async def test_a_tree_is_polled_if_it_cannot_be_watched(unwatched: Watch) -> None:
    async with unwatched.running(watch_events=False):
        await unwatched.catch_up()
        (unwatched.root / "deep/er").mkdir(parents=True)
        (unwatched.root / "deep/er/new.py").write_text("new = 1\n")
        (unwatched.root / "src/auth.py").unlink()
        await unwatched.catch_up()


@contextmanager
def shell_watching(
    root: Path, project: Project, settings: Settings
) -> Iterator[subprocess.Popen[str]]:
    assert project.project_id is not None
    data = ("--data-dir", str(settings.data_dir), "--project", project.project_id)
    command = [sys.executable, "-m", "codebase_mcp.cli.main", "watch", str(root), *data, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_when_a_watcher_is_killed_another_takes_over(
    unwatched: Watch, settings: Settings
) -> None:
    with shell_watching(unwatched.root, unwatched.project, settings) as process:
        await until(unwatched.is_true_and_known)
        async with unwatched.running():
            (unwatched.root / "src/auth.py").write_text("one = 1\n")
            await until(unwatched.is_true_and_known)
            assert unwatched.said == []

            os.kill(process.pid, signal.SIGKILL)
            (unwatched.root / "src/auth.py").write_text("two = 2\n")

            await unwatched.catch_up()
            assert [path.name for path in unwatched.taken] == ["repo"]


async def test_the_watch_command_indexes_watches_reports_and_ends(
    app: App,
    project_id: str,
    database: Database,
    settings: Settings,
    make_repo: Callable[..., Path],
) -> None:
    root = make_repo()
    project = await find_project_after_index(app, database, project_id, make_repo)
    with shell_watching(root, project, settings) as process:
        assert process.stdout is not None
        first = json.loads(await asyncio.to_thread(process.stdout.readline))
        assert (first["root"], first["status"]) == (str(root), "success")
        (root / "src/auth.py").write_text("one = 1\n")
        second = json.loads(await asyncio.to_thread(process.stdout.readline))
        assert (second["files_indexed"], second["files_removed"]) == (1, 0)

        process.send_signal(signal.SIGINT)

        assert await asyncio.to_thread(process.wait) == 0


async def find_project_after_index(
    app: App, database: Database, project_id: str, make_repo: Callable[..., Path]
) -> Project:
    """The project, which holds another repository already."""
    await app.index(make_repo({"b.py": "b = 1\n"}, "other"), project_id)
    return await find_project(database, project_id)


async def test_a_server_watches_before_the_first_call(unwatched: Watch, settings: Settings) -> None:
    data = ("--data-dir", str(settings.data_dir), "--port", "0", "--transport", "http")
    command = [sys.executable, "-m", "codebase_mcp.cli.main", "serve", "--watch", *data]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            await until(unwatched.is_true_and_known)
            (unwatched.root / "src/auth.py").write_text("one = 1\n")
            await until(unwatched.is_true_and_known)
            report = await unwatched.app.search("one", unwatched.project.project_id)
            assert report.index.state == "ready"

            process.send_signal(signal.SIGTERM)

            assert await asyncio.to_thread(process.wait) == 0
        finally:
            process.kill()


async def test_watching_resumes_after_invalid_settings_are_fixed(watch: Watch) -> None:
    context = watch.root / ".mcp-context.toml"
    context.write_text("max_file_bytes = 'many'\n")

    async def has_failed() -> bool:
        return any(one.error for one in watch.said)

    await until(has_failed)
    (watch.root / "src/auth.py").write_text("one = 1\n")
    context.write_text("max_file_bytes = 100000\n")
    await watch.catch_up()
