"""Which repository does a call mean? The one that its caller stands in, which is indexed first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning
from tests.git import git
from tests.waiting import until

from codebase_mcp.access import repositories
from codebase_mcp.access.identity import Access, Identity
from codebase_mcp.app import scopes
from codebase_mcp.app.app import App
from codebase_mcp.errors import CodebaseError, ProjectNotFound
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

CRANE = "def fold_crane(paper):\n    return paper.fold('crane')\n"
USE = """\
from crane import fold_crane


def fold_all(papers):
    return [fold_crane(p) for p in papers]
"""


class Connected:
    """A client of a server that was started in a directory."""

    def __init__(self, client: Client[Any]) -> None:
        self.client = client

    async def json(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments, raise_on_error=False)
        assert result.structured_content is not None
        return result.structured_content

    async def text(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments, raise_on_error=False)
        assert result.structured_content is None
        return str(result.content[0].text)


@pytest.fixture
def connect(settings: Settings, mode: Any) -> Callable[..., Any]:
    @asynccontextmanager
    async def connect(
        directory: Path, opened: Any = None, **chosen: Any
    ) -> AsyncIterator[Connected]:
        holder = AppHolder(replace(settings, project_dir=directory, **chosen))
        server = server_of(holder, ["code", "projects", "symbols", "vcs"])
        async with Client(server, mode=mode, roots=opened) as client:
            yield Connected(client)

    return connect


@pytest.fixture
async def make_git_repo(app: App, make_repo: MakeRepo) -> AsyncIterator[MakeRepo]:
    """Repositories under git, which no index is left of."""
    made = []

    def make(name: str, files: dict[str, str]) -> Path:
        root = make_repo(files, name=name)
        git(root, "init")
        git(root, "add", ".")
        git(root, "commit", "-m", "first")
        made.append(root)
        return root

    yield make
    for root in made:
        with suppress(CodebaseError):
            await app.remove(root)


@pytest.fixture
async def cranes(app: App, make_git_repo: MakeRepo) -> Path:
    """An indexed repository of the default workspace."""
    root = make_git_repo("cranes", {"src/crane.py": CRANE, "src/use.py": USE})
    await app.index(root)
    return root


async def test_a_search_means_the_repository_that_one_stands_in(
    connect: Any, cranes: Path, make_git_repo: MakeRepo
) -> None:
    here = make_git_repo("boats", {"src/boat.py": CRANE.replace("crane", "boat")})
    async with connect(here) as client:
        reply = await client.json("search_code", query="fold the paper crane")
        assert {one["file_path"] for one in reply["results"]} <= {"src/boat.py"}
        [only] = reply["scope"]["repositories"]
        assert reply["scope"]["kind"] == "repository"
        assert reply["repositories"][only]["root"] == str(here)

        whole = await client.json("search_code", query="fold_crane", repository_id="all")
        assert whole["results"][0]["file_path"] == "src/crane.py"
        assert whole["scope"]["kind"] == "workspace"
        assert len(whole["scope"]["repositories"]) >= 2
    async with connect(cranes) as client:
        reply = await client.json("search_code", query="fold_crane")
        assert reply["results"][0]["file_path"] == "src/crane.py"
        other = await client.json("search_code", query="fold_boat", repository_id=only)
        assert other["results"][0]["file_path"] == "src/boat.py"
        assert other["scope"] == {"kind": "repository", "repositories": [only]}


async def test_paths_of_a_text_can_be_opened_from_where_the_reader_stands(
    connect: Any, cranes: Path
) -> None:
    (cranes / "docs").mkdir()
    starts = {"": "src/crane.py", "src": "crane.py", "docs": f"{cranes}/src/crane.py"}
    for directory, path in starts.items():
        async with connect(cranes / directory, replies="text") as client:
            text = await client.text("search_code", query="fold_crane")
            assert text.startswith(f"1. {path}:1-2  ")
            assert f"called from: {path.replace('crane.py', 'use.py')}:5 fold_all" in text
            callers = await client.text("symbol", operation="callers", name="fold_crane")
            assert f"fold_all {path.replace('crane.py', 'use.py')}:5" in callers


ASKED: list[tuple[str, dict[str, str]]] = [
    ("search_code", {"query": "fold_crane"}),
    ("symbol", {"name": "fold_crane"}),
    ("vcs", {"operation": "search_history", "query": "first"}),
    ("vcs", {"operation": "search_branch", "branch": "main", "query": "fold_crane"}),
]
OF_ONE_REPOSITORY: list[tuple[str, dict[str, str]]] = [
    ("vcs", {"operation": "compare_branches", "branch_a": "main", "branch_b": "worktree"}),
    ("vcs", {"operation": "analyze_impact", "commit": "main"}),
]


@pytest.mark.parametrize(("tool", "arguments"), ASKED + OF_ONE_REPOSITORY)
async def test_every_reply_says_which_repositories_it_is_about(
    connect: Any, cranes: Path, make_git_repo: MakeRepo, app: App, tool: str, arguments: Any
) -> None:
    boats = make_git_repo("boats", {"boat.py": CRANE.replace("crane", "boat")})
    other = str((await app.index(boats)).run.repository_id)
    async with connect(cranes) as client:
        scope = (await client.json(tool, **arguments))["scope"]
        assert (scope["kind"], len(scope["repositories"])) == ("repository", 1)
        assert other not in scope["repositories"]
        if (tool, arguments) in ASKED:
            scope = (await client.json(tool, **arguments, repository_id="all"))["scope"]
            assert scope["kind"] == "workspace"
            assert other in scope["repositories"]


@pytest.mark.parametrize(("tool", "arguments"), ASKED + OF_ONE_REPOSITORY)
async def test_a_text_says_so_where_its_reader_cannot_know_it(
    connect: Any,
    cranes: Path,
    make_git_repo: MakeRepo,
    app: App,
    project_id: str,
    tool: str,
    arguments: Any,
) -> None:
    boats = make_git_repo("boats", {"boat.py": CRANE.replace("crane", "boat")})
    for root in (boats, cranes):
        await app.index(root, "default")
        await app.index(root, project_id)
    field = "collection" if tool == "vcs" else "project_id"
    async with connect(cranes, replies="text") as client:
        several = "" if (tool, arguments) in OF_ONE_REPOSITORY else "2 repositories of "
        await client.text("switch_project", project_id=project_id)
        text = await client.text(tool, **arguments)
        assert text.endswith(f"\n[in {several}project {project_id} (active)]")
        text = await client.text(tool, **arguments, **{field: project_id})
        assert text.endswith("\n[in 2 repositories]") == bool(several)
        own = await client.text(tool, **arguments, **{field: "default"})
        assert "[in " not in own
        assert "project" not in own


async def test_the_first_question_indexes(connect: Any, make_git_repo: MakeRepo) -> None:
    here = make_git_repo("kites", {"kite.py": CRANE.replace("crane", "kite")})
    async with connect(here / ".") as client:
        reply = await client.json("search_code", query="fold_kite")
        assert [one["file_path"] for one in reply["results"]] == ["kite.py"]
        assert (reply["index"]["state"], reply["project_id"]) == ("ready", None)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("symbol", {"operation": "definition", "name": "fold_kite"}),
        ("vcs", {"operation": "search_history", "query": "first"}),
        ("vcs", {"operation": "compare_branches", "branch_a": "main", "branch_b": "worktree"}),
        ("vcs", {"operation": "search_branch", "branch": "main", "query": "fold_kite"}),
    ],
)
async def test_so_does_every_other_question(
    connect: Any, cranes: Path, make_git_repo: MakeRepo, tool: str, arguments: dict[str, str]
) -> None:
    here = make_git_repo("kites", {"kite.py": CRANE.replace("crane", "kite")})
    async with connect(here) as client:
        reply = await client.json(tool, **arguments)
        assert "error" not in reply
        assert "crane" not in str(reply)
        found = {"symbol": "definitions", "search_history": "commits", "search_branch": "results"}
        if field := found.get(arguments["operation"], found.get(tool)):
            assert len(reply[field]) == 1


async def test_what_takes_longer_is_answered_from_what_is_there(
    connect: Any, make_git_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "WAIT_S", 0.05)
    files = {f"kite_{n}.py": CRANE.replace("crane", f"kite_{n}") * 20 for n in range(400)}
    here = make_git_repo("many", files)
    async with connect(here) as client:
        first = await client.json("search_code", query="fold_kite_7")
        assert "error" not in first
        assert first["index"]["state"] == "indexing"
        assert 0 <= first["index"]["progress_percent"] < 100
        assert first["index"]["current_phase"] in ("listing", "indexing")
        is_listing = first["index"]["current_phase"] == "listing"
        assert is_listing == (first["index"]["estimated_time_remaining"] is None)
        assert first["scope"]["kind"] == "repository"

        async def is_ready() -> bool:
            reply = await client.json("search_code", query="fold_kite_7")
            return bool(reply["index"]["state"] == "ready")

        await until(is_ready, pause_s=0.1)
        reply = await client.json("search_code", query="fold_kite_7")
        assert reply["results"][0]["file_path"] == "kite_7.py"


async def test_text_says_how_far_it_is_and_never_that_nothing_was_found(
    connect: Any, make_git_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "WAIT_S", 0.0)
    here = make_git_repo("many", {f"kite_{n}.py": CRANE for n in range(50)})
    async with connect(here, replies="text") as client:
        text = await client.text("search_code", query="fold_crane")
        assert text.startswith("Still indexing, ")
        assert "othing" not in text


async def test_a_command_leaves_the_rest_to_a_job(
    app: App, settings: Settings, make_git_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "WAIT_S", 0.0)
    here = make_git_repo("many", {f"kite_{n}.py": CRANE for n in range(50)})
    async with await App.open(settings, only_once=True) as once:
        report = await once.search("fold_crane", identity=Identity(directory=here))
        assert report.index.state == "indexing"
    [job] = [job for job in await app.jobs.jobs() if job.root == str(here)]
    assert job.is_pending
    await app.jobs.cancel([job.id])


async def test_some_places_are_not_indexed_by_a_question(
    connect: Any,
    settings: Settings,
    make_repo: MakeRepo,
    make_git_repo: MakeRepo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(directory: Path, **chosen: Any) -> str:
        async with connect(directory, **chosen) as client:
            error = (await client.json("search_code", query="fold"))["error"]
            assert error["code"] == "PROJECT_NOT_FOUND"
            assert error["hint"] == f'Call index_repository(repo_path="{directory}").'
            return str(error["message"])

    repository = make_git_repo("kites", {"kite.py": CRANE})
    turned_off = await refused(repository, auto_index="never")
    assert "turned off (--auto-index never)" in turned_off
    assert "this server only reads" in await refused(repository, read_only=True)
    outside = await refused(repository, roots=(str(repository / "elsewhere"),))
    assert "outside of the allowed directories (--root)" in outside
    monkeypatch.setattr(repositories, "MOST_FILES", 3)
    downloads = make_repo({f"{n}.py": CRANE for n in range(4)}, name="downloads")
    assert "it has more than 3 files" in await refused(downloads)
    monkeypatch.setenv("HOME", str(repository))
    assert "it is a home directory" in await refused(repository)
    assert repositories.reason_not_to_index(Path("/"), ()) == "it is the root of the file system"


async def test_a_project_file_makes_a_folder_a_repository(
    connect: Any, app: App, make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "MOST_FILES", 3)
    here = make_repo({f"{n}.py": CRANE for n in range(4)} | {"package.json": "{}"}, name="package")
    async with connect(here) as client:
        assert (await client.json("search_code", query="fold_crane"))["results"]
    await app.remove(here)


async def test_above_repositories_a_call_means_those_below(
    connect: Any, cranes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "MOST_FILES", 1)
    async with connect(tmp_path) as client:
        reply = await client.json("search_code", query="fold_crane")
        assert reply["results"][0]["file_path"] == "src/crane.py"
        assert len(reply["scope"]["repositories"]) == 1


async def test_in_a_named_project_all_are_searched_and_the_own_one_goes_first(
    connect: Any, app: App, make_git_repo: MakeRepo, project_id: str
) -> None:
    roots = [
        make_git_repo(f"shop{n}", {"pay.py": f'"""Shop {n}."""\n\n\n{CRANE}'}) for n in range(3)
    ]
    for root in roots:
        await app.index(root, project_id)
    for root in roots:
        async with connect(root) as client:
            reply = await client.json("search_code", query="fold a crane", project_id=project_id)
            assert len(reply["results"]) == 3
            first = reply["results"][0]["repository_id"]
            assert reply["repositories"][first]["root"] == str(root)
            assert reply["scope"]["kind"] == "workspace"


async def test_a_context_file_names_the_project_that_the_first_question_fills(
    connect: Any, app: App, make_git_repo: MakeRepo, project_id: str
) -> None:
    here = make_git_repo(
        "kites", {"kite.py": CRANE, ".mcp-context.toml": f'project = "{project_id}"\n'}
    )
    async with connect(here) as client:
        reply = await client.json("search_code", query="fold_crane")
        assert [one["file_path"] for one in reply["results"]] == ["kite.py"]
        assert (reply["project_id"], reply["project_source"]) == (project_id, "config")


async def test_a_project_that_a_call_names_is_not_filled_by_a_question(
    connect: Any, existing: str, make_git_repo: MakeRepo
) -> None:
    here = make_git_repo("kites", {"src/kite.py": CRANE})
    async with connect(here / "src") as client:
        for project_id in (existing, "never-made"):
            arguments = {"query": "fold", "project_id": project_id}
            error = (await client.json("search_code", **arguments))["error"]
            assert error["code"] == "PROJECT_NOT_FOUND"
            assert error["message"] == "Project has not been indexed or does not exist"
            call = f'index_repository(repo_path="{here}", project_id="{project_id}")'
            assert call in error["hint"]


async def test_the_folders_that_a_client_has_open_come_before_the_working_directory(
    connect: Any, cranes: Path, make_git_repo: MakeRepo, tmp_path: Path
) -> None:
    boats = make_git_repo("boats", {"boat.py": CRANE.replace("crane", "boat")})
    async with connect(tmp_path, opened=[boats.as_uri()], replies="text") as client:
        assert (await client.text("search_code", query="fold_boat")).startswith("1. boat.py:1-2 ")
    async with connect(tmp_path, opened=[boats.as_uri(), cranes.as_uri()]) as client:
        for name in ("boat", "crane"):
            reply = await client.json("search_code", query=f"fold_{name}")
            assert reply["results"][0]["file_path"].endswith(f"{name}.py")
            assert len(reply["scope"]["repositories"]) == 2
    async with connect(boats, opened=["file:///no/such"]) as client:
        reply = await client.json("search_code", query="fold_boat")
        assert reply["results"][0]["file_path"] == "boat.py"


@pytest.mark.parametrize("mode", ["legacy"])
async def test_a_client_that_opens_another_folder_is_asked_again(
    connect: Any, cranes: Path, make_git_repo: MakeRepo, tmp_path: Path
) -> None:
    boats = make_git_repo("boats", {"boat.py": CRANE.replace("crane", "boat")})
    opened = [boats.as_uri()]
    async with connect(tmp_path, opened=lambda _: list(opened)) as client:
        reply = await client.json("search_code", query="fold_boat")
        assert reply["results"][0]["file_path"] == "boat.py"
        opened[:] = [cranes.as_uri()]
        with pytest.warns(MCPDeprecationWarning):
            await client.client.send_roots_list_changed()
        reply = await client.json("search_code", query="fold_crane")
        assert reply["results"][0]["file_path"] == "src/crane.py"


async def test_a_caller_who_stands_nowhere_means_the_whole_workspace(
    app: App, cranes: Path, make_git_repo: MakeRepo
) -> None:
    boats = make_git_repo("boats", {"boat.py": CRANE.replace("crane", "boat")})
    await app.index(boats)
    for name in ("crane", "boat"):
        report = await app.search(f"fold_{name}", request=Request(limit=1))
        assert report.answer.hits[0].symbol == f"fold_{name}"
        assert report.scope.kind == "workspace"


async def test_a_caller_who_may_only_read_indexes_nothing(
    app: App, make_git_repo: MakeRepo
) -> None:
    here = make_git_repo("kites", {"kite.py": CRANE})
    reader = Identity(directory=here, access=Access(frozenset({"read"})))
    with pytest.raises(ProjectNotFound, match="this server only reads"):
        await app.search("fold_crane", identity=reader)
