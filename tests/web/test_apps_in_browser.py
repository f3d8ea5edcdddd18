"""MCP Apps in a real Chromium: a host's page, a frame without an origin, and a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from fastmcp import Client
from mcp.client.extension import advertise
from mcp_types import Implementation
from playwright.async_api import Browser, expect
from tests.web.app_host import ADDRESS, AppHost
from tests.web.test_pages import FILES, SCRIPT
from tests.web.test_pages_in_browser import RULES, browser, needs_chromium, tab

from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.web.pages.apps import (
    APPS,
    EXTENSION,
    HTML_KEY,
    MIME_TYPE,
    document_of,
    server_with_apps,
)

__all__ = ["browser"]
pytestmark = needs_chromium

MakeRepo = Callable[..., Path]
Call = Callable[..., Any]


@pytest.fixture
async def client(anyio_backend: str, settings: Settings) -> AsyncIterator[Client[Any]]:
    """An agent whose models read text, and whose users see apps."""
    server = server_with_apps(AppHolder(settings), settings.toolsets)
    shows = [advertise(EXTENSION, {"mimeTypes": [MIME_TYPE]})]
    info = Implementation(name="Visual Studio Code", version="1")
    async with Client(server, client_info=info, extensions=shows) as client:
        yield client


async def test_results_and_tasks_in_the_frame_of_a_host(
    client: Client[Any], make_repo: MakeRepo, project_id: str, browser: Browser
) -> None:
    calls: list[str] = []

    async def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        calls.append(tool)
        return dumped(await client.call_tool_mcp(tool, arguments))

    def dumped(result: Any) -> dict[str, Any]:
        values: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return values

    async def document(tool: str) -> str:
        [read] = await client.read_resource(APPS[tool].uri)
        return str(read.text)

    await call("index_repository", {"repo_path": str(make_repo(FILES)), "project_id": project_id})
    search = await document("search_code")
    async with tab(browser, ADDRESS) as page:
        host = AppHost(page, call)
        await host.start()

        asked = {"query": "authenticate user with password", "project_id": project_id}
        result = await call("search_code", asked)
        calls.clear()
        await host.show(search, result, asked)
        await expect(host.app.locator(".hit .path").first).to_have_text("src/auth.py")
        await expect(host.app.locator(".match").first).to_be_visible()
        await expect(host.app.locator(".code .k").first).to_have_text("def")
        full = await host.height()
        await host.app.locator("summary", has_text="Code").first.click()
        await expect(host.app.locator(".match").first).to_be_hidden()
        await host.until_height(f"< {full}")
        assert (await page.evaluate("ask('ui/resource-teardown')"))["result"] == {}
        assert (await page.evaluate("ask('tools/list')"))["error"]["code"] == -32601
        await host.app.locator(".copy").first.click()
        copied = "navigator.clipboard.readText().then(text => text === 'src/auth.py:5')"
        await page.wait_for_function(copied)  # the button answers before the clipboard does
        await require_accessible(host)

        asked = {"query": "hostile_markup", "project_id": project_id}
        await host.show(search, await call("search_code", asked), asked, theme="dark")
        await expect(host.app.locator(".hit .path").first).to_contain_text("onerror=alert(1)")
        await expect(host.app.locator(".hit pre").first).to_contain_text(SCRIPT)
        assert await host.app.locator("main img, main script").count() == 0
        ground = "getComputedStyle(document.body).backgroundColor"
        assert await host.app.locator("body").evaluate(ground) == "rgb(20, 23, 28)"
        await require_accessible(host)

        calls.clear()
        kept = {name: value for name, value in result.items() if name != "_meta"}
        asked = {"query": "authenticate user with password", "project_id": project_id}
        await host.show(search, kept, asked, capabilities={"serverTools": {}})
        await expect(host.app.locator(".hit .path").first).to_have_text("src/auth.py")
        assert calls == ["search_code"]
        assert not await host.app.locator(".copy").first.is_visible()
        await host.show(search, kept, asked, capabilities={})
        await expect(host.app.locator(".said")).to_contain_text("src/auth.py:5-10")
        assert calls == ["search_code"]
        await host.show(search, await call("search_code", {"query": ""}), {"query": ""})
        await expect(host.app.locator(".said")).to_contain_text("query")

        titles = ("Mend <img src=x onerror=alert(1)>", "Other")
        for title in titles:
            await call("create_task", {"title": title, "project_id": project_id})
        asked = {"project_id": project_id}
        await host.show(await document("list_tasks"), await call("list_tasks", asked), asked)
        await expect(host.app.locator(".card h3")).to_have_text(list(reversed(titles)))
        await require_accessible(host)


async def test_a_frame_runs_no_script_that_a_result_brings(browser: Browser) -> None:
    """The server escapes what it sends; should it fail to, nothing is run or asked for."""

    async def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("the app has what it needs")

    hostile = """<p>Shown</p><script>parent.postMessage({owned: 1}, "*")</script>
        <img src="/x" onerror="parent.postMessage({owned: 2}, '*')">
        <svg onload="parent.postMessage({owned: 3}, '*')"></svg>
        <iframe srcdoc="<script>top.postMessage({owned: 4}, '*')</script>"></iframe>
        <a href="javascript:parent.postMessage({owned: 5}, '*')">Go</a>"""
    context = await browser.new_context()
    page = await context.new_page()
    host = AppHost(page, call)
    await host.start()
    await host.show(document_of("search_code"), {"content": [], "_meta": {HTML_KEY: hostile}}, {})
    await expect(host.app.get_by_text("Shown")).to_be_visible()
    await host.app.get_by_text("Go").click()
    # The answer comes after whatever was sent before.
    assert (await page.evaluate("ask('ping')"))["result"] == {}
    assert [one for one in await page.evaluate("seen") if "owned" in one] == []
    assert host.asked == ["/host", "/app"]
    await context.close()


async def require_accessible(host: AppHost) -> None:
    """See that axe finds no violation of WCAG AA, in light and in dark."""
    frame = host.page.frames[-1]
    for theme, rules in RULES.items():
        await host.adopt(theme)
        found = await Axe().run(frame, options={"runOnly": rules})  # type: ignore[arg-type]
        shown = [
            (one["id"], node["html"][:200])
            for one in found.response["violations"]
            for node in one["nodes"][:3]
        ]
        assert shown == [], theme
