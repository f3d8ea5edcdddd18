"""What a URL names, where its clone lies, and that its secrets are nowhere to be seen."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.errors import InvalidInput
from codebase_mcp.source.remote import is_remote, masked, parse_remote
from codebase_mcp.source.root import resolve_root


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://github.com/org/repo", True),
        ("HTTP://host/org/repo.git", True),
        ("ssh://git@host/org/repo", True),
        ("git@host:org/repo", True),
        ("file:///srv/repo.git", True),
        ("ext::sh -c touch% /tmp/x", True),
        ("git@host:org/repo with blanks", True),
        ("/home/me/repo", False),
        ("repo", False),
        (".", False),
        ("../a@b/c:d", False),
        ("weird:name", False),
    ],
)
def test_urls_are_distinguished_from_paths(text: str, expected: bool) -> None:
    assert is_remote(text) is expected


@pytest.mark.parametrize(
    ("text", "folder", "name"),
    [
        ("https://github.com/org/repo", "github.com/org/repo", "org/repo"),
        ("https://github.com/org/repo.git", "github.com/org/repo", "org/repo"),
        ("https://GitHub.com:443/org/repo/", "github.com/org/repo", "org/repo"),
        ("https://me:secret@github.com/org/repo", "github.com/org/repo", "org/repo"),
        ("https://github.com/Org/Repo.js", "github.com/Org/Repo.js", "Org/Repo.js"),
        ("https://host/group/sub/repo", "host/group-sub/repo~*", "group/sub/repo"),
        ("https://host:8443/org/repo", "host/org/repo~*", "org/repo"),
        ("http://host/org/repo", "host/org/repo~*", "org/repo"),
        ("git@host:org/repo.git", "host/org/repo~*", "org/repo"),
        ("ssh://git@host:2222/org/repo", "host/org/repo~*", "org/repo"),
        ("file:///srv/git/repo.git", "localhost/srv-git/repo-git~*", "git/repo"),
        ("https://host/repo", "host/_/repo~*", "repo"),
        ("https://host/o%2Frg/%2e%2e%2frepo", "host/o-rg/repo~*", "o/rg/../repo"),
        ("https://host/ö/ä", "host/_/_~*", "ö/ä"),
    ],
)
def test_the_folder_of_a_clone_follows_from_its_url(text: str, folder: str, name: str) -> None:
    remote = parse_remote(text)
    assert remote.folder.match(folder)
    assert remote.name == name


def test_repositories_never_share_or_nest_their_folders() -> None:
    texts = """
    https://h/a/b https://h/a/b/c https://h/a-b/c https://h/a/b-c https://h/a https://h/b/a/c
    http://h/a/b ssh://h/a/b ssh://git@h/a/b git@h:a/b https://h:444/a/b https://h/a~b/c
    file:///a/b file:///a/b.git file:///h/a/b https://h/a/%62 https://h/a/b~1 https://h/_/a
    """.split()
    folders = [parse_remote(text).folder for text in texts]
    assert len({str(folder).casefold() for folder in folders}) == len(folders)
    assert {len(folder.parts) for folder in folders} == {3}


@given(st.text(max_size=40), st.sampled_from(["https://h/", "ssh://h/", "file:///", "git@h:"]))
def test_a_clone_is_below_the_folder_of_clones_for_any_url(path: str, start: str) -> None:
    try:
        folder = parse_remote(start + path).folder
    except InvalidInput:
        return
    assert not folder.is_absolute()
    assert len(folder.parts) == 3
    for part in folder.parts:
        assert part not in ("", ".", "..")
        assert not part.startswith((".", "-"))
        assert PurePosixPath(part).name == part
        assert part.isascii()
        assert part.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "ext::sh -c touch% /tmp/x",
        "ext::sh",
        "fd::17/x",
        "git://host/org/repo",
        "ftp://host/org/repo",
        "rsync://host/org/repo",
        "https::https://host/org/repo",
        "https://",
        "https:///org/repo",
        "https://host",
        "https://host/",
        "https://host/org/..",
        "https://host/../../repo",
        "https://host/%2e%2e/repo",
        "https://host:port/org/repo",
        "https://host/org/repo?token=x",
        "https://host/org/repo#x",
        "https://host/org/re po",
        "https://host/org/re\npo",
        "https://host\\org/repo",
        "https://user%0a:x@host/org/repo",
        "https://-host/org/repo",
        "ssh://-oProxyCommand=x/org/repo",
        "ssh://-oProxyCommand=x@host/org/repo",
        "ssh://git:secret@host/org/repo",
        "-oProxyCommand=x@host:org/repo",
        "git@-oProxyCommand=x:org/repo",
        "git@host:-x",
        "git@host:",
        "file://elsewhere/srv/repo",
        "file://me:secret@localhost/srv/repo",
        "https://host/" + "a" * 3000,
    ],
)
def test_unsafe_urls_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_remote(text)
    assert caught.value.details["field"] == "path"
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "https://me:s3cret@host/org/repo",
        "https://s3cret@host/org/repo",
        "https://me:s3cret@host:port/org/repo",
        "https://me:s3/cret@host/org/repo",
        "https://me:s3@cret@host/org/..",
        "https://me:s3%20cret%0a@host/org/repo",
        "ssh://git:s3cret@host/org/repo",
        "ftp://me:s3cret@host/org/repo",
        "https://me:s3 cret@host/org/repo",
        "https://host/org/repo?private_token=s3cret",
        "https://me:12/s3cret@host/org/repo",
        "https://me:s3@ss/w@host/org/repo",
        "https://s3/cret@host/org/repo",
        "s3me:s3cret@host:org/repo",
        "https:/me:s3cret@host/org/repo",
        "https:me:s3cret@host/org/repo",
        "https//me:s3cret@host/org/repo",
    ],
)
def test_a_password_is_never_shown(text: str) -> None:
    assert is_remote(text)
    assert "s3" not in masked(text)
    with pytest.raises(InvalidInput) as caught:
        resolve_root(text)
    assert "s3" not in str(caught.value.as_dict())
    try:
        remote = parse_remote(text)
    except InvalidInput as error:
        assert "s3" not in str(error.as_dict())
        assert error.__cause__ is None
        return
    assert "s3" not in repr(remote)
    assert "s3" not in remote.url + remote.identity + remote.name + str(remote.folder)
    assert "s3cret" in (remote.password, remote.username)


def test_the_user_of_an_ssh_url_is_part_of_the_address() -> None:
    first, second = parse_remote("ssh://git@h/a/b"), parse_remote("ssh://me@h/a/b")
    assert first.url == "ssh://git@h/a/b"
    assert first.identity != second.identity
    assert parse_remote("https://me:x@h/a/b").identity == parse_remote("https://h/a/b").identity
