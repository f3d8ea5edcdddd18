"""Cloning from a real git server, and where its credentials are to be seen: nowhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.git_server import GitServer, serving

from codebase_mcp.errors import CodebaseError, IndexingFailed, InvalidInput
from codebase_mcp.source.clone import Clone, CloneOptions, clone_path, fetch
from codebase_mcp.source.remote import parse_remote
from codebase_mcp.source.transfer import Stopped, Transfer

Git = Callable[..., bytes]
SECRET = "s3cret-of-the-test"


@pytest.fixture
def server(tmp_path: Path, git: Git) -> Iterator[GitServer]:
    """A server with one repository, ``org/repo.git``."""
    repository = tmp_path / "served" / "org" / "repo.git"
    repository.mkdir(parents=True)
    git(repository, "init", ".")
    (repository / "a.py").write_text("x = 1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "one")
    with serving(tmp_path / "served") as state:
        yield state


def fetched(url: str, clones: Path, told: list[str] | None = None) -> Clone:
    remote = parse_remote(url)
    return fetch(remote, clones, CloneOptions(), Transfer(remote, (told or []).append))


def test_a_repository_is_cloned_and_followed_over_http(
    server: GitServer, tmp_path: Path, git: Git
) -> None:
    told: list[str] = [""]
    clone = fetched(server.url("org/repo"), tmp_path / "clones", told)
    assert (clone.name, clone.is_shallow) == ("org/repo", True)
    assert any(line.startswith("Counting objects") for line in told)
    repository = server.root / "org" / "repo.git"
    (repository / "a.py").write_text("x = 2\n")
    git(repository, "commit", "-am", "two")
    again = fetched(server.url("org/repo.git"), tmp_path / "clones")
    assert (again.root, again.is_new) == (clone.root, False)
    assert git(again.root, "show", "HEAD:a.py") == b"x = 2\n"


def test_credentials_in_a_url_are_used_and_never_shown(
    server: GitServer, tmp_path: Path, home: Path
) -> None:
    calls = tmp_path / "calls"
    helper = tmp_path / "helper"
    helper.write_text(f"#!/bin/sh\n(echo $1; cat) >> '{calls}'\n")
    helper.chmod(0o755)
    (home / ".gitconfig").write_text(f"[credential]\n\thelper = {helper}\n")
    server.credentials = f"me@work:{SECRET}"
    server.secret = SECRET
    clone = fetched(server.url("org/repo", f"me%40work:{SECRET}@"), tmp_path / "clones")
    assert clone.is_new
    assert server.seen == []
    assert not calls.exists()  # nor does a helper of theirs learn it
    for path in (tmp_path / "clones").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    server.credentials = "token:"
    server.secret = "org/repo"  # the address is no secret: so one looks in the right place
    assert not fetched(server.url("org/repo", "token@"), tmp_path / "clones").is_new
    assert server.seen
    assert calls.exists()  # it might have known the token's password


def test_the_users_credential_helper_is_used(server: GitServer, tmp_path: Path, home: Path) -> None:
    helper = tmp_path / "helper"
    helper.write_text(f"#!/bin/sh\n[ $1 = get ] && echo username=me && echo password={SECRET}\n")
    helper.chmod(0o755)
    (home / ".gitconfig").write_text(f"[credential]\n\thelper = {helper}\n")
    server.credentials = f"me:{SECRET}"
    assert fetched(server.url("org/repo"), tmp_path / "clones").is_new
    assert not fetched(server.url("org/repo", "me@"), tmp_path / "clones").is_new


@pytest.mark.parametrize("login", ["", f"me:{SECRET}@", "me@"])
def test_missing_access_is_reported_without_a_prompt(
    server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    asked = tmp_path / "asked"
    program = tmp_path / "askpass"
    program.write_text(f"#!/bin/sh\ntouch '{asked}'\necho x\n")
    program.chmod(0o755)
    for variable in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(variable, str(program))
    monkeypatch.setenv("DISPLAY", ":0")
    server.credentials = "somebody:else"
    with pytest.raises(InvalidInput, match="Not allowed to read http://") as caught:
        fetched(server.url("org/repo", login), tmp_path / "clones")
    assert not asked.exists()
    assert SECRET not in escape_path(caught.value)
    assert [path.name for path in (tmp_path / "clones").iterdir()] == [".locks"]


def test_a_missing_repository_is_reported_without_its_password(
    server: GitServer, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="No git repository at http://") as caught:
        fetched(server.url("org/other", f"me:{SECRET}@"), tmp_path / "clones")
    assert SECRET not in escape_path(caught.value)
    assert caught.value.details["field"] == "path"


def test_an_unreachable_server_is_not_reported_as_an_invalid_url(tmp_path: Path) -> None:
    with pytest.raises(IndexingFailed, match="does not answer"):
        fetched(f"http://me:{SECRET}@127.0.0.1:9/org/repo", tmp_path / "clones")


def test_a_transfer_that_hangs_can_be_stopped(server: GitServer, tmp_path: Path) -> None:
    server.stalls = True
    remote = parse_remote(server.url("org/repo"))
    transfer = Transfer(remote)
    ends: list[BaseException] = []

    def work() -> None:
        try:
            fetch(remote, tmp_path / "clones", CloneOptions(), transfer)
        except Stopped as end:
            ends.append(end)

    thread = threading.Thread(target=work)
    thread.start()
    assert server.asked.wait(60)
    transfer.stop()
    thread.join(60)
    assert len(ends) == 1
    assert not clone_path(remote, tmp_path / "clones").parent.exists()


def escape_path(error: CodebaseError) -> str:
    """An error as everybody may see it, with what caused it."""
    return f"{error} {error.as_dict()} {error.__cause__}"
