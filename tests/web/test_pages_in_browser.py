"""The pages in a real Chromium: keys, live results, progress, accessibility, no JavaScript."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect
from tests.conftest import SAMPLE
from tests.waiting import until
from tests.web.conftest import Hold, serving
from tests.web.test_pages import FILES, HOSTILE_NAME, SCHEMA, SCRIPT, commit_all

from codebase_mcp.access.identity import Access
from codebase_mcp.access.keys import create_key
from codebase_mcp.app.app import App
from codebase_mcp.app.background.lifespan import background_lifespan
from codebase_mcp.database.projects import find_project
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.pages.routes import WHOLE_PAGES
from codebase_mcp.web.pages.site import SIGN_IN

MakeRepo = Callable[..., Path]

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
# In the dark only colours differ.
RULES = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "dark": {"type": "rule", "values": ["color-contrast"]},
}

OPEN_ALL = "for (const one of document.querySelectorAll('main details')) one.open = true"
ANCHORS = [{"file": "src/auth.py", "symbol": "authenticate"}]
RECORDS: list[tuple[str, dict[str, Any]]] = [
    ("create_task", {"title": "Hash passwords", "notes": "with bcrypt", "anchors": ANCHORS}),
    ("session", {"operation": "start", "session_id": "Monday"}),
    (
        "memory",
        {
            "operation": "store",
            "observation_type": "Decision",
            "content": "Chose bcrypt over sha256",
            "session_id": "Monday",
            "anchors": ANCHORS,
        },
    ),
    ("create_work_item", {"item_type": "project", "title": "Passwords", "description": "All."}),
    ("register_entity_type", {"type_name": "service", "schema": SCHEMA}),
    ("create_entity", {"entity_type": "service", "name": "Login", "data": {"owner": "us"}}),
]

needs_chromium = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        CHROMIUM is None and os.environ.get("CI") != "true",
        reason="no Chromium here: make browser installs it",
    ),
    # Playwright's transport is not closed before its loop.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
pytestmark = needs_chromium


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        # In CI without a browser of the system there has to be Playwright's own: see make browser.
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@asynccontextmanager
async def tab(
    browser: Browser, address: str, *, refused: bool = False, **options: Any
) -> AsyncIterator[Page]:
    """A tab in which nothing may fail, and which may ask no other host.

    Where it asks for pages that are ``refused``, the browser says so on its console.
    """
    context = await browser.new_context(base_url=address, **options)
    context.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await context.new_page()
    asked: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    yield page
    await context.close()
    assert [url for url in asked if not url.startswith(address)] == []
    assert [one for one in problems if not (refused and "status of 40" in one)] == []


async def require_accessible(page: Page) -> None:
    """See that axe finds no violation of WCAG AA, in light and in dark."""
    for scheme, rules in RULES.items():
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found = await Axe().run(page, options={"runOnly": rules})
        shown = [
            (one["id"], node["html"][:200])
            for one in found.response["violations"]
            for node in one["nodes"][:3]
        ]
        assert shown == [], (page.url, scheme)


async def test_search_as_you_type_with_keys(
    settings: Settings, app: App, make_repo: MakeRepo, project_id: str, browser: Browser
) -> None:
    await app.index(make_repo(FILES), project_id)
    async with serving(settings) as server, tab(browser, server.address, refused=True) as page:
        await page.goto(f"/?project={project_id}")
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        await page.keyboard.type("authenticate user with password", delay=5)
        await expect(page.locator(".hit .path").first).to_have_text("src/auth.py")
        assert "q=authenticate" in page.url
        await expect(page.locator(".match").first).to_be_visible()
        await page.locator("summary", has_text="Why here").first.click()
        await expect(page.locator(".signals").first).to_contain_text("meaning")

        await page.get_by_label("Kind").select_option("test")
        await expect(page.locator(".hit .path").first).to_have_text("tests/test_auth.py")
        await page.reload()  # every state has a URL
        await expect(page.get_by_label("Kind")).to_have_value("test")
        await page.get_by_label("Kind").select_option("")
        await expect(page.locator(".hit .path").first).to_have_text("src/auth.py")
        await page.get_by_label("View").fill("half-of-a-na")
        await expect(page.locator("#results")).to_contain_text("half-of-a-na")
        await expect(page.get_by_label("View")).to_be_focused()
        await page.get_by_label("View").fill("")
        await expect(page.locator(".hit .path").first).to_have_text("src/auth.py")

        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await page.keyboard.press("y")
        await expect(page.locator(".toast")).to_contain_text("src/auth.py:5")
        assert await page.evaluate("navigator.clipboard.readText()") == "src/auth.py:5"
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_contain_text("auth.py")
        await expect(page.locator(".l.match").first).to_be_visible()

        await page.locator("#L5 .f").click()
        await page.locator(".word").get_by_text("Uses of authenticate").click()
        await expect(page.locator("main")).to_contain_text("tests/test_auth.py")

        await page.goto(f"/search?project={project_id}&q=submarine+periscope+oxygen")
        await expect(page.get_by_label("Help")).to_be_visible()
        await page.get_by_role("link", name="As the agent sees it").click()
        await page.get_by_label("Question").fill("authenticate user")
        await expect(page.locator(".agent pre")).to_contain_text("1. src/auth.py:")
        await expect(page.locator(".agent")).to_contain_text("tokens")
        assert "as=agent" in page.url
        await page.reload()
        await expect(page.locator(".agent pre")).to_contain_text("1. src/auth.py:")


async def test_exact_text_is_found_as_you_type(
    settings: Settings, app: App, make_repo: MakeRepo, project_id: str, browser: Browser
) -> None:
    await app.index(make_repo(FILES), project_id)
    async with serving(settings) as server, tab(browser, server.address) as page:
        await page.goto(f"/?project={project_id}")
        await expect(page.get_by_label("Regex")).to_be_hidden()
        await page.get_by_label("Meaning").focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_label("Exact text")).to_be_checked()
        await expect(page.get_by_label("Regex")).to_be_visible()
        box = page.get_by_label("Question")
        await box.fill("def auth")
        await expect(page.locator(".hit mark").first).to_have_text("def auth")
        await expect(page.locator(".summary")).to_contain_text("1 line in 1 file")
        assert "by=text" in page.url

        await page.get_by_label("Regex").check()
        await box.fill("def auth(")
        await expect(page.locator("#problem")).to_contain_text("missing )")
        await expect(box).to_have_attribute("aria-invalid", "true")
        await expect(page.locator(".hit mark").first).to_be_visible()  # the former results
        await box.press_sequentially("en|or)")
        await expect(page.locator(".hit mark").first).to_have_text("def authen")
        await expect(page.locator("#problem")).to_be_empty()
        await expect(box).not_to_have_attribute("aria-invalid", "true")
        await box.press_sequentially("[")
        await expect(page.locator("#problem")).to_contain_text("missing ]")
        await page.reload()  # every state has a URL
        await expect(page.get_by_label("Regex")).to_be_checked()
        await expect(page.locator("#problem")).to_contain_text("missing ]")

        await box.fill("au")  # in too many files
        await expect(page.locator("#results")).to_have_class("outdated")
        await page.keyboard.press("Enter")
        await expect(page.locator(".hit mark").first).to_have_text("au")
        await box.fill("AUTHENTICATE")
        await expect(page.locator("#results")).to_contain_text("No line has it")
        await box.fill("authenticate")
        await expect(page.locator(".hit .path").first).to_have_text("src/auth.py")
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await page.keyboard.press("y")
        await expect(page.locator(".toast")).to_contain_text("src/auth.py:")
        await page.locator(".group summary", has_text="Tests").click()
        await expect(page.locator(".hit .path").last).to_be_visible()
        await page.get_by_label("Meaning").check()
        await expect(page.locator(".score").first).to_be_visible()


async def test_every_page_is_accessible(
    settings: Settings, app: App, make_repo: MakeRepo, project_id: str, browser: Browser
) -> None:
    root = make_repo(FILES)
    commit_all(root, "First")
    (root / "src/auth.py").write_text("def authenticate(user):\n    return False\n")
    commit_all(root, "Second")
    await app.index(root, project_id)
    async with (
        serving(settings) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=None) as http,
        tab(browser, server.address, refused=True) as page,
    ):
        for tool, call in RECORDS:
            reply = await http.post(f"/tools/{tool}", json=call | {"project_id": project_id})
            assert "error" not in reply.json(), reply.text
        pages = {
            "/": ["", "project=no-such-project"],
            "/search": [
                "q=authenticate",
                "q=submarine",
                "q=authenticate&as=agent",
                "q=password&by=text",
                "q=def&by=text&limit=1",
                "q=foo(&by=text&regex=1",
                r"q=\w%2B&by=text",
            ],
            "/file": ["path=src", "path=src/auth.py&changes=1&lines=1"],
            "/symbol": ["name=authenticate", "name=authenticate&operation=callers"],
            "/index": [""],
            "/changes": ["", "a=HEAD~1&b=HEAD"],
            "/context": ["", "task=authenticate+fails", "task=authenticate&ref=no-such-branch"],
            "/tasks": ["", "status=complete"],
            "/memory": ["", "q=bcrypt"],
            "/work": [""],
            "/entities": [""],
            "/status": [""],
            "/sign-in": ["wrong=1"],
        }
        assert pages.keys() == WHOLE_PAGES | {SIGN_IN}
        for path, queries in pages.items():
            for query in queries:
                chosen = "" if "project=" in query else f"&project={project_id}"
                await page.goto(f"{path}?{query}{chosen}")
                await page.evaluate(OPEN_ALL)
                await require_accessible(page)


async def test_signing_in_leads_back_to_the_page_that_was_asked_for(
    settings: Settings, app: App, make_repo: MakeRepo, project_id: str, browser: Browser
) -> None:
    await app.index(make_repo(), project_id)
    _, key = await create_key(app.database, "alice", Access(frozenset({"read"}), ("*",)))
    asked = f"/search?project={project_id}&q=authenticate&kind=test"
    async with (
        serving(replace(settings, require_keys=True)) as server,
        tab(browser, server.address) as page,
    ):
        await page.goto(asked)
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.get_by_label("Key", exact=True).fill(f"{key}x")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("wrong, expired or revoked")
        await page.get_by_label("Key", exact=True).fill(key)
        await page.keyboard.press("Enter")
        await expect(page.locator(".hit .path").first).to_have_text("tests/test_auth.py")
        assert page.url.endswith(asked)
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await page.goto(asked)
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_index_and_remove_with_live_progress(
    settings: Settings, make_repo: MakeRepo, project_id: str, held: Hold, browser: Browser
) -> None:
    root = make_repo(SAMPLE)
    async with AsyncExitStack() as stack:
        run = await stack.enter_async_context(held_run(held, root, project_id))
        server = await stack.enter_async_context(
            serving(settings, lifespan=background_lifespan(settings))
        )
        page = await stack.enter_async_context(tab(browser, server.address))
        await page.goto("/index")
        await page.get_by_label("Directory").fill(str(root))
        await page.get_by_label("Project", exact=True).last.fill(project_id)
        await page.get_by_role("button", name="Index", exact=True).click()
        await expect(page.get_by_role("progressbar")).to_be_visible()
        await expect(page.locator(".done")).to_have_text("Indexing has begun.")
        await require_accessible(page)
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator(".done")).to_contain_text("The run was cancelled")
        await page.get_by_label("Directory").fill(str(root))
        await page.get_by_role("button", name="Index", exact=True).click()
        await expect(page.locator(".done")).to_have_text("Indexing has begun.")
        await run.aclose()  # the page learns without a reload that the run goes on and ends
        await expect(page.locator(".facts")).to_contain_text("Files8")
        await expect(page.locator(".state")).to_have_text("ready")
        await expect(page.get_by_role("img", name="Size by language")).to_be_visible()
        await expect(page.locator(".done")).to_have_count(0)
        await require_accessible(page)
        await page.locator("summary", has_text="Remove").click()
        await page.get_by_role("button", name="Remove it from the index").click()
        await expect(page.locator(".done")).to_contain_text("removed")
        await expect(page.locator("main")).to_contain_text("Nothing is indexed in this project")


async def test_a_question_that_is_outdated_is_cancelled_on_the_server(
    settings: Settings, app: App, make_repo: MakeRepo, project_id: str, browser: Browser
) -> None:
    await app.index(make_repo(), project_id)
    project = await find_project(app.database, project_id)
    slow = replace(settings, search_memory_mb=0)
    async with serving(slow) as server, tab(browser, server.address) as page:
        await page.goto(f"/?project={project_id}")
        calls = server.holder.calls
        async with app.database.transaction(project) as tx:
            await tx.execute("LOCK TABLE chunk IN ACCESS EXCLUSIVE MODE")
            await page.get_by_label("Question").fill("authenticate")
            await until(lambda: len(calls))
            async with page.expect_event("requestfailed") as failed:
                await page.get_by_label("Question").fill("authenticate user")
            assert "q=authenticate&" in (await failed.value).url
            await page.goto("/sign-in")  # it calls nothing
            await until(lambda: len(calls) == 0)  # no search can have ended: the lock is still held
        await page.goto(f"/search?project={project_id}&q=authenticate+user")
        await expect(page.locator(".hit .path").first).to_have_text("src/auth.py")


@asynccontextmanager
async def held_run(held: Hold, root: Path, project_id: str) -> AsyncIterator[AsyncExitStack]:
    """Keeps a run waiting until it is let go."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(held(root, project_id))
        yield stack


async def test_without_javascript_and_with_hostile_names(
    settings: Settings, app: App, make_repo: MakeRepo, project_id: str, browser: Browser
) -> None:
    await app.index(make_repo(FILES), project_id)
    phone = {"width": 390, "height": 800}
    async with (
        serving(settings) as server,
        tab(browser, server.address, java_script_enabled=False, viewport=phone) as page,
    ):
        await page.goto(f"/?project={project_id}")
        await page.get_by_label("Question").fill("hostile_markup")
        await page.get_by_label("Language").select_option("python")
        await page.get_by_role("button", name="Search").click()
        await expect(page.locator(".hit .path").first).to_contain_text("onerror=alert(1)")
        await expect(page.locator(".hit pre").first).to_contain_text(SCRIPT)
        assert await page.locator("main img, main script").count() == 0
        await page.locator(".hit .path").first.click()
        await expect(page.locator("pre.code")).to_contain_text("javascript:alert(1)")
        await expect(page.locator("h1")).to_contain_text(HOSTILE_NAME[:8])
        await page.get_by_label("Uses of hostile_markup").first.click()
        await expect(page.locator("h1")).to_have_text("hostile_markup")
        await page.goto(f"/?project={project_id}")
        await page.get_by_role("link", name="A whole task").click()
        await page.get_by_label("Task", exact=True).fill(f"hostile_markup fails\n{SCRIPT}")
        await page.get_by_role("button", name="Find").click()
        await expect(page.locator(".hit .path").first).to_contain_text("onerror=alert(1)")
        await expect(page.get_by_label("Task", exact=True)).to_have_value(re.compile("alert"))
    async with serving(settings) as server, tab(browser, server.address, viewport=phone) as page:
        await page.goto(f"/search?project={project_id}&q=hostile_markup")
        await expect(page.locator(".hit .path").first).to_contain_text("onerror=alert(1)")
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        paths = ["/", "/index", "/context?task=hostile_markup"]
        for path in (*paths, "/search?q=hostile_markup", "/search?q=return&by=text"):
            await page.goto(f"{path}{'&' if '?' in path else '?'}project={project_id}")
            assert not await page.evaluate(wide), path
