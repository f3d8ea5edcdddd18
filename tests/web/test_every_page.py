"""Every page and form, with values that are right, odd or forbidden: none answers with a fault."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from tests.conftest import SAMPLE
from tests.web.conftest import serving
from tests.web.test_pages import commit_all, indexed

from codebase_mcp.access.identity import Access
from codebase_mcp.access.keys import create_key
from codebase_mcp.database.connection import Database
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.pages.reading import OPERATIONS
from codebase_mcp.web.pages.routes import GET, POST
from codebase_mcp.web.pages.site import TOKEN_COOKIE

pytestmark = pytest.mark.anyio

# The parameters of each page, with values that are right.
PAGES: dict[str, dict[str, str]] = {
    "/": {},
    "/search": {
        "q": "authenticate user", "language": "python", "directory": "src", "kind": "code",
        "ref": "HEAD", "limit": "20", "as": "agent",
        "by": "text", "case": "1", "word": "1", "regex": "1",
    },
    "/results": {"q": "authenticate user", "kind": "test", "ref": "HEAD", "limit": "20"},
    "/file": {"path": "src/auth.py", "ref": "HEAD", "lines": "1-2", "changes": "1"},
    "/symbol": {"name": "authenticate", "operation": "references", "ref": "HEAD"},
    "/index": {"done": "started"},
    "/index/events": {},
    "/tasks": {"status": "complete", "after": ""},
    "/memory": {"q": "", "session": "Day", "type": "Insight", "after": ""},
    "/work": {"item": "", "after": ""},
    "/entities": {"type": "service", "after": ""},
    "/changes": {"a": "HEAD~1", "b": "HEAD", "commit": "", "uncommitted": ""},
    "/context": {"task": "authenticate fails", "want": "change", "ref": "HEAD"},
    "/status": {},
    "/sign-in": {"next": "/search?q=x", "wrong": "1"},
}  # fmt: skip
FORMS: dict[str, dict[str, str]] = {
    "/context": {"task": "authenticate fails", "want": "change", "ref": "HEAD"},
    "/index/start": {"path": "/no/such/folder"},
    "/index/cancel": {"repository": str(uuid4())},
    "/index/remove": {"repository": str(uuid4())},
    "/sign-in": {"key": "cbm_wrong", "next": "/search?q=x"},
    "/sign-out": {},
}
ODD = [
    "", "\0", "a\0b", "x" * 5_000, "-1", "9" * 400, "src/auth.py:" + "9" * 400, "../" * 50, "%s'",
    "\ud800".encode("utf-8", "surrogatepass"), b"\xff", "[]", "a b", "HEAD:src",
]  # fmt: skip
# What a symbol's page is asked about.
ABOUT = [{"name": "Kind"}, {"name": "", "place": "src/kinds.py:1"}, {"name": "", "place": "\0:1"}]


@pytest.fixture
async def server(
    settings: Settings, make_repo: Callable[..., Path], project_id: str
) -> AsyncIterator[tuple[str, dict[str, str]]]:
    """A server with an index and records, and the parameters that all pages have."""
    root = make_repo(SAMPLE | {"src/kinds.py": "class Kind: ...\n\n\nclass Sort(Kind): ...\n"})
    commit_all(root, "First")
    (root / "src/auth.py").write_text("def authenticate(user, secret):\n    return False\n")
    commit_all(root, "Second")
    async with serving(settings) as served:
        async with httpx2.AsyncClient(base_url=served.address, timeout=60) as http:
            repository = await indexed(http, root, project_id)
            for tool, call in [
                ("create_task", {"title": "Task"}),
                ("session", {"operation": "start", "session_id": "Day"}),
                ("create_work_item", {"item_type": "project", "title": "Above"}),
                ("register_entity_type", {"type_name": "service", "schema": {"type": "object"}}),
            ]:
                made = await http.post(f"/tools/{tool}", json={"project_id": project_id, **call})
                assert made.status_code == 200, made.text
        yield served.address, {"project": project_id, "repository": repository}


async def answer_of(http: httpx2.AsyncClient, path: str, asked: dict[str, Any]) -> int:
    """The status of a page; of a stream, which goes on, only its head is read."""
    async with http.stream("GET", path, params=asked) as answer:
        if answer.headers["content-type"].startswith("text/html"):
            await answer.aread()
        return answer.status_code


async def test_no_page_answers_with_a_fault_whatever_its_parameters(
    server: tuple[str, dict[str, str]],
) -> None:
    assert (PAGES.keys(), FORMS.keys()) == (dict(GET).keys(), dict(POST).keys())
    address, shared = server
    faults: list[tuple[str, dict[str, Any]]] = []
    async with httpx2.AsyncClient(base_url=address, timeout=60) as http:
        for path, own in PAGES.items():
            right = {name: value for name, value in (shared | own).items() if value}
            assert await answer_of(http, path, right) == 200, path
            changes: list[dict[str, Any]] = [
                {name: odd}
                for number, name in enumerate(shared | own)
                for odd in ODD[number % 2 :: 2]
            ]
            if path == "/symbol":
                changes += [{"operation": operation, **about} for operation in OPERATIONS
                            for about in ABOUT]  # fmt: skip
            for change in changes:
                status = await answer_of(http, path, right | change)
                faults += [(path, change)] if status == 500 else []
            faults += [(path, {})] if await answer_of(http, path, {}) == 500 else []
        for path, own in FORMS.items():
            form = {"token": http.cookies[TOKEN_COOKIE], **shared, **own}
            for number, name in enumerate(form):
                for odd in ODD[number % 2 :: 2]:
                    answer = await http.post(path, data=form | {name: odd}, headers=ours(address))
                    faults += [(path, {name: odd})] if answer.status_code == 500 else []
    assert not faults, faults


def ours(address: str) -> dict[str, str]:
    return {"Origin": address}


async def test_what_a_key_may_not_see_is_refused_by_every_page_and_form(
    settings: Settings, database: Database, project_id: str
) -> None:
    reads, writes = (frozenset({"read"}), ("other-*",)), (frozenset({"write"}), ("*",))
    for scopes, projects in (reads, writes):
        _, key = await create_key(database, "alice", Access(scopes, projects, False))
        async with (
            serving(replace(settings, require_keys=True)) as served,
            httpx2.AsyncClient(
                base_url=served.address, timeout=60, headers={"Authorization": f"Bearer {key}"}
            ) as http,
        ):
            await http.get("/sign-in")
            asked = {"project": project_id, "repository": str(uuid4())}
            for path, own in PAGES.items():
                status = await answer_of(http, path, asked | own)
                assert status == 200 if path == "/sign-in" else status in (400, 403, 404), path
            for path, own in FORMS.items():
                form = {"token": http.cookies[TOKEN_COOKIE], **asked, **own}
                answer = await http.post(path, data=form, headers=ours(served.address))
                is_open = path.startswith("/sign-")
                assert answer.status_code in ((303,) if is_open else (403, 404)), path
