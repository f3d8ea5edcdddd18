"""``codebase-mcp index https://…``: fetched, indexed, kept up to date, forgotten."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.git import git
from tests.git_server import GitServer, serving

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.cli.indexing import cloned_source, forget_clone
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.index.inventory import RepositoryFacts
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.clone import clone_path
from codebase_mcp.source.remote import parse_remote

pytestmark = pytest.mark.anyio

COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]
SECRET = "s3cret-of-the-test"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    """A server with one repository, ``org/repo``, for those who know its password."""
    repository = tmp_path / "served" / "org" / "repo"
    repository.mkdir(parents=True)
    git(repository, "init", "-q", "-b", "main")
    (repository / "auth.py").write_text("def authenticate(user):\n    return user\n")
    (repository / "other.py").write_text("def other():\n    pass\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "one")
    with serving(tmp_path / "served") as state:
        state.credentials = f"me:{SECRET}"
        yield state


@pytest.fixture
def environment(settings: Settings, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "CODEBASE_MCP_DATA_DIR": str(settings.data_dir),
        "CODEBASE_MCP_LOG_LEVEL": "DEBUG",
        "COLUMNS": "200",
    }


@pytest.fixture
def shell(environment: dict[str, str], project_id: str) -> Callable[..., Any]:
    """Run a command in the project; its reply as JSON. Nothing it says may hold the password."""

    def run(*arguments: str, status: int = 0) -> Any:
        done = subprocess.run(
            [*COMMAND, *arguments, "--json", "--project", project_id],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert SECRET not in done.stdout + done.stderr
        return json.loads(done.stdout)

    return run


async def indexed(app: App, project_id: str) -> RepositoryFacts:
    """The one repository of the project."""
    project = await app.resolver.resolve(project_id, ANONYMOUS)
    [found] = await app.projects([project[0]])
    [repository] = found.repositories
    return repository


async def test_a_url_is_indexed_followed_and_forgotten(
    app: App, settings: Settings, server: GitServer, shell: Callable[..., Any], project_id: str
) -> None:
    url, bare = server.url("org/repo", f"me:{SECRET}@"), server.url("org/repo")
    with pytest.raises(InvalidInput, match="has not been fetched yet"):
        cloned_source(Namespace(path=url), settings)
    first = shell("index", url)
    assert (first["status"], first["files_indexed"]) == ("success", 2)
    assert first["source"]["url"] == bare
    assert (first["source"]["branch"], first["source"]["shallow"]) == ("main", True)
    known = await indexed(app, project_id)
    assert known.name == "org/repo"
    assert known.root.startswith(str(settings.data_dir.resolve() / "repositories" / "127"))
    (server.root / "org" / "repo" / "auth.py").write_text("def sign_in(user):\n    return user\n")
    git(server.root / "org" / "repo", "commit", "-qam", "two")
    assert shell("index", url, "--dry-run")["files_unchanged"] == 2  # as it was last fetched
    again = shell("index", url, "--full")
    assert (again["files_indexed"], again["files_unchanged"]) == (1, 1)
    assert again["repository_id"] == first["repository_id"]
    assert not again["source"]["shallow"]
    hits = (await app.search("sign in", project_id)).answer.hits
    assert hits[0].file_path == "auth.py"
    gone = shell("remove", url)
    assert gone == {"repository_id": first["repository_id"], "status": "removed"}
    assert not Path(known.root).exists()
    with pytest.raises(NotFound, match=bare):
        await forget_clone(app, url, project_id, ANONYMOUS)


async def test_any_tag_of_a_whole_clone_is_searched_and_nothing_is_checked_out(
    app: App, server: GitServer, shell: Callable[..., Any], project_id: str
) -> None:
    repository = server.root / "org" / "repo"
    git(repository, "tag", "v1")
    (repository / "auth.py").write_text("def sign_in(user):\n    return user\n")
    git(repository, "commit", "-qam", "two")
    shell("index", server.url("org/repo", f"me:{SECRET}@"), "--full")
    root = Path((await indexed(app, project_id)).root)
    assert not (root / "auth.py").exists()
    found = shell("search", "authenticate", "--ref", "v1")
    assert found["results"][0]["file_path"] == "auth.py"
    assert "def authenticate" in found["results"][0]["content"]
    assert not [
        hit
        for hit in (await app.search("authenticate", project_id)).answer.hits
        if "def authenticate" in hit.content
    ]


async def test_the_index_of_a_clone_with_files_is_kept_when_it_becomes_bare(
    app: App, settings: Settings, server: GitServer, shell: Callable[..., Any], project_id: str
) -> None:
    url = server.url("org/repo", f"me:{SECRET}@")
    place = clone_path(parse_remote(url), settings.data_dir.resolve() / "repositories")
    place.parent.mkdir(parents=True, exist_ok=True)
    git(place.parent, "clone", "-q", "--depth=1", f"file://{server.root}/org/repo", place.name)
    git(place, "config", "remote.origin.url", server.url("org/repo"))
    first = await app.index(place, project_id)
    again = shell("index", url)
    assert again["repository_id"] == str(first.run.repository_id)
    assert (again["files_indexed"], again["files_unchanged"], again["chunks_created"]) == (0, 2, 0)
    assert not (place / ".git").exists()


async def test_a_clone_stays_for_another_project_that_has_it_too(
    app: App, server: GitServer, shell: Callable[..., Any], project_id: str
) -> None:
    url = server.url("org/repo", f"me:{SECRET}@")
    shell("index", url)
    known = await indexed(app, project_id)
    other = project_id + "-other"
    await app.index(known.root, other)
    removed, shown = await forget_clone(app, url, project_id, ANONYMOUS)
    assert (removed, shown) == (known.id, server.url("org/repo"))
    assert Path(known.root).is_dir()
    await app.drop_project(other)
    assert await forget_clone(app, url, project_id, ANONYMOUS) == (None, shown)
    assert not Path(known.root).exists()


def test_ctrl_c_stops_git_and_leaves_nothing(
    environment: dict[str, str], server: GitServer, tmp_path: Path
) -> None:
    server.stalls = True
    url = server.url("org/repo")
    environment |= {"CODEBASE_MCP_DATA_DIR": str(tmp_path / "data")}
    command = subprocess.Popen([*COMMAND, "index", url], env=environment, stderr=subprocess.PIPE)
    assert server.asked.wait(60)
    assert is_running_git_for(url)
    command.send_signal(signal.SIGINT)
    _, complaint = command.communicate(timeout=60)
    assert command.returncode == 130
    assert b"Traceback" not in complaint
    assert [path.name for path in (tmp_path / "data" / "repositories").iterdir()] == [".locks"]
    while is_running_git_for(url):  # its own children end with it, a moment later
        time.sleep(0.02)


def is_running_git_for(url: str) -> bool:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if url.encode() in place.read_bytes():
                return True
    return False


async def test_a_url_is_no_path_of_the_api_and_its_tools(app: App, server: GitServer) -> None:
    with pytest.raises(InvalidInput):
        await app.index(server.url("org/repo"))
    assert not server.asked.is_set()
