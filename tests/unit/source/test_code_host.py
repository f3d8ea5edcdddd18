"""The repositories of an organisation, from a server that speaks the APIs of both hosts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.code_host import CodeHost, hosting

from codebase_mcp.errors import CodebaseError, IndexingFailed, InvalidInput
from codebase_mcp.source.code_host import (
    HostedRepository,
    Organisation,
    parse_organisation,
    repositories_of,
)

TOKEN = "s3cret-of-the-test"


@pytest.fixture(params=["github", "gitlab"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CodeHost]:
    """A host of either kind, with three repositories of ``acme``, two on a page."""
    with hosting(tmp_path, request.param) as host:
        host.most_per_page = 2
        for name in ("api", "shop", "web"):
            host.add("acme", name)
        yield host


def listed(host: CodeHost, name: str = "acme", token: str | None = None) -> list[HostedRepository]:
    return repositories_of(parse_organisation(host.url(name), host.kind), token)


@pytest.mark.parametrize(
    ("url", "kind", "address", "path", "first"),
    [
        ("https://github.com/acme", "github", "https://github.com", "acme",
         "https://api.github.com/orgs/acme/repos?per_page=100"),
        ("https://github.com/orgs/acme/", "github", "https://github.com", "acme",
         "https://api.github.com/orgs/acme/repos?per_page=100"),
        ("https://acme.ghe.com/team", "github", "https://acme.ghe.com", "team",
         "https://api.acme.ghe.com/orgs/team/repos?per_page=100"),
        ("https://GitHub.acme.org:8443/team", "github", "https://github.acme.org:8443", "team",
         "https://github.acme.org:8443/api/v3/orgs/team/repos?per_page=100"),
        ("https://gitlab.com/acme/back/end", "gitlab", "https://gitlab.com", "acme/back/end",
         "https://gitlab.com/api/v4/groups/acme%2Fback%2Fend/projects?per_page=100&page=1"
         "&include_subgroups=true&with_shared=false"),
    ],
)  # fmt: skip
def test_the_address_of_an_organisation_leads_to_its_api(
    url: str, kind: str, address: str, path: str, first: str
) -> None:
    organisation = parse_organisation(url)
    assert organisation == Organisation(address, path, kind)
    assert organisation.listings()[0] == first


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("acme", "Not the address of an organisation: acme"),
        ("https://github.com", "Not the address of an organisation"),
        ("git@github.com:acme", "Not the address of an organisation"),
        (f"https://me:{TOKEN}@github.com/acme", "Not the address of an organisation"),
        ("https://github.com/acme/shop", "but of a repository"),
        ("https://git.acme.org/team", "git.acme.org may be GitHub or GitLab"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as refused:
        parse_organisation(url)
    assert TOKEN not in str(refused.value.as_dict())


def test_all_pages_are_read_and_say_what_each_repository_is(host: CodeHost) -> None:
    fork = {"fork": True} if host.kind == "github" else {"forked_from_project": {"id": 1}}
    host.add("acme", "old", archived=True, **fork)
    host.add("acme", "elsewhere")
    url = "clone_url" if host.kind == "github" else "http_url_to_repo"
    host.repositories["acme"][-1][url] = "https://other.org/acme/elsewhere.git"
    found = listed(host)
    assert [one.name for one in found] == ["api", "shop", "web", "old", "elsewhere"]
    assert found[0].url == host.url("acme/api.git")
    assert [one.name for one in found if one.is_archived] == ["old"]
    assert [one.name for one in found if one.is_fork] == ["old"]
    assert [one.name for one in found if not one.is_on_host] == ["elsewhere"]
    assert len(host.requests) == 3


def test_repositories_of_subgroups_are_named_by_their_path(tmp_path: Path) -> None:
    with hosting(tmp_path, "gitlab") as host:
        host.add("acme/tools", "lint")
        assert [one.name for one in listed(host)] == ["tools/lint"]


def test_a_user_has_repositories_too(host: CodeHost) -> None:
    host.users.add("acme")
    assert len(listed(host)) == 3


def test_what_is_private_needs_the_token(host: CodeHost) -> None:
    host.token = TOKEN
    assert len(listed(host, token=TOKEN)) == 3
    variable = f"{host.kind.upper()}_TOKEN"
    with pytest.raises(InvalidInput, match="No organisation") as unknown:
        listed(host)
    assert variable in (unknown.value.hint or "")
    wrong = "wr0ng-token"
    with pytest.raises(InvalidInput, match=f"refuses the token in {variable}") as refused:
        listed(host, token=wrong)
    assert wrong not in str(refused.value.as_dict())
    with pytest.raises(InvalidInput, match="blanks or special characters"):
        listed(host, token="two words")


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1900000000"}, "until 2030-03-1"),
        (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": "1900000000"}, "until 2030-03-1"),
        (429, {"Retry-After": "60"}, "until " + time.strftime("%Y-")),
        (403, {"X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": "1900000000"}, "status 403"),
        (502, {}, "answered with status 502"),
    ],
)
def test_a_refusal_says_why_and_until_when(
    host: CodeHost, status: int, headers: dict[str, str], message: str
) -> None:
    host.refusal = (status, headers)
    with pytest.raises(CodebaseError, match=message) as refused:
        listed(host, token=TOKEN)
    assert TOKEN not in str(refused.value.as_dict())


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[1]", b'[{"name": "x"}]'])
def test_another_program_at_the_address_is_told_apart(host: CodeHost, body: bytes) -> None:
    host.body = body
    with pytest.raises(IndexingFailed, match=r"did not answer as Git(Hub|Lab) does"):
        listed(host)


def test_a_host_names_neither_files_nor_other_hosts(host: CodeHost) -> None:
    url = "clone_url" if host.kind == "github" else "http_url_to_repo"
    host.repositories["acme"][0][url] = "file:///etc"
    with pytest.raises(IndexingFailed, match="not its own: file:///etc"):
        listed(host)


def test_the_token_follows_no_link_to_another_host(tmp_path: Path) -> None:
    with hosting(tmp_path / "a", "github") as host, hosting(tmp_path / "b", "github") as other:
        link = f'<{other.url("api/v3/orgs/acme/repos")}>; rel="next"'
        host.refusal = (200, {"Link": link})
        host.body = b"[]"
        with pytest.raises(IndexingFailed, match="a next page on another host"):
            listed(host, token=TOKEN)
        host.refusal = (302, {"Location": other.url("api/v3/orgs/acme/repos")})
        other.add("acme", "api")
        other.token = "another"
        with pytest.raises(InvalidInput, match="No organisation"):  # asked without any token
            listed(host, token=TOKEN)


def test_a_host_that_is_away_is_named() -> None:
    with pytest.raises(IndexingFailed, match=r"http://127\.0\.0\.1:9 cannot be reached \(127"):
        repositories_of(parse_organisation("http://127.0.0.1:9/acme", "github"), None)
