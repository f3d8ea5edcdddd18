"""Which repositories does an organisation have? Asks the REST API of GitHub or GitLab.

Self-hosted servers speak the same protocols. The token is sent to the organisation's host alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx2

from codebase_mcp.errors import CodebaseError, IndexingFailed, InvalidInput
from codebase_mcp.source.clone import GITHUB, GITLAB
from codebase_mcp.source.remote import masked, parse_remote

KINDS = (GITHUB, GITLAB)
TOKENS = {GITHUB: "GITHUB_TOKEN", GITLAB: "GITLAB_TOKEN"}
"""The variables that hold the token of each kind of code host."""

_ADDRESS = "Write it like https://github.com/acme or https://gitlab.example.org/team."
_TIMEOUT_S = 20.0
# Both hosts give at most a hundred entries a page. More pages than this are a loop.
_PER_PAGE = 100
_MOST_PAGES = 1_000


@dataclass(frozen=True, slots=True)
class Organisation:
    """An organisation or user of GitHub, or a group of GitLab; ``path`` is its name there.

    ``address`` is the host's, with scheme and port. ``kind`` is one of ``KINDS``.
    """

    address: str
    path: str
    kind: str

    @property
    def url(self) -> str:
        return f"{self.address}/{self.path}"

    def listings(self) -> tuple[str, str]:
        """The first page of its repositories, and the one to ask if there is no organisation."""
        if self.kind == GITLAB:
            api, name = f"{self.address}/api/v4", quote(self.path, safe="")
            query = f"?per_page={_PER_PAGE}&page="
            inner = "&include_subgroups=true&with_shared=false"
            return (
                f"{api}/groups/{name}/projects{query}1{inner}",
                f"{api}/users/{name}/projects{query}1",
            )
        scheme, _, host = self.address.partition("://")
        on_cloud = host == "github.com" or host.endswith(".ghe.com")
        api = f"{scheme}://api.{host}" if on_cloud else f"{self.address}/api/v3"
        query = f"?per_page={_PER_PAGE}"
        return f"{api}/orgs/{self.path}/repos{query}", f"{api}/users/{self.path}/repos{query}"


@dataclass(frozen=True, slots=True)
class HostedRepository:
    """A repository of an organisation; ``name`` has the names of its subgroups before it.

    ``is_on_host`` says whether it is cloned from the organisation's own host, which may get the
    token.
    """

    name: str
    url: str
    is_archived: bool
    is_fork: bool
    is_on_host: bool


def parse_organisation(url: str, kind: str | None = None) -> Organisation:
    """The organisation of a URL such as ``https://github.com/acme``.

    Raises:
        InvalidInput: it names none, or the host may be of either kind and ``kind`` is None.
    """
    try:
        remote = parse_remote(url)
    except InvalidInput:
        remote = None
    if remote is None or remote.scheme not in ("http", "https") or remote.username:
        shown = masked(url)
        message = f"Not the address of an organisation: {shown}"
        raise _invalid(shown, message, "a URL without user and password", _ADDRESS)
    scheme, _, authority, *names = remote.identity.split("/")
    if names[0] in ("orgs", "groups") and names[1:]:  # as browsers show it
        names = names[1:]
    if kind is None:
        kind = next((known for known in KINDS if known in remote.host), None)
        kind = GITHUB if remote.host.endswith(".ghe.com") else kind
    if kind is None:
        way_out = "Add --code-host github, or --code-host gitlab."
        message = f"{remote.host} may be GitHub or GitLab"
        raise _invalid(url, message, "a host whose kind is known", way_out)
    if kind == GITHUB and len(names) > 1:
        message = f"Not the address of an organisation, but of a repository: {url}"
        raise _invalid(url, message, "https://host/name", _ADDRESS)
    return Organisation(f"{scheme}//{authority}", "/".join(names), kind)


def repositories_of(organisation: Organisation, token: str | None) -> list[HostedRepository]:
    """All repositories that the token shows, or everybody may see without one.

    Raises:
        InvalidInput: no such organisation, or the host refuses the token.
        IndexingFailed: the host does not answer, or allows no more requests for now.
    """
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        name = TOKENS[organisation.kind]
        raise InvalidInput.of(
            name,
            None,
            f"{name} holds blanks or special characters",
            rule="a token as the host shows it",
        )
    headers = {"Accept": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    with httpx2.Client(headers=headers, timeout=_TIMEOUT_S, follow_redirects=True) as client:
        for first in organisation.listings():
            if (entries := _all_pages(client, organisation, first)) is not None:
                return [_repository(organisation, entry) for entry in entries]
    spelling = "Check its spelling"
    raise _invalid(
        organisation.url,
        f"No organisation, group or user of this name: {organisation.url}",
        "an organisation that the token may see" if token else "an organisation that all may see",
        f"{spelling}, and the rights of the token."
        if token
        else f"{spelling}. If it is private, set {TOKENS[organisation.kind]} in the environment.",
    )


def _all_pages(
    client: httpx2.Client, organisation: Organisation, url: str
) -> list[Mapping[str, Any]] | None:
    """The entries of all pages; None if the first is not found."""
    entries: list[Mapping[str, Any]] = []
    next_url: str | None = url
    for _ in range(_MOST_PAGES):
        if next_url is None:
            return entries
        response = _get(client, organisation, next_url)
        if response.status_code == 404 and not entries:
            return None
        if response.status_code != 200:
            raise _failure(organisation, response)
        entries += _entries(organisation, response)
        next_url = _next_page(organisation, response, url)
    raise _failed(organisation, "lists more pages than an organisation can have")


def _next_page(organisation: Organisation, response: httpx2.Response, first: str) -> str | None:
    """The URL of the next page, always on the host of the first, which gets the token."""
    if organisation.kind == GITLAB:  # its links are wrong behind some proxies
        page = response.headers.get("x-next-page", "")
        return first.replace("&page=1", f"&page={int(page)}", 1) if page.isdecimal() else None
    link = response.links.get("next", {}).get("url")
    if link is None:
        return None
    target = response.url.join(link)
    if target.origin != response.url.origin:
        raise _failed(organisation, "names a next page on another host")
    return str(target)


def _get(client: httpx2.Client, organisation: Organisation, url: str) -> httpx2.Response:
    try:
        return client.get(url)
    except httpx2.TimeoutException:
        reason = f"did not answer within {_TIMEOUT_S:g} s"
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        host = httpx2.URL(url).host
        reason = f"cannot be reached ({host}): {str(error) or type(error).__name__}"
    raise _failed(organisation, reason)


def _entries(organisation: Organisation, response: httpx2.Response) -> list[Mapping[str, Any]]:
    try:
        listed = response.json()
    except (ValueError, RecursionError):
        listed = None
    name, url = _FIELDS[organisation.kind][:2]
    if not isinstance(listed, list) or not all(
        isinstance(entry, dict) and {str} == {type(entry.get(name)), type(entry.get(url))}
        for entry in listed
    ):
        kinds = {GITHUB: "GitHub", GITLAB: "GitLab"}
        raise _failed(organisation, f"did not answer as {kinds[organisation.kind]} does")
    return listed


# The fields of an entry: name, URL, whether it is archived, whether it is a fork.
_FIELDS = {
    GITHUB: ("name", "clone_url", "archived", "fork"),
    GITLAB: ("path_with_namespace", "http_url_to_repo", "archived", "forked_from_project"),
}


def _repository(organisation: Organisation, entry: Mapping[str, Any]) -> HostedRepository:
    name, url, archived, fork = (entry.get(field) for field in _FIELDS[organisation.kind])
    if not str(url).startswith(("https://", "http://")):  # no file of this machine
        raise _failed(organisation, f"names an address that is not its own: {masked(str(url))}")
    return HostedRepository(
        str(name).removeprefix(f"{organisation.path}/"),
        str(url),
        bool(archived),
        bool(fork),
        str(url).startswith(f"{organisation.address}/"),
    )


def _failure(organisation: Organisation, response: httpx2.Response) -> CodebaseError:
    """The error of a response with another status than 200."""
    status, headers = response.status_code, response.headers
    variable = TOKENS[organisation.kind]
    has_token = "authorization" in response.request.headers
    if status in (403, 429) and (until := _limited_until(headers)):
        hint = "Wait until then." if has_token else f"Wait until then, or set {variable}."
        return _failed(organisation, f"allows no more requests until {until}", hint)
    if status in (401, 403):
        what = f"refuses the token in {variable}" if has_token else "asks for a token"
        hint = (
            "Check that it is valid, and may read the organisation's repositories."
            if has_token
            else f"Set {variable} in the environment."
        )
        return _invalid(
            organisation.url, f"{organisation.address} {what} (status {status})", "a token", hint
        )
    return _failed(organisation, f"answered with status {status}")


def _limited_until(headers: httpx2.Headers) -> str | None:
    """When a rate limit ends, as local time; None if that is not why a request was refused."""
    wait = headers.get("retry-after", "")
    is_over = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining")) == "0"
    reset = headers.get("x-ratelimit-reset", headers.get("ratelimit-reset", "")) if is_over else ""
    if wait.isdecimal():
        at = time.time() + int(wait)
    elif reset.isdecimal():
        at = float(reset)
    else:
        return None
    return datetime.fromtimestamp(min(at, 2**33)).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _invalid(url: str, message: str, rule: str, hint: str) -> InvalidInput:
    return InvalidInput.of("organisation", url, message, rule=rule, hint=hint)


def _failed(organisation: Organisation, what: str, hint: str | None = None) -> IndexingFailed:
    return IndexingFailed(
        f"{organisation.address} {what}",
        hint=hint or "Check the address, and that it is reachable; then run it again.",
        details={"field": "organisation", "value": organisation.url},
    )
