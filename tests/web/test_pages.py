"""The pages as a browser without JavaScript gets them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.conftest import SAMPLE
from tests.web.conftest import serving

from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import find_project
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.pages import records, searching
from codebase_mcp.web.pages.routes import GET, POST
from codebase_mcp.web.pages.site import CONTENT_SECURITY_POLICY, TOKEN_COOKIE

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

SCRIPT = "<script>alert(1)</script>"
HOSTILE_NAME = "src/\"'><img src=x onerror=alert(1)>\u202egpj.py"
HOSTILE_CODE = f'''def hostile_markup(value):
    """{SCRIPT} <!-- </pre></body> {{{{ 7 * 7 }}}} {{% raw %}}"""
    return "javascript:alert(1)" + "\u202e" + value
'''
SCHEMA = {"type": "object", "properties": {"owner": {}, "zone": {}}}
FILES = {**SAMPLE, HOSTILE_NAME: HOSTILE_CODE}
ATTRIBUTES = {"href", "src", "action", "formaction", "poster", "data", "xlink:href"}


class Seen(HTMLParser):
    """What a browser would see in a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data
        self.words.append(data.strip())

    def links(self) -> list[str]:
        """Every address in the page."""
        return [v for _, found in self.tags for n, v in found.items() if n in ATTRIBUTES and v]

    def link(self, text: str) -> str:
        """The first address with this in it."""
        return next(link for link in self.links() if text in link)


def seen(answer: httpx2.Response, status: int = 200) -> Seen:
    """A page that is as safe as every page has to be."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = Seen(answer.text)
    for tag, attributes in page.tags:
        assert tag not in {"style", "iframe", "object", "base"}
        assert tag != "script" or attributes.get("src", "").startswith("/static/")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert [link for link in page.links() if urlsplit(link).netloc or urlsplit(link).scheme] == []
    assert "\u202e" not in answer.text
    assert "<script>alert" not in answer.text
    return page


def hits(page: Seen) -> set[str]:
    """The places that a page of results offers to copy."""
    return {found["data-copy"] or "" for _, found in page.tags if "data-copy" in found}


async def indexed(http: httpx2.AsyncClient, root: Path, project_id: str) -> str:
    """The id of a repository, once it is indexed."""
    call = {"repo_path": str(root), "project_id": project_id}
    reply = (await http.post("/tools/index_repository", json=call)).json()
    assert reply["status"] == "success", reply
    return str(reply["repository_id"])


async def test_a_question_is_answered_without_javascript(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(FILES), project_id)
    in_project = {"project": project_id}

    home = seen(await http.get("/", params=in_project))
    forms = [found for tag, found in home.tags if tag == "form" and found.get("role") == "search"]
    assert forms[0]["action"] == "/search"
    assert "repo" in home.text

    ask = in_project | {"q": "authenticate user with password"}
    answer = await http.get("/search", params=ask)
    found = seen(answer)
    assert found.text.index("auth.py") < found.text.index("test_auth.py")
    assert len(answer.content) < 150_000
    classes = [attributes.get("class") or "" for _, attributes in found.tags]
    assert "l match" in classes
    assert "bar more" in classes
    assert {"tests/test_auth.py:4", "src/auth.py:5"} <= hits(found)
    only_tests = hits(seen(await http.get("/search", params=ask | {"kind": "test"})))
    assert {place.partition("/")[0] for place in only_tests} == {"tests"}
    typescript = {"q": "backoff after failed attempts", "language": "typescript"}
    assert "retry.ts" in seen(await http.get("/search", params=in_project | typescript)).text
    below = ask | {"directory": "nowhere"}
    assert "directory=nowhere leaves none" in seen(await http.get("/search", params=below)).text
    agent = seen(await http.get("/search", params=ask | {"as": "agent"}))
    assert re.search(r"1\. src/auth\.py:\d+-\d+", agent.text)
    assert "about" in agent.text
    assert "tokens" in agent.text
    part = await http.get("/results", params=ask)
    assert "<html" not in part.text
    assert "auth.py" in part.text

    for wrong, status, words in [
        ({"q": "x" * 501}, 400, "500"),
        ({"q": "x", "kind": "odd"}, 400, "kind"),
        ({"q": "x", "repository": "odd"}, 400, "UUID"),
        ({"q": "x", "project": "no-such-project"}, 404, "does not exist"),
        ({"q": "x", "ref": "no-such-branch"}, 400, "no-such-branch"),
    ]:
        refused = seen(await http.get("/search", params=in_project | wrong), status)
        assert words in refused.text
    odd = ask | {"path": "1", "root": "2", "self": "3", "request": "4", "anchor": "5", "limit": "z"}
    seen(await http.get("/search", params=odd))


async def test_names_and_code_are_never_markup(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    repository = await indexed(http, make_repo(FILES), project_id)
    call = {"title": f"Mend {SCRIPT}", "project_id": project_id}
    call |= {"anchors": [{"file": HOSTILE_NAME, "symbol": "hostile_markup"}]}
    created = (await http.post("/tools/create_task", json=call)).json()
    assert "error" not in created, created
    ask = {"project": project_id, "q": "hostile_markup"}

    found = seen(await http.get("/search", params=ask))
    assert "onerror=alert(1)>\\u202egpj.py" in found.text
    assert SCRIPT in found.text
    file = seen(await http.get(found.link("/file?")))
    assert SCRIPT in file.text
    assert f"Mend {SCRIPT}" in file.text
    assert '"\\u202e"' in file.text
    assert {"id": "L1", "class": "l match"}.items() <= dict(
        next(found for tag, found in file.tags if found.get("id") == "L1")
    ).items()
    uses = seen(await http.get(file.link("/symbol?")))
    assert "hostile_markup" in uses.text
    folder = seen(await http.get("/file", params={"project": project_id, "repository": repository}))
    assert "lib/" in folder.text
    inside = seen(await http.get(folder.link("path=src")))
    assert "onerror=alert(1)" in inside.text
    for path, _ in GET:
        reflected = dict.fromkeys(("q", "path", "name", "repository", "project", "ref"), SCRIPT)
        seen(await http.get(path, params=reflected), 200 if path == "/sign-in" else 400)
    missing = {"project": project_id, "repository": repository, "path": SCRIPT}
    assert SCRIPT in seen(await http.get("/file", params=missing), 404).text


async def test_records_changes_and_health_are_shown_as_they_are(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(SAMPLE)
    commit_all(root, f"First {SCRIPT}")
    (root / "src/auth.py").write_text("def authenticate(user, secret):\n    return False\n")
    (root / "src/new.py").write_text("def fresh():\n    return 1\n")
    commit_all(root, "Second")
    repository = await indexed(http, root, project_id)
    in_project = {"project": project_id}

    async def keep(tool: str, **arguments: object) -> dict[str, Any]:
        call = {"project_id": project_id, **arguments}
        reply: dict[str, Any] = (await http.post(f"/tools/{tool}", json=call)).json()
        assert "error" not in reply, reply
        return reply

    await keep("create_task", title=f"Task {SCRIPT}", notes=SCRIPT)
    await keep("session", operation="start", session_id=f"Day {SCRIPT}")
    content = f"Chose bcrypt over sha256 {SCRIPT}"
    await keep(
        "memory",
        operation="store",
        observation_type="Decision",
        content=content,
        session_id=f"Day {SCRIPT}",
    )
    above = await keep("create_work_item", item_type="project", title=f"Above {SCRIPT}")
    below = {"title": "Below", "parent_id": above["id"], "description": SCRIPT}
    await keep("create_work_item", item_type="session", **below)
    await keep("register_entity_type", type_name="service", schema={"type": "object"})
    entity = {"name": f"E {SCRIPT}", "data": {f"key {SCRIPT}": [SCRIPT]}, "tags": [SCRIPT]}
    await keep("create_entity", entity_type="service", **entity)

    tasks = seen(await http.get("/tasks", params=in_project))
    assert f"Task {SCRIPT}" in tasks.text
    memory = seen(await http.get("/memory", params=in_project))
    assert content in memory.text
    assert "1 observation" in seen(await http.get(memory.link("session=Day"))).text
    asked = seen(await http.get("/memory", params=in_project | {"q": "password hashing bcrypt"}))
    assert content in asked.text
    other = seen(await http.get("/memory", params=in_project | {"type": "Insight"}))
    assert content not in other.text
    seen(await http.get("/memory", params=in_project | {"type": SCRIPT}), 400)
    work = seen(await http.get("/work", params=in_project))
    assert work.text.index(f"Above {SCRIPT}") < work.text.index("Below")
    assert ("li", {"class": "depth1"}) in work.tags
    entities = seen(await http.get("/entities", params=in_project))
    assert {f"E {SCRIPT}", f"key {SCRIPT}", f'["{SCRIPT}"]'} <= set(entities.words)

    seen(await http.get("/changes", params=in_project))
    asked = {"a": "HEAD~1", "b": "HEAD", "repository": repository}
    changes = seen(await http.get("/changes", params=in_project | asked))
    assert "1 commit ahead of HEAD~1 and 0 behind" in changes.text
    assert {"authenticate", "logout", "fresh"} <= set(changes.words)
    one = seen(await http.get("/changes", params=in_project | {"commit": "HEAD"}))
    assert "tests/test_auth.py" in one.text
    wrong = in_project | {"commit": SCRIPT}
    assert SCRIPT in seen(await http.get("/changes", params=wrong), 400).text
    health = seen(await http.get("/status", params=in_project))
    assert "healthy" in health.words


def test_of_a_long_result_only_the_lines_around_those_shown_are_coloured() -> None:
    assert searching.windows([]) == []
    assert searching.windows([0, 1, 2, 40]) == [(0, 41)]
    assert searching.windows([0, 1, 500, 520, 2000]) == [(0, 2), (440, 521), (1940, 2001)]


async def test_long_lists_are_shown_page_by_page(
    http: httpx2.AsyncClient,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_PER_PAGE", "_PER_COLUMN", "_TREES", "_PER_TREE", "_SESSIONS"):
        monkeypatch.setattr(records, name, 2)
    in_project = {"project": project_id}
    await indexed(http, make_repo({"a.py": "x = 1\n"}), project_id)

    async def keep(tool: str, **arguments: object) -> dict[str, Any]:
        call = {"project_id": project_id, **arguments}
        reply: dict[str, Any] = (await http.post(f"/tools/{tool}", json=call)).json()
        assert "error" not in reply, reply
        return reply

    await keep("register_entity_type", type_name="service", schema=SCHEMA)
    for number in range(5):
        await keep("create_task", title=f"Task {number}")
        await keep("session", operation="start", session_id=f"Day {number}")
        kind = "Insight" if number == 2 else "Decision"
        said = f"Thought {number}"
        await keep("memory", operation="store", observation_type=kind, content=said)
        data = {"owner": f"Team {number}", "extra": 1}
        await keep("create_entity", entity_type="service", name=f"Thing {number}", data=data)
        root = await keep("create_work_item", item_type="project", title=f"Root {number}")
        if number == 4:
            for below in range(3):
                title = f"Below {below}"
                last = await keep(
                    "create_work_item", item_type="session", title=title, parent_id=root["id"]
                )

    for path, what in [
        ("/tasks?status=need+to+be+done&", "Task"),
        ("/memory?", "Thought"),
        ("/entities?", "Thing"),
        ("/work?", "Root"),
    ]:
        page = seen(await http.get(f"{path}project={project_id}"))
        shown = []
        while True:
            found = [word for word in page.words if re.fullmatch(rf"{what} \d", word)]
            assert len(found) <= 2, path
            shown += found
            assert "Newest" in page.words or shown == found, path
            if "Older" not in page.words:
                break
            page = seen(await http.get(page.link("after=")))
        assert shown == [f"{what} {number}" for number in (4, 3, 2, 1, 0)], path

    board = seen(await http.get("/tasks", params=in_project))
    assert "Older" in board.words
    memory = await http.get("/memory", params=in_project | {"type": "Insight"})
    assert "Thought 2" in seen(memory).words  # the filter comes before the page
    assert "Older sessions are not listed" in memory.text
    table = seen(await http.get("/entities", params=in_project))
    heads = [table.words.index(name) for name in ("owner", "zone", "extra")]
    assert heads == sorted(heads)  # as the schema has them, then others
    tree = seen(await http.get("/work", params=in_project))
    assert "2 more below it:" in tree.text
    whole = seen(await http.get(tree.link("item=")))
    assert {"Root 4", "Below 0", "Below 1", "Below 2"} <= set(whole.words)
    one = seen(await http.get("/work", params=in_project | {"item": last["id"]}))
    assert {"All work items", "Root 4", "Below 2"} <= set(one.words)
    assert "Below 1" not in one.words
    for wrong in ("/tasks?status=odd", "/work?item=odd", "/memory?after=odd", "/work?after=odd"):
        seen(await http.get(f"{wrong}&project={project_id}"), 400)


async def test_a_search_says_that_files_are_left_out_only_if_they_are(
    http: httpx2.AsyncClient,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {f"src/pay{n}.py": f"def pay_{n}(card):\n    return card\n" for n in range(7)}
    await indexed(http, make_repo(files), project_id)
    asked = {"project": project_id, "q": "pay card", "limit": "50"}
    assert "No more than" not in seen(await http.get("/search", params=asked)).text
    monkeypatch.setattr(searching, "_MOST", 6)
    assert "No more than 6 files are shown" in seen(await http.get("/search", params=asked)).text


async def test_the_index_page_counts_masked_secrets_and_a_directory_lists_all_files(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str, database: Database
) -> None:
    key = "AKIA" + "Z7VRSQ5TJN2XMPLK"  # in two parts, so that no scanner takes it for ours
    files = {"src/keys.py": f'aws_key = "{key}"\n', "README.md": "Hello\n"}
    repository = await indexed(http, make_repo(files), project_id)
    in_project = {"project": project_id}
    index = await http.get("/index", params=in_project)
    assert "Secrets masked1" in seen(index).text
    assert "Secrets are masked in 1 file" in seen(index).text
    assert key not in index.text
    assert "src/keys.py" in seen(await http.get(seen(index).link("path=src%2Fkeys.py"))).text
    assert "without counting" not in index.text
    project = await find_project(database, project_id)
    async with database.transaction(project) as tx:
        await tx.execute("UPDATE blob SET secrets = NULL")  # as an earlier version left it
    assert "In 2 files an earlier version" in seen(await http.get("/index", params=in_project)).text
    folder = in_project | {"repository": repository}
    assert "README.md" in seen(await http.get("/file", params=folder)).words


def commit_all(root: Path, message: str) -> None:
    """Commit all files of a tree."""
    author = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", message]):
        subprocess.run(["git", "-C", str(root), *command], check=True)


async def test_only_forms_of_our_own_pages_are_accepted(http: httpx2.AsyncClient) -> None:
    page = seen(await http.get("/index"))
    token = next(found["value"] for _, found in page.tags if found.get("name") == "token")
    assert http.cookies[TOKEN_COOKIE] == token
    ours = {"Origin": str(http.base_url).rstrip("/")}
    for path, _ in POST:
        for headers, form in [
            (ours, {}),
            (ours, {"token": "guessed"}),
            ({}, {"token": token}),
            ({"Origin": "http://localhost:8080"}, {"token": token}),
            ({"Origin": "http://evil.example"}, {"token": token}),
            (ours | {"Sec-Fetch-Site": "cross-site"}, {"token": token}),
        ]:
            refused = await http.post(path, data=form, headers=headers)
            assert refused.status_code == 403, (path, headers, form)
        assert path in dict(GET) or (await http.get(path)).status_code == 405
    # Accepted: what is wrong is what it says.
    wrong = await http.post(
        "/index/start", data={"token": token, "path": "/no/such/folder"}, headers=ours
    )
    assert "/no/such/folder" in seen(wrong, 400).text
    large = await http.post("/index/start", content=b"x" * 100_000, headers=ours)
    seen(large, 400)
    for path, _ in GET:
        assert (await http.get(path, headers={"Host": "evil.example"})).status_code == 421


async def test_a_page_that_follows_runs_does_not_keep_the_server_from_ending(
    settings: Settings, make_repo: MakeRepo, project_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(settings) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as http:
            await indexed(http, make_repo(), project_id)
            ask = {"project": project_id}
            async with http.stream("GET", "/index/events", params=ask) as events:
                assert events.headers["content-type"].startswith("text/event-stream")
                lines = events.aiter_lines()
                assert await anext(lines) == ": alive"
                server.shutdown.begin()
                async for _ in lines:  # the response is completed, not broken off
                    pass
        await server.task
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_static_files_are_kept_and_nothing_else_is_served(http: httpx2.AsyncClient) -> None:
    home = seen(await http.get("/"))
    names = {link for link in home.links() if link.startswith("/static/")}
    assert {urlsplit(name).path for name in names} == {
        "/static/page.css", "/static/page.js", "/static/icon.svg"
    }  # fmt: skip
    sent = 0
    for name in names:
        answer = await http.get(name)
        assert "immutable" in answer.headers["cache-control"]
        assert not re.search(rb"(?:src|href|url\(|import|fetch\()\W*https?:", answer.content)
        sent += len(answer.content)
    assert sent < 50_000
    for name in ["/static/site.py", "/static/..%2fsite.py", "/static/%2e%2e/site.py"]:
        assert (await http.get(name)).status_code == 404
