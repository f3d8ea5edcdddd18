"""Of hundreds of repositories and runs a page shows a part: what fits the filter, page by page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request
from tests.web.conftest import running
from tests.web.test_pages import Seen, indexed, seen

from codebase_mcp.app.app import App
from codebase_mcp.database.projects import ensure_project
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.http import make_asgi_app
from codebase_mcp.web.pages import indexes, searching, site
from codebase_mcp.web.pages.listing import listed

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


@pytest.mark.parametrize(
    ("query", "items", "fitting", "page", "pages"),
    [
        ("", ["api-1", "API-2"], 5, 1, 3),
        ("page=3", ["web"], 5, 3, 3),
        ("page=4", ["web"], 5, 3, 3),
        ("page=-1", ["api-1", "API-2"], 5, 1, 3),
        ("page=%C2%B2", ["api-1", "API-2"], 5, 1, 3),
        ("match=+api&page=2", ["api-3"], 3, 2, 2),
        ("match=srv/w", ["web"], 1, 1, 1),
        ("match=x&page=2", [], 0, 1, 1),
    ],
)
def test_the_address_says_which_part_of_a_list_is_shown(
    query: str, items: list[str], fitting: int, page: int, pages: int
) -> None:
    request = Request({"type": "http", "query_string": query.encode(), "headers": []})
    names = ["api-1", "API-2", "api-3", "shop", "web"]
    part = listed(request, names, lambda name: (name, f"/srv/{name}"), 2)
    assert (part.items, part.fitting, part.page, part.pages) == (items, fitting, page, pages)
    assert part.total == 5


def headings(page: Seen) -> set[str]:
    """The repositories that a page shows, those of the search form left out."""
    return set(re.findall(r"(?:api|shop)-\d+", page.text.rpartition("Languages")[2]))


async def test_repositories_are_filtered_and_shown_page_by_page(
    http: httpx2.AsyncClient,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexes, "_PER_PAGE", 2)
    monkeypatch.setattr(searching, "_PER_PAGE", 2)
    for name in ("api-1", "api-2", "api-3", "shop-1"):
        await indexed(http, make_repo({"a.py": "x = 1\n"}, name), project_id)
    for path in ("/", "/index"):
        place = {"project": project_id, "match": f"{make_repo({}).parent.name}/api"}
        first = seen(await http.get(path, params=place))
        assert headings(first) == {"api-1", "api-2"}
        assert "Page 1 of 2" in first.text
        second = seen(await http.get(first.link("page=2")))
        assert headings(second) == {"api-3"}
        assert second.link("page=1")
        none = seen(await http.get(path, params=place | {"match": "nowhere-at-all"}))
        assert "No repository fits the filter" in none.text


async def test_the_filter_reaches_projects_that_are_not_listed(
    app: App, http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(site, "_MOST_PROJECTS", 1)
    await indexed(http, make_repo({"a.py": "x = 1\n"}, "api-1"), project_id)
    newer = f"newer-{project_id[-12:]}"
    await ensure_project(app.database, newer)
    assert project_id not in seen(await http.get("/")).text
    found = seen(await http.get("/", params={"match": project_id}))
    assert headings(found) == {"api-1"}
    await app.drop_project(newer)


async def test_of_many_runs_the_first_are_shown_and_the_rest_is_counted(
    app: App, settings: Settings, make_repo: MakeRepo, project_id: str
) -> None:
    async with running(make_asgi_app(replace(settings, jobs=0))) as http:
        await indexed(http, make_repo({"a.py": "x = 1\n"}, "first"), project_id)
        project = await ensure_project(app.database, project_id)
        for number in range(8):
            await app.jobs.enqueue(project, Path(f"/nowhere/{number}"))
        page = seen(await http.get("/index", params={"project": project_id}))
    assert page.text.count("Queued") == 5
    assert "3 more are running or queued" in page.text
