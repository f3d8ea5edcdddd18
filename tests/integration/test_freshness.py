"""Without a watcher: a search looks first, and shows no line that is not there."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.git import git
from tests.waiting import until

from codebase_mcp.access.identity import Identity
from codebase_mcp.app.app import App, SearchReport
from codebase_mcp.app.freshness import trees
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import find_project
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.index.runs import load_runs, mark_cancelled
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.walk import list_files

pytestmark = pytest.mark.anyio

LIMIT_S = 60.0

Search = Callable[[str], "asyncio.Future[SearchReport]"]


def shown(report: SearchReport) -> dict[str, str]:
    """The text of each hit, by path."""
    return {hit.file_path: hit.content for hit in report.answer.hits}


async def eventually(
    app: App, project_id: str, query: str, condition: Callable[[SearchReport], bool]
) -> SearchReport:
    """The first answer of which this holds."""

    async def fitting() -> SearchReport | None:
        report = await app.search(query, project_id)
        return report if condition(report) else None

    report = await until(fitting, pause_s=0.05)
    assert report is not None
    return report


@asynccontextmanager
async def looking_for(milliseconds: int, settings: Settings) -> AsyncIterator[App]:
    said = {"CODEBASE_MCP_DATA_DIR": str(settings.data_dir)}
    said["CODEBASE_MCP_CHECK_MS"] = str(milliseconds)
    async with await App.open(Settings.load(said)) as app:
        yield app


async def break_off(app: App, root: Path, project_id: str, operation_id: UUID) -> None:
    """A run that ends after its first batch."""

    def follow(progress: RunProgress) -> None:
        if progress.done:
            running.cancel()

    running = asyncio.ensure_future(
        app.index(root, project_id, operation_id=operation_id, progress=follow)
    )
    with suppress(asyncio.CancelledError):
        await running


@pytest.fixture
async def root(app: App, project_id: str, make_repo: Callable[..., Path]) -> Path:
    root = make_repo()
    await app.index(root, project_id)
    return root


async def test_a_new_file_is_found(app: App, project_id: str, root: Path) -> None:
    (root / "src/invoices.py").write_text("def cancel_invoice(number):\n    return number\n")

    report = await app.search("cancel invoice", project_id)

    assert "src/invoices.py" in shown(report)
    assert (report.index.state, report.index.files_pending) == ("ready", 0)
    assert report.index.checked_at is not None


async def test_projects_with_different_numbers_of_repositories_are_checked_side_by_side(
    app: App, database: Database, project_id: str, root: Path, make_repo: Callable[..., Path]
) -> None:
    more = f"{project_id}-more"
    for name in ("second", "third"):
        await app.index(make_repo(name=name), more)
    try:
        both = [await find_project(database, project) for project in (project_id, more)]
        for _ in range(20):
            await asyncio.gather(*(app.freshness.follow(project) for project in both * 10))
    finally:
        await app.drop_project(more)


async def test_a_second_later_another_new_file_is_found(
    app: App, project_id: str, root: Path
) -> None:
    await app.search("authenticate", project_id)
    (root / "new").mkdir()
    (root / "new/invoices.py").write_text("def cancel_invoice(number):\n    return number\n")

    await eventually(app, project_id, "cancel invoice", lambda r: "new/invoices.py" in shown(r))


async def test_where_comparing_takes_long_the_callers_tree_and_what_git_changed_come_first(
    app: App, project_id: str, make_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, large = make_repo(name="mine"), make_repo({"a.py": "def heron():\n    pass\n"}, "large")
    git(large, "init")
    git(large, "add", ".")
    git(large, "commit", "-m", "first")
    for tree in (mine, large):
        await app.index(tree, project_id)
    here = Identity(directory=mine)
    monkeypatch.setattr(trees, "FRESH_S", 0.0)
    monkeypatch.setattr(
        trees, "_timed", lambda scan: (scan(), 1e6 * ("large" in scan.__self__.location(b"")))
    )
    for _ in range(3):  # the first compares with the index, the others tell what that takes
        assert (await app.search("heron", project_id, identity=here)).index.state == "ready"
    (mine / "stork.py").write_text("def stork():\n    return 1\n")
    (large / "crane.py").write_text("def crane():\n    return 1\n")

    report = await app.search("stork crane", project_id, identity=here)
    assert "stork.py" in shown(report)
    assert "crane.py" not in shown(report)
    assert report.index.state == "unchecked"

    git(large, "add", ".")
    report = await app.search("stork crane", project_id, identity=here)
    assert {"stork.py", "crane.py"} <= shown(report).keys()
    assert report.index.state == "ready"


async def test_lines_that_were_edited_away_are_never_shown(
    app: App, project_id: str, root: Path
) -> None:
    assert "src/auth.py" in shown(await app.search("authenticate user", project_id))
    (root / "src/auth.py").write_text("def authenticate(user, token):\n    return token\n")

    # Less than a second after the last look: the hits themselves are held against their files.
    report = await app.search("authenticate user", project_id)

    assert shown(report)["src/auth.py"] == "def authenticate(user, token):\n    return token\n"


async def test_a_file_that_was_deleted_is_never_shown(
    app: App, project_id: str, root: Path
) -> None:
    await app.search("retry backoff", project_id)
    (root / "lib/retry.ts").unlink()

    assert "lib/retry.ts" not in shown(await app.search("retry backoff", project_id))


async def test_a_file_that_became_a_link_is_never_shown(
    app: App, project_id: str, root: Path
) -> None:
    await app.search("retry backoff", project_id)
    (root / "lib/retry.ts").rename(root.parent / "elsewhere.ts")
    (root / "lib/retry.ts").symlink_to(root.parent / "elsewhere.ts")

    assert "lib/retry.ts" not in shown(await app.search("retry backoff", project_id))


async def test_a_directory_that_was_renamed_is_found_under_its_new_name(
    app: App, project_id: str, root: Path
) -> None:
    await app.search("parse json", project_id)
    (root / "src/parsers").rename(root / "src/readers")

    report = await eventually(
        app, project_id, "parse json", lambda r: "src/readers/json_parser.py" in shown(r)
    )

    assert not any(path.startswith("src/parsers/") for path in shown(report))


async def test_a_file_that_became_a_directory_is_forgotten_with_what_came_into_it(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = make_repo({"src": "def authenticate(): ...\n", "other.py": "x = 1\n"})
    await app.index(root, project_id)
    (root / "src").unlink()
    (root / "src").mkdir()
    (root / "src/new.py").write_text("def authenticate(user): ...\n")

    run = (await app.update(root, ["src/new.py"], project_id)).run

    assert (run.added, run.files_removed) == (("src/new.py",), 1)
    assert "src" not in shown(await app.search("authenticate", project_id))


async def test_a_rule_that_was_edited_leaves_out_and_lets_in(
    app: App, project_id: str, root: Path
) -> None:
    await app.search("authenticate", project_id)
    (root / ".gitignore").write_text("src2/\n*.log\n")

    await eventually(
        app, project_id, "authenticate generated", lambda r: "build/generated.py" in shown(r)
    )
    assert "src2/other.py" not in shown(await app.search("other parser", project_id))


async def test_a_file_that_was_only_touched_is_no_change(
    app: App, project_id: str, root: Path
) -> None:
    before = await app.search("authenticate", project_id)
    (root / "src/auth.py").touch()

    after = await eventually(
        app,
        project_id,
        "authenticate",
        lambda r: r.index.checked_at != before.index.checked_at,
    )

    assert after.index.state == "ready"
    assert after.index.indexed_at == before.index.indexed_at


async def test_many_files_indexed_the_moment_they_were_written_are_ready(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    files = {f"pkg/m{n}.py": f"def number_{n}():\n    return {n}\n" for n in range(400)}
    await app.index(make_repo(files), project_id)

    index = (await app.search("number 7", project_id)).index

    assert (index.state, index.files_pending) == ("ready", 0)


async def test_a_file_that_cannot_be_indexed_is_not_taken_for_new(
    app: App, project_id: str, root: Path
) -> None:
    (root / "blob.dat2").write_bytes(b"\0\1\2" * 100)
    (root / "broken.py").write_bytes(b"\xff\x01" * 50)
    await app.index(root, project_id)

    index = (await app.search("authenticate", project_id)).index

    assert (index.state, index.files_pending, index.files_failed) == ("ready", 0, 1)


async def test_what_takes_longer_than_the_budget_is_said_and_goes_on(
    app: App, settings: Settings, project_id: str, root: Path
) -> None:
    for number in range(300):
        (root / f"src/new{number}.py").write_text(f"def cancel_invoice_{number}():\n    pass\n")
    (root / "src/auth.py").unlink()
    async with looking_for(1, settings) as hurried:
        report = await hurried.search("authenticate", project_id)

        assert report.index.state in ("unchecked", "stale", "indexing")
        assert "src/auth.py" not in shown(report)
        await eventually(hurried, project_id, "invoice", lambda r: r.index.state == "ready")
    [facts] = [one for one in await app.projects() if one.project.project_id == project_id]
    assert facts.repositories[0].files == len(list_files(root).files)


async def test_changes_that_wait_for_a_run_are_counted_and_not_shown(
    app: App, database: Database, project_id: str, root: Path, settings: Settings
) -> None:
    project = await find_project(database, project_id)
    repository_id = (await app.search("x", project_id)).answer.snapshots[0].repository_id
    async with looking_for(2_000, settings) as hurried:
        await hurried.search("authenticate", project_id)
        async with database.session_locks(project, [index_lock(repository_id)]):
            (root / "src/auth.py").write_text("nothing = None\n")
            report = await hurried.search("authenticate", project_id)

            assert "src/auth.py" not in shown(report)
            assert report.index.files_pending == 1
            assert report.index.state in ("stale", "indexing")
        await eventually(hurried, project_id, "authenticate", lambda r: r.index.state == "ready")


async def test_a_run_in_another_process_is_said(
    app: App, database: Database, project_id: str, root: Path
) -> None:
    project = await find_project(database, project_id)
    repository_id = (await app.search("x", project_id)).answer.snapshots[0].repository_id

    async with database.session_locks(project, [index_lock(repository_id)]):
        await eventually(app, project_id, "authenticate", lambda r: r.index.state == "indexing")
    report = await app.search("authenticate", project_id)
    assert report.index.state == "ready"


async def test_a_run_that_broke_off_is_completed(
    app: App, database: Database, project_id: str, root: Path
) -> None:
    project = await find_project(database, project_id)
    async with database.transaction(project) as tx:
        await tx.execute("DELETE FROM file WHERE path = 'src/auth.py'")
        await tx.execute("UPDATE snapshot SET files_pending = 1, indexed_at = NULL")

    report = await app.search("authenticate user", project_id)

    assert "src/auth.py" in shown(report)
    assert report.index.state == "ready"


async def test_a_look_at_everything_that_finds_nothing_leaves_the_last_run_on_record(
    app: App, project_id: str, root: Path
) -> None:
    asked = await app.index(root, project_id)

    await app.trees.update_index(asked.project, root, None)
    async with app.enter(project_id) as here:
        [kept] = await load_runs(here.tx)
    (root / "src/auth.py").write_text("def authenticate(): ...\n")
    await app.trees.update_index(asked.project, root, None)
    async with app.enter(project_id) as here:
        [newer] = await load_runs(here.tx)

    assert kept.operation_id == asked.run.operation_id
    assert (newer.operation_id != kept.operation_id, newer.files_indexed) == (True, 1)


async def test_a_run_that_was_cancelled_on_purpose_is_not_taken_up_by_a_search(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = make_repo({f"m{n}.py": f"def function_{n}(): pass\n" for n in range(1_200)}, "large")
    operation_id = uuid4()
    await break_off(app, root, project_id, operation_id)
    async with app.enter(project_id) as here:
        await mark_cancelled(here.tx, operation_id)

    report = await app.search("function", project_id)

    assert report.index.state == "incomplete"
    assert report.index.files_pending > 0
    assert (await app.index(root, project_id)).run.status == "success"
    assert (await app.search("function", project_id)).index.state == "ready"


async def test_a_program_with_other_settings_leaves_an_index_as_it_is(
    app: App, project_id: str, root: Path, settings: Settings
) -> None:
    said = {
        "CODEBASE_MCP_DATA_DIR": str(settings.data_dir),
        "CODEBASE_MCP_IGNORE": "src/parsers",
        "CODEBASE_MCP_CHECK_MS": "30000",
    }
    async with await App.open(Settings.load(said)) as other:
        report = await other.search("parse json file", project_id)

    assert "src/parsers/json_parser.py" in shown(report)
    assert report.index.state == "unchecked"


async def test_a_repository_that_is_elsewhere_is_searched_unchecked(
    app: App, project_id: str, root: Path
) -> None:
    root.rename(root.with_name("moved"))

    report = await app.search("authenticate", project_id)

    assert "src/auth.py" in shown(report)
    assert (report.index.state, report.index.checked_at) == ("unchecked", None)
    root.with_name("moved").rename(root)
    await eventually(app, project_id, "authenticate", lambda r: r.index.state == "ready")


async def test_with_a_budget_of_0_nothing_is_looked_at(
    app: App, settings: Settings, project_id: str, root: Path
) -> None:
    (root / "src/auth.py").unlink()

    async with looking_for(0, settings) as blind:
        report = await blind.search("authenticate user", project_id)

    assert "src/auth.py" in shown(report)
    assert report.index.state == "unchecked"


async def test_settings_of_a_repository_that_are_wrong_do_not_stop_a_search(
    app: App, project_id: str, root: Path
) -> None:
    (root / ".mcp-context.toml").write_text("max_file_bytes = 'many'\n")

    report = await app.search("authenticate", project_id)

    assert "src/auth.py" in shown(report)
    assert report.index.state in ("unchecked", "stale")


async def test_a_repository_that_was_removed_stays_so(
    app: App, project_id: str, root: Path, make_repo: Callable[..., Path]
) -> None:
    other = make_repo({"b.py": "def cancel_invoice():\n    pass\n"}, "other")
    await app.index(other, project_id)
    await app.search("authenticate", project_id)
    await app.remove(root, project_id)
    (root / "src/new.py").write_text("def authenticate_again():\n    pass\n")

    report = await app.search("authenticate again", project_id)

    assert {s.root for s in report.answer.snapshots} == {str(other)}


async def test_a_check_ends_when_its_project_is_dropped(
    settings: Settings, root: Path, project_id: str
) -> None:
    async with looking_for(1, settings) as app:
        await app.index(root, project_id)
        (root / "added.py").write_text("def added():\n    return 1\n")
        await app.search("add", project_id)
        await app.drop_project(project_id)
        assert not any("TreeCheck" in repr(task) for task in asyncio.all_tasks())


async def test_of_the_same_text_elsewhere_only_places_that_are_true_are_named(
    app: App, project_id: str, root: Path
) -> None:
    shutil.copy(root / "lib/retry.ts", root / "lib/copy.ts")
    [hit] = [
        hit
        for hit in (await app.search("retry policy backoff", project_id)).answer.hits
        if hit.also_at
    ]
    (root / hit.also_at[0].file_path).write_text("export const nothing = 0;\n")

    report = await app.search("retry policy backoff", project_id)

    assert not any(hit.also_at for hit in report.answer.hits)


async def test_a_checkout_of_another_branch_is_followed(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    git(root, "init", "--quiet", "--initial-branch", "one")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "one")
    git(root, "checkout", "--quiet", "-b", "two")
    (root / "src/invoices.py").write_text("def cancel_invoice(number):\n    return number\n")
    git(root, "rm", "--quiet", "lib/retry.ts")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "two")
    git(root, "checkout", "--quiet", "one")
    await app.index(root, project_id)
    await app.search("authenticate", project_id)

    git(root, "checkout", "--quiet", "two")

    report = await eventually(
        app, project_id, "cancel invoice", lambda r: "src/invoices.py" in shown(r)
    )
    assert report.index.state == "ready"
    assert "lib/retry.ts" not in shown(await app.search("retry backoff", project_id))


async def test_the_shell_says_how_true_the_index_is(
    app: App, settings: Settings, project_id: str, root: Path
) -> None:
    (root / "src/auth.py").write_text("def authenticate(user, token):\n    return token\n")

    def run(*arguments: str) -> str:
        said = ("--data-dir", str(settings.data_dir), "--check-ms", "30000")
        program = (sys.executable, "-m", "codebase_mcp.cli.main")
        command = [*program, arguments[0], *said, *arguments[1:], "--project", project_id]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    [status] = json.loads(await asyncio.to_thread(run, "status", "--json"))
    assert (status["state"], status["files_pending"]) == ("stale", 1)
    found = json.loads(await asyncio.to_thread(run, "search", "authenticate", "--json"))
    assert (found["index"]["state"], found["index"]["files_pending"]) == ("ready", 0)


async def test_a_checkout_is_seen_at_once_also_right_after_another_search(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    git(root, "init")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    git(root, "checkout", "-b", "topic")
    (root / "src" / "heron.py").write_text("def wade_through_water():\n    return 1\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "heron")
    await app.index(root, project_id)
    for _ in range(3):
        git(root, "checkout", "main")
        report = await app.search("wade_through_water", project_id)
        assert "src/heron.py" not in shown(report)
        git(root, "checkout", "topic")
        report = await app.search("wade_through_water", project_id)
        assert "src/heron.py" in shown(report)
        assert report.index.state == "ready"
