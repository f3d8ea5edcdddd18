"""How long until a browser shows the page, and how many bytes does it take?

    python benchmarks/page.py [--tree DIR] [--rounds 20]

A server as a process of its own indexes the tree. Chromium then opens pages by turns, each time as
a new visitor without a cache: a page with one word, served from memory, as the browser's own share;
the first page; a question with its results. Printed are the first contentful paint as Chromium
reports it, the median of the server's part until the last byte of HTML, and the bytes of all that
was sent. On a busy machine the page of one word says how busy it is.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote_plus

from playwright.async_api import Browser, async_playwright

from latency import percentile
from own_server import own_folder

HERE = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]
QUESTION = "where are failed requests retried"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]

# The paint may be reported after the load; the entry is then still to come.
_PAINTED = """() => new Promise((done) => {
  const report = () => {
    const [painted] = performance.getEntriesByName("first-contentful-paint");
    if (!painted) return requestAnimationFrame(report);
    const [page] = performance.getEntriesByType("navigation");
    const parts = [page, ...performance.getEntriesByType("resource")];
    done([painted.startTime, page.responseEnd - page.requestStart,
          parts.reduce((sum, part) => sum + part.transferSize, 0)]);
  };
  report();
})"""


@dataclass(slots=True)
class Visits:
    """What opening one address took, each time: until the first paint, of the server, in bytes."""

    name: str
    url: str
    painted_ms: list[float] = field(default_factory=list)
    served_ms: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)

    def row(self) -> str:
        """The measurements as a row of a table."""
        painted = self.painted_ms
        times = [min(painted), median(painted), percentile(painted, 0.95), median(self.served_ms)]
        shown = [f"{number:.0f}" for number in (*times, median(self.sent) / 1000)]
        return f"| {' | '.join([self.name, *shown])} |"


def main() -> None:
    """Index, serve, open, and print a table."""
    parser = argparse.ArgumentParser(description="First paint and bytes of the page")
    parser.add_argument("--tree", type=Path, default=HERE / "src", help="what is indexed (ours)")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with own_folder("bench-page-") as folder:
        environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(folder / "data")}
        index = [*COMMAND, "index", str(options.tree), "--project", "bench"]
        subprocess.run(index, env=environment, check=True, stdout=subprocess.DEVNULL)
        with serving(environment) as ours, one_word() as plain:
            asked = f"{ours}/search?project=bench&q={quote_plus(QUESTION)}"
            visits = [
                Visits("a page of one word", plain),
                Visits("first page", f"{ours}/?project=bench"),
                Visits("ten results", asked),
            ]
            asyncio.run(measure(visits, options.rounds))
    print("| page | first paint, fastest (ms) | median | 95 % below | server | sent (KB) |")
    print("|---|---|---|---|---|---|")
    for one in visits:
        print(one.row())


async def measure(visits: list[Visits], rounds: int) -> None:
    """Open the pages by turns; the first turn only warms both programs up."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for turn in range(rounds + 1):
            for one in visits:
                painted, served, sent = await visit(browser, one.url)
                if turn:
                    one.painted_ms.append(painted)
                    one.served_ms.append(served)
                    one.sent.append(sent)
        await browser.close()


async def visit(browser: Browser, url: str) -> tuple[float, float, float]:
    """Open an address as a new visitor."""
    context = await browser.new_context(viewport={"width": 1200, "height": 850})
    page = await context.new_page()
    await page.goto(url)
    painted, served, sent = await page.evaluate(_PAINTED)
    await context.close()
    return painted, served, sent


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[str]:
    """The address of a server, as a process of its own."""
    serve = [*COMMAND, "serve", "--transport", "http", "--port", "0"]
    process = subprocess.Popen(serve, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        while not (found := re.search(r"serves (http://\S+)/mcp", process.stderr.readline())):
            assert process.poll() is None, "the server ended before it said where it is"
        yield found[1]
    finally:
        process.terminate()
        process.communicate()


class OneWord(BaseHTTPRequestHandler):
    """Answers every request with one word."""

    def do_GET(self) -> None:
        body = b"<!doctype html><link rel=icon href=data:,><p>Hello"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def one_word() -> Iterator[str]:
    """The address of a page of one word."""
    with ThreadingHTTPServer(("127.0.0.1", 0), OneWord) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    main()
