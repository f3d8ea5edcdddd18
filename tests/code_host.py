"""A code host in this process: the REST APIs of GitHub and GitLab as documented, and git itself.

    with hosting(folder, "github") as host:
        host.add("acme", "shop", {"a.py": "x = 1\n"})
        host.token = "…"                        # from now on all that is private needs it
        host.refusal = (403, {"Retry-After": "60"})   # the answer to all further API requests
        host.requests                           # their paths

GitHub's links name the next page in the header Link, GitLab's the number in X-Next-Page.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.git import git
from tests.git_server import GitServer, Handler, listening


@dataclass
class CodeHost(GitServer):
    """Repositories by their organisation; a user's are those of ``users``."""

    kind: str = "github"
    repositories: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    users: set[str] = field(default_factory=set)
    token: str | None = None
    refusal: tuple[int, Mapping[str, str]] | None = None
    body: bytes | None = None
    """Sent instead of a page."""
    requests: list[str] = field(default_factory=list)
    most_per_page: int = 100

    def add(
        self,
        organisation: str,
        name: str,
        files: Mapping[str, str] | None = None,
        **facts: Any,
    ) -> Path:
        """Make a repository; ``facts`` are fields of its entry."""
        folder = self.root / organisation / name
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        if files is not None:
            commit(folder, files)
        url = self.url(f"{organisation}/{name}.git")
        owner = organisation.partition("/")[0]
        if self.kind == "github":
            entry = {"name": name, "clone_url": url, "archived": False, "fork": False}
        else:
            path = f"{organisation}/{name}"
            entry = {"path_with_namespace": path, "http_url_to_repo": url, "archived": False}
        (self.root / organisation / f"{name}.git").symlink_to(name)
        self.repositories.setdefault(owner, []).append({**entry, **facts})
        return folder


def commit(folder: Path, files: Mapping[str, str]) -> None:
    """Commit files in a repository."""
    for path, text in files.items():
        (folder / path).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a change")


@contextlib.contextmanager
def hosting(root: Path, kind: str) -> Iterator[CodeHost]:
    """Serve the API of this kind, and the repositories themselves."""
    state = CodeHost(root, kind=kind)
    with listening(state, _ApiHandler):
        yield state


class _ApiHandler(Handler):
    state: CodeHost

    def answer(self, body: bytes) -> None:
        if not self.path.startswith("/api/"):
            super().answer(body)
            return
        host, url = self.state, urlsplit(self.path)
        host.requests.append(self.path)
        if host.refusal is not None:
            self.reply(host.refusal[0], {"message": "No."}, host.refusal[1])
            return
        given = self.headers.get("Authorization")
        if host.token is not None and given not in (None, f"Bearer {host.token}"):
            self.reply(401, {"message": "Bad credentials"})
            return
        found = self.listed(url.path)
        is_private = host.token is not None and given is None
        if found is None or is_private:
            self.reply(404, {"message": "Not Found"})
            return
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        size = min(int(query.get("per_page", 30)), host.most_per_page)
        page = int(query.get("page", 1))
        has_next = page * size < len(found)
        if host.kind == "gitlab":
            headers = {"X-Next-Page": str(page + 1) if has_next else "", "X-Page": str(page)}
        else:
            target = host.url(f"{url.path[1:]}?per_page={size}&page={page + 1}")
            headers = {"Link": f'<{target}>; rel="next"'} if has_next else {}
        self.reply(200, found[(page - 1) * size : page * size], headers)

    def listed(self, path: str) -> list[dict[str, Any]] | None:
        """The repositories that a path names; None if there is no such path."""
        host = self.state
        prefix, kinds, last = {
            "github": ("/api/v3/", ("orgs", "users"), "repos"),
            "gitlab": ("/api/v4/", ("groups", "users"), "projects"),
        }[host.kind]
        parts = path.removeprefix(prefix).split("/")
        if not path.startswith(prefix) or len(parts) != 3 or parts[2] != last:
            return None
        owner = unquote(parts[1])
        is_user = owner in host.users
        return host.repositories.get(owner) if parts[0] == kinds[is_user] else None

    def reply(self, status: int, content: object, headers: Mapping[str, str] | None = None) -> None:
        body = self.state.body or json.dumps(content).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
