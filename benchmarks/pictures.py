"""Makes the pictures of the documents: every page in light and in dark, and a terminal.

    python benchmarks/pictures.py [--to docs/pictures]

They show this project: a clone of it is indexed by a server of its own, some records are made, and
Chromium opens each page. The picture of the terminal is what the command really wrote to one. Times
are in them too, so the machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import pty
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import httpx2
from playwright.async_api import Browser, async_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from own_server import own_folder
from page import CHROMIUM, COMMAND, FLAGS, HERE, serving

PROJECT = "codebase-mcp"
QUESTION = "where are failed index jobs taken back from dead workers"
TASK = "Signing in over plain HTTP loses the cookie: set_cookie should say secure only over HTTPS"
SITE = "src/codebase_mcp/web/pages/site.py"
SEARCH = f"project={PROJECT}&q={QUESTION.replace(' ', '+')}"
# The name of each picture, and what it shows.
PAGES = {
    "search": f"/search?{SEARCH}",
    "agent": f"/search?{SEARCH}&as=agent",
    "context": f"/context?project={PROJECT}&task={TASK.replace(' ', '+')}&ref=HEAD",
    "file": f"/file?project={PROJECT}&path={SITE}&lines=198-217&changes=1",
    "symbol": f"/symbol?project={PROJECT}&name=coloured",
    "index": f"/index?project={PROJECT}",
    "changes": f"/changes?project={PROJECT}&a=before&b=HEAD",
    "tasks": f"/tasks?project={PROJECT}",
    "memory": f"/memory?project={PROJECT}",
    "work": f"/work?project={PROJECT}",
    "entities": f"/entities?project={PROJECT}",
    "health": f"/status?project={PROJECT}",
    "sign-in": "/sign-in",
}
COLUMNS = 104
THEME = TerminalTheme(
    (20, 23, 28),
    (228, 231, 235),
    [(20, 23, 28), (255, 135, 135), (81, 207, 102), (224, 176, 32),
     (150, 170, 255), (242, 154, 194), (127, 208, 224), (228, 231, 235)],
    [(152, 162, 174), (255, 135, 135), (127, 209, 174), (240, 192, 96),
     (150, 170, 255), (242, 154, 194), (127, 208, 224), (255, 255, 255)],
)  # fmt: skip
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
pre {{ display: inline-block; margin: 0; padding: 16px 20px; background: #14171c; color: #e4e7eb;
font: 14px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }}
a {{ color: inherit; text-decoration: none; }}</style><pre>{code}</pre>"""


def main() -> None:
    """Clone, index, write records, and take the pictures."""
    parser = argparse.ArgumentParser(description="The pictures of the documents")
    parser.add_argument("--to", type=Path, default=HERE / "docs" / "pictures")
    to = parser.parse_args().to
    to.mkdir(exist_ok=True)
    with own_folder("codebase-mcp-") as folder:
        tree = folder / PROJECT
        git(folder, "clone", "--quiet", "--no-hardlinks", str(HERE), PROJECT)
        git(tree, "branch", "before", "HEAD~10")
        environment = {
            **os.environ,
            "CODEBASE_MCP_DATA_DIR": str(folder / "data"),
            "CODEBASE_MCP_GIT_DEPTH": "60",
            "CODEBASE_MCP_IGNORE": "tests/,training/,benchmarks/",
            "CODEBASE_MCP_TOOLSETS": "all",
        }
        run(environment, tree, "index", str(tree), "--project", PROJECT)
        with serving(environment) as address:
            with httpx2.Client(base_url=address, timeout=None) as http:
                keep_records(http, tree)
            command = ("search", "--limit", "4", QUESTION)
            on_terminal(environment, tree, *command)  # the first one finds nothing prepared
            shown = on_terminal(environment, tree, *command)
            asyncio.run(take(address, shown, to))
    # A third of the size, and no difference that one sees.
    if pngquant := shutil.which("pngquant"):
        pictures = sorted(map(str, to.glob("*.png")))
        subprocess.run([pngquant, "--force", "--strip", "--ext=.png", "--", *pictures], check=True)


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder."""
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def run(environment: Mapping[str, str], folder: Path, *arguments: str) -> None:
    """Run a command of ours in a folder."""
    command = [*COMMAND, *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def keep_records(http: httpx2.Client, tree: Path) -> None:
    """Some records as agents make them; the code under one of them then changes."""

    def keep(tool: str, **arguments: Any) -> dict[str, Any]:
        answer = http.post(f"/tools/{tool}", json={"project_id": PROJECT, **arguments})
        reply: dict[str, Any] = answer.json()
        assert "error" not in reply, reply
        return reply

    anchored = [{"file": SITE, "symbol": "set_cookie"}]
    masking = [{"file": "src/codebase_mcp/secrets/masking.py", "symbol": "mask"}]
    keep("create_task", title="Say which filter hides the answer")
    keep("create_task", title="Limit how often a key can be tried", anchors=anchored)
    task = keep("create_task", title="Mask secrets in commit messages", anchors=masking)
    keep("update_task", task_id=task["id"], status="in-progress")
    task = keep("create_task", title="Index a commit without checking it out")
    keep("update_task", task_id=task["id"], status="complete", branch="views", commit="1f" * 20)
    keep("session", operation="start", session_id="signing in")
    for kind, content in (
        ("Decision", "The key is kept in a cookie that scripts cannot read, for pages alone: a"
         " request to /mcp or /tools/ has to send it itself."),
        ("Insight", "With Referrer-Policy no-referrer browsers send Origin: null with forms."),
        ("Execution", "Signing in leads back to the page that was asked for."),
    ):  # fmt: skip
        keep(
            "memory",
            operation="store",
            observation_type=kind,
            content=content,
            anchors=anchored,
            tags=["pages"],
        )
    root = keep("create_work_item", item_type="project", title="A page people like")
    for title, steps in (("Search", ["As you type", "Why here"]), ("Records", ["Board", "Tree"])):
        part = keep("create_work_item", item_type="session", title=title, parent_id=root["id"])
        for step in steps:
            keep("create_work_item", item_type="task", title=step, parent_id=part["id"])
    fields = {"owner": {"type": "string"}, "port": {"type": "integer"}, "needs": {"type": "array"}}
    keep(
        "register_entity_type", type_name="service", schema={"type": "object", "properties": fields}
    )
    for number, name in enumerate(("login", "search", "billing")):
        data = {"owner": "web", "port": 8000 + number, "needs": ["postgres"]}
        keep("create_entity", entity_type="service", name=name, data=data, tags=["edge"])
    file = tree / SITE
    file.write_text(file.read_text().replace("secure=", "# Over HTTPS alone.\n        secure="))
    keep("index_repository", repo_path=str(tree))


def on_terminal(environment: Mapping[str, str], folder: Path, *arguments: str) -> str:
    """What a command of ours writes to a terminal of this width, control sequences and all."""
    reader, writer = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    command = [*COMMAND, *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env={**environment, **size}, stdin=writer, stdout=writer, stderr=writer
    )
    os.close(writer)
    written = b""
    while True:
        try:
            piece = os.read(reader, 65_536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(reader)
    assert process.wait() == 0, written.decode()
    said = f'\x1b[1m$ codebase-mcp {" ".join(arguments[:-1])} "{arguments[-1]}"\x1b[0m\n'
    return said + written.decode().replace("\r\n", "\n")


async def take(address: str, shown: str, to: Path) -> None:
    """Take all pictures."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(shown), soft_wrap=True)
    terminal = console.export_html(theme=THEME, code_format=TERMINAL, inline_styles=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        await take_pages(browser, address, to, "light")
        await take_pages(browser, address, to, "dark")
        page = await browser.new_page(viewport={"width": 1200, "height": 850})
        await page.set_content(terminal)
        await page.locator("pre").screenshot(path=to / "terminal.png")
        await browser.close()


async def take_pages(
    browser: Browser, address: str, to: Path, scheme: Literal["light", "dark"]
) -> None:
    """Take a picture of each page; of a short one, no more than there is of it."""
    # A first visit of the changes reads a lot of git's history.
    context = await browser.new_context(
        base_url=address, color_scheme=scheme, viewport={"width": 1200, "height": 760}
    )
    context.set_default_timeout(300_000)
    page = await context.new_page()
    for name, path in PAGES.items():
        await page.goto(path)  # the first visit finds nothing prepared
        answer = await page.goto(path)
        assert answer is not None
        assert answer.ok, (path, answer.status)
        await page.evaluate("document.fonts.ready")
        end = await page.evaluate("document.querySelector('main').getBoundingClientRect().bottom")
        ending = "" if scheme == "light" else "-dark"
        await page.screenshot(
            path=to / f"{name}{ending}.png",
            clip={"x": 0, "y": 0, "width": 1200, "height": min(760, int(end))},
        )
    await context.close()


if __name__ == "__main__":
    main()
