"""A caller who is not the server's user has nothing read outside of the allowed roots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.git_server import serving
from tests.integration.test_history import commit, git

from codebase_mcp.access.identity import Access, Identity
from codebase_mcp.app.app import App
from codebase_mcp.app.background.indexing import start_indexing
from codebase_mcp.app.background.worker import Worker
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import CodebaseError, PermissionDenied
from codebase_mcp.settings.choices import database_target
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source import git_directory
from codebase_mcp.source.source_tree import DiskTree
from codebase_mcp.tools.calling import reply_of
from codebase_mcp.tools.catalog import all_tools

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

REMOTE = Identity("key of a colleague", access=Access(reads_as_server=False))
GREETING = {"main.py": "def unheard_of_greeting():\n    return 1\n"}
HARMLESS = {"main.py": "def harmless():\n    return 1\n"}
# Each tool that takes a directory, with what it calls it.
WAYS_TO_INDEX: list[tuple[str, str, dict[str, Any]]] = [
    ("index_repository", "repo_path", {}),
    ("index_codebase", "repository_path", {}),
    ("vcs", "repository_path", {"operation": "index_repository"}),
]


@pytest.fixture
def code(make_repo: MakeRepo) -> Path:
    """An allowed root, with a repository in it."""
    return make_repo(HARMLESS, "code/app").parent


@pytest.fixture
def outside(make_repo: MakeRepo) -> Path:
    """A repository beside the allowed root."""
    return make_repo(GREETING, "code-secret/app")


@pytest.fixture
async def shared(
    anyio_backend: str, settings: Settings, code: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[App]:
    """The product with one allowed root."""
    monkeypatch.setattr(git_directory, "_roots", set())
    async with await App.open(replace(settings, roots=(str(code),))) as app:
        yield app


async def called(
    app: App, tool: str, identity: Identity = REMOTE, **arguments: Any
) -> dict[str, Any]:
    """The reply of a tool to a caller from elsewhere."""

    async def opened() -> App:
        return app

    spec = next(spec for spec in all_tools() if spec.name == tool)
    return (await reply_of(spec, arguments, opened, identity)).as_json()


def with_roots(*roots: Path) -> Identity:
    """A caller whose key has roots of its own."""
    access = Access(reads_as_server=False, roots=tuple(map(str, roots)))
    return Identity("key of one team", access=access)


async def found(app: App, project_id: str) -> list[str]:
    """The files that have the greeting, which is only outside of the root."""
    report = await app.search("unheard of", project_id, identity=REMOTE)
    return [hit.file_path for hit in report.answer.hits if "unheard_of" in hit.content]


@pytest.mark.parametrize(("tool", "field", "more"), WAYS_TO_INDEX)
async def test_no_tool_indexes_what_is_outside_the_roots(
    shared: App,
    project_id: str,
    code: Path,
    outside: Path,
    tool: str,
    field: str,
    more: dict[str, Any],
) -> None:
    git(code / "app", "init", "-q")
    (code / "link").symlink_to("../code-secret/app")
    ways = [str(outside), f"{code}/../code-secret/app", str(code / "link"), "/proc/self/root/etc"]
    ways += ["/proc/1/root/etc", "/proc/1/root/absent"]  # of another user, where tests run as one
    ways += [f"{outside}/absent", str(shared.settings.data_dir), "/", "/dev"]
    for way in ways:
        with pytest.raises(PermissionDenied) as caught:
            await called(shared, tool, project_id=project_id, **{field: way}, **more)
        assert caught.value.details == {"field": field, "value": way}
        assert f"Allowed: {code}." in str(caught.value.hint)
    reply = await called(shared, tool, project_id=project_id, **{field: str(code / "app")}, **more)
    assert reply["repository_id"]


@pytest.mark.parametrize(("tool", "field", "more"), WAYS_TO_INDEX)
async def test_a_key_with_roots_indexes_below_them_and_what_the_server_allows(
    shared: App,
    project_id: str,
    make_repo: MakeRepo,
    code: Path,
    outside: Path,
    tool: str,
    field: str,
    more: dict[str, Any],
) -> None:
    git(code / "app", "init", "-q")
    theirs = make_repo(GREETING, "code/theirs")
    (code / "app" / "link").symlink_to("../theirs")
    team = with_roots(code / "app", outside)
    for way in (code, theirs, code / "app" / "link", outside, theirs / "absent"):
        with pytest.raises(PermissionDenied) as caught:
            await called(shared, tool, team, project_id=project_id, **{field: str(way)}, **more)
        assert f"Allowed: {code / 'app'}. " in str(caught.value.hint)
    for roots in ([code / "app"], [code.parent]):  # inside of what the server allows, or around it
        named = {field: str(code / "app")}
        team = with_roots(*roots)
        reply = await called(shared, tool, team, project_id=project_id, **named, **more)
        assert reply["repository_id"]
    with pytest.raises(PermissionDenied, match="no root is allowed"):
        await called(shared, tool, with_roots(outside), project_id=project_id, **named, **more)


async def test_no_tool_fetches_a_url(shared: App, project_id: str, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as server:
        ways = [server.url("org/repo"), server.url("org/repo").replace("127.0.0.1", "localhost")]
        ways += [f"http://[::1]:{server.port}/repo", f"file://{tmp_path}", "git@localhost:org/repo"]
        ways += ["ssh://localhost/repo", "ext::sh -c true", "http://169.254.169.254/latest"]
        for way in ways:
            for tool, field, more in WAYS_TO_INDEX:
                with pytest.raises(CodebaseError) as caught:
                    await called(shared, tool, project_id=project_id, **{field: way}, **more)
                assert caught.value.code == "VALIDATION_ERROR"
                assert caught.value.details["field"] == field
        assert not server.asked.is_set()


def test_no_other_tool_takes_a_place_on_disk() -> None:
    named = {
        (spec.name, name)
        for spec in all_tools()
        for name in spec.input_schema()["properties"]
        if any(word in name for word in ("path", "directory", "root", "file", "url"))
    }
    # Filters: nothing is opened by them.
    filters = {("search_code", "directory"), ("search_code", "file_type")}
    filters |= {("symbol", "path"), ("symbol", "directory"), ("vcs", "path")}
    filters |= {("find_text", name) for name in ("directory", "file_type", "files_only")}
    assert named == filters | {(tool, field) for tool, field, _ in WAYS_TO_INDEX}


async def test_a_link_put_in_during_the_run_is_not_followed(
    shared: App, project_id: str, code: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_files = DiskTree.read_files

    def swap_and_read(tree: DiskTree, files: Any) -> Any:
        (code / "app").rename(code / "moved")
        (code / "app").symlink_to(outside)
        return read_files(tree, files)

    monkeypatch.setattr(DiskTree, "read_files", swap_and_read)
    run = (await shared.index(code / "app", project_id, identity=REMOTE)).run
    assert run.files_indexed == 0
    assert await found(shared, project_id) == []


@pytest.mark.parametrize("is_of_key", [False, True])
async def test_a_link_put_in_while_the_job_waits_is_refused(
    shared: App, project_id: str, make_repo: MakeRepo, code: Path, outside: Path, is_of_key: bool
) -> None:
    identity, repository, target = REMOTE, code / "app", outside
    if is_of_key:  # what the server allows and the key does not
        repository = make_repo(HARMLESS, "code/team/app")
        identity, target = with_roots(code / "team"), make_repo(GREETING, "code/theirs")
    started = await start_indexing(shared, repository, project_id, identity=identity, wait_s=0)
    repository.rename(code / "moved")
    repository.symlink_to(target)
    await Worker(shared, 1).run(once=True)
    [job] = await shared.jobs.jobs(job_id=started.job.id)
    assert job.error is not None
    assert (job.status, job.error["code"]) == ("failed", "PERMISSION_DENIED")


async def test_a_link_in_the_place_of_an_indexed_repository_is_not_read(
    shared: App, project_id: str, code: Path, outside: Path
) -> None:
    for place in (code / "app", outside):
        git(place, "init", "-q", "-b", "main")
        commit(place, "the unheard-of greeting" if place == outside else "harmless")
    await shared.index(code / "app", project_id, history_depth=10, identity=REMOTE)
    (code / "app").rename(code / "moved")
    (code / "app").symlink_to(outside)
    assert await found(shared, project_id) == []
    for reads_git in (
        shared.search("greeting", project_id, ref="main", identity=REMOTE),
        shared.changes.repository(project_id, identity=REMOTE),
    ):
        with pytest.raises(CodebaseError):
            await reads_git
    history = await shared.history.search("greeting", project_id, identity=REMOTE)
    assert [one for one in history.commits if "unheard" in one.message] == []
    report = await shared.search("harmless", project_id, identity=REMOTE)
    assert "main.py" in [hit.file_path for hit in report.answer.hits]  # the index is kept


async def test_what_the_servers_user_indexed_is_searched_and_not_indexed_again(
    shared: App, project_id: str, outside: Path
) -> None:
    await shared.index(outside, project_id)
    (outside / "second.py").write_text("def unheard_of_second():\n    return 2\n")
    with pytest.raises(PermissionDenied):
        await shared.index(outside, project_id, identity=REMOTE)
    with pytest.raises(PermissionDenied):
        await shared.update(outside, ["second.py"], project_id, identity=REMOTE)
    # The server goes on following the files, whoever searches.
    assert set(await found(shared, project_id)) == {"main.py", "second.py"}


async def test_the_programs_own_data_is_not_indexed(
    project_id: str, make_repo: MakeRepo, settings: Settings
) -> None:
    repository = make_repo({**HARMLESS, "data/main.py": GREETING["main.py"]})
    inside = replace(settings, data_dir=repository / "data")
    database = await Database.open(database_target(settings))
    async with await App.open(inside, database) as nested:
        run = (await nested.index(repository, project_id)).run
        assert (run.files_indexed, run.files_skipped["ignored"]) == (1, 1)
        git(repository, "init", "-q")
        assert (await nested.index(repository, project_id)).run.files_indexed == 0
        with pytest.raises(PermissionDenied, match="never read"):
            await nested.index(repository / "data", project_id)
