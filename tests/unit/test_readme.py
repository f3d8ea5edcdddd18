"""``README.md`` names the tools, commands and pages that exist, and stays short.

After a change of the tools: ``python -m tests.unit.test_readme``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codebase_mcp.cli.main import build_parser
from codebase_mcp.tools.catalog import toolsets

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
PURPOSES = {
    "code": "index and search",
    "index": "indexing in the background ([docs/indexing.md](docs/indexing.md#in-the-background))",
    "projects": "separate workspaces ([docs/projects.md](docs/projects.md))",
    "tasks": "what is to be done, with branches, commits and history",
    "memory": "what was decided, done and learned, by session",
    "vcs": "branches compared, and what a change touches",
    "find": "every line that holds a text ([docs/exact.md](docs/exact.md)), what a task needs "
    "([docs/context.md](docs/context.md))",
    "symbols": "who defines, uses, calls and implements a name",
    "agents": "what other agents do, and how it went",
    "entities": "records of your own types, checked against JSON Schemas",
    "work_items": "work in five levels",
}
_TABLE = re.compile(r"(<!-- tools: .*? -->\n)(.*?)(<!-- /tools -->)", re.DOTALL)


def table() -> str:
    """The toolsets and their tools."""
    rows = [
        f"| `{t.name}` | {PURPOSES[t.name]} | {', '.join(f'`{tool.name}`' for tool in t.tools)} |"
        for t in toolsets()
    ]
    return "\n".join(["| toolset | for | tools |", "|---|---|---|", *rows, ""])


def readme() -> str:
    return PAGES[0].read_text(encoding="utf-8")


def test_the_table_of_tools_is_what_the_catalogue_says() -> None:
    found = _TABLE.search(readme())
    assert found
    assert found[2] == table()


def test_the_readme_is_short() -> None:
    assert len(readme().splitlines()) < 120


def test_commands_in_the_readme_exist() -> None:
    choices = build_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    named = set(re.findall(r"(?:^|\$ |`)codebase-mcp ([a-z]+)", readme(), re.MULTILINE))
    assert {"search", "setup", "serve"} <= named <= set(choices or ())
    targets = set(re.findall(r"`?\bmake ([a-z]+)", readme()))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets >= {"install", "demo", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), target
        if heading:
            assert heading in _headings(linked), f"{target}#{heading}"


def _headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


if __name__ == "__main__":
    PAGES[0].write_text(_TABLE.sub(rf"\g<1>{table()}\g<3>", readme()), encoding="utf-8")
