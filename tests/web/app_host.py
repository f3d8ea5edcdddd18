"""A host of MCP Apps in a browser: the frame, its policy, and the messages of SEP-1865.

As in hosts that are web pages, the document has an origin of its own and the policy that the
specification gives where a document asks for no other host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import FrameLocator, Page, Route

ADDRESS = "http://127.0.0.1:9"  # nothing listens there: the browser is answered by the test
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; object-src 'none'; connect-src 'none'"
)
HOST = """<!doctype html><html lang="en"><head><title>Host</title></head><body>
<h1>Host</h1>
<iframe sandbox="allow-scripts" title="App" width="800" height="150" allow="clipboard-write">
</iframe>
<script>
const frame = document.querySelector("iframe");
const seen = [];
let settings, heard;
function tell(message) { frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*"); }
function open(given) { settings = given; frame.src = "/app"; }
function adopt(theme) {
  tell({ method: "ui/notifications/host-context-changed", params: { theme } });
}
function ask(method) {
  tell({ id: "host", method, params: {} });
  return new Promise((resolve) => { heard = resolve; });
}
window.addEventListener("message", async ({ source, data }) => {
  if (source !== frame.contentWindow) return;
  seen.push(data);
  if (data.id === "host") return heard(data);
  if (data.method === "ui/initialize")
    tell({ id: data.id, result: {
      protocolVersion: data.params.protocolVersion, hostInfo: { name: "host", version: "1" },
      hostCapabilities: settings.capabilities, hostContext: { theme: settings.theme },
    } });
  if (data.method === "tools/call")
    tell({ id: data.id, result: await callTool(data.params.name, data.params.arguments) });
  if (data.method === "ui/notifications/size-changed") frame.height = data.params.height;
  if (data.method === "ui/notifications/initialized") {
    tell({ method: "ui/notifications/tool-input", params: { arguments: settings.input } });
    tell({ method: "ui/notifications/tool-result", params: settings.result });
  }
});
</script></body></html>
"""
CAPABILITIES: dict[str, Any] = {
    "serverTools": {},
    "sandbox": {"permissions": {"clipboardWrite": {}}},
}

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class AppHost:
    """The host as a page; ``call`` reaches the server for an app that asks.

    ``asked`` are the paths that the browser asked for, without those that a policy forbade.
    """

    def __init__(self, page: Page, call: Call) -> None:
        self.page = page
        self.app: FrameLocator = page.frame_locator("iframe")
        self._call = call
        self.asked: list[str] = []
        self._document = ""

    async def start(self) -> None:
        """Open the page of the host."""
        await self.page.route(f"{ADDRESS}/**", self._answer)
        await self.page.expose_function("callTool", self._call)

    async def show(
        self,
        document: str,
        result: dict[str, Any],
        arguments: dict[str, Any],
        *,
        theme: str = "light",
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        """Show a result in the document of its app."""
        self._document = document
        await self.page.goto(f"{ADDRESS}/host")
        given = {
            "result": result,
            "input": arguments,
            "theme": theme,
            "capabilities": CAPABILITIES if capabilities is None else capabilities,
        }
        await self.page.evaluate("(given) => open(given)", given)

    async def height(self) -> int:
        """The height that the app asked for, once it is more than that of an empty document."""
        await self.until_height("> 150")
        return int(await self.page.evaluate("Number(frame.height)"))

    async def until_height(self, condition: str) -> None:
        """Wait until the app has asked for such a height."""
        await self.page.wait_for_function(f"frame.height {condition}")

    async def adopt(self, theme: str) -> None:
        """Tell the app of another theme, and wait until it has it."""
        await self.page.evaluate("(theme) => adopt(theme)", theme)
        scheme = "(theme) => document.documentElement.style.colorScheme === theme"
        await self.page.frames[-1].wait_for_function(scheme, arg=theme)

    async def _answer(self, route: Route) -> None:
        path = route.request.url[len(ADDRESS) :]
        self.asked.append(path)
        html = {"/host": HOST, "/app": self._document}.get(path)
        if html is None:
            await route.fulfill(status=404)
        else:
            headers = {"Content-Security-Policy": POLICY} if html is self._document else {}
            await route.fulfill(body=html, content_type="text/html; charset=utf-8", headers=headers)
