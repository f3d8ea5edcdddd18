"""Exact text on the search page, as a browser without JavaScript gets it."""

from __future__ import annotations

import httpx2
import pytest
from tests.conftest import SAMPLE
from tests.web.test_pages import (
    HOSTILE_CODE,
    HOSTILE_NAME,
    SCRIPT,
    MakeRepo,
    commit_all,
    hits,
    indexed,
    seen,
)

from codebase_mcp.search.text_pattern import TextMatcher, TextQuery
from codebase_mcp.web.pages import finding
from codebase_mcp.web.pages.finding import marked

pytestmark = pytest.mark.anyio

FILES = {
    **SAMPLE,
    HOSTILE_NAME: HOSTILE_CODE,
    "src/retry.py": """\
MAX_RETRIES = 5


class Retry:
    def wait(self):
        if self.count > MAX_RETRIES:
            raise TimeoutError
        go(MAX_RETRIES)
        go(MAX_RETRIES)
""",
    "tests/test_retry.py": "def test_it():\n    assert MAX_RETRIES\n",
    "docs/guide.md": "# Guide\n\nSet max_retries.\n",
}


async def test_lines_are_grouped_by_kind_file_and_definition(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(FILES), project_id)
    asked = {"project": project_id, "q": "MAX_RETRIES", "by": "text"}
    page = seen(await http.get("/search", params=asked))
    assert "5 lines in 2 files" in page.text
    assert hits(page) == {"src/retry.py:1", "tests/test_retry.py:2"}
    order = ["Code", "retry.py", "defined here", "Retry.wait", "Tests", "test_retry.py"]
    assert sorted(order, key=page.words.index) == order
    assert "also in 9" in " ".join(page.text.split())
    assert [tag for tag, _ in page.tags].count("mark") == 4  # the same line once
    assert "path=src%2Fretry.py&lines=6#L6" in page.link("#L6")
    at = seen(await http.get(page.link("#L6")))
    assert "MAX_RETRIES" in at.text

    agent = seen(await http.get(page.link("as=agent")))
    assert "MAX_RETRIES: 5 lines in 2 files" in agent.text
    fragment = await http.get("/results", params=asked)
    assert "<html" not in fragment.text
    assert "defined here" in fragment.text


async def test_the_address_has_the_options_and_links_keep_them(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(FILES), project_id)
    asked = {"project": project_id, "by": "text"}

    async def count(**options: str) -> str:
        page = seen(await http.get("/search", params=asked | options))
        return " ".join(page.text.partition(" in ")[0].split()[-2:])

    assert await count(q="max_retries") == "6 lines"
    assert await count(q="max_retries", case="1") == "1 line"
    assert await count(q="retries", word="1") == "has it"
    assert await count(q=r"max_\w+\.$", regex="1") == "1 line"
    assert await count(q="max_retries", directory="docs") == "1 line"
    assert await count(q="max_retries", kind="test") == "1 line"
    page = seen(await http.get("/search", params=asked | {"q": "m.x", "regex": "1", "word": "1"}))
    checked = {a["name"]: a["value"] for tag, a in page.tags if tag == "input" and "checked" in a}
    assert checked == {"by": "text", "regex": "1", "word": "1"}
    link = page.link("as=agent")
    assert all(part in link for part in ("by=text", "regex=1", "word=1", "q=m.x"))
    literal = seen(await http.get("/search", params=asked | {"q": r"max_\w+"}))
    assert "This looks like a regular expression" in literal.text
    assert "6 lines" in seen(await http.get(literal.link("regex=1"))).text


async def test_an_invalid_pattern_is_explained_below_the_box(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(FILES), project_id)
    asked = {"project": project_id, "by": "text", "q": "foo(", "regex": "1"}
    page = seen(await http.get("/search", params=asked))
    assert "Pattern is no regular expression: missing ). Leave regex out" in page.text
    box = next(attributes for _, attributes in page.tags if attributes.get("id") == "q")
    assert (box["aria-invalid"], box["aria-describedby"], box["value"]) == (
        "true",
        "problem",
        "foo(",
    )
    fragment = await http.get("/results", params=asked)
    assert (fragment.status_code, "data-problem" in fragment.text) == (200, True)
    asked["q"] = "x" * 1_001
    assert "1001 characters" in seen(await http.get("/search", params=asked)).text


async def test_what_is_not_shown_is_counted_by_folders_that_open(
    http: httpx2.AsyncClient,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {f"src/part{n % 2}/m{n}.py": "needle\n" * 3 for n in range(6)}
    await indexed(http, make_repo(files), project_id)
    monkeypatch.setattr(finding, "_SHOWN", 4)
    asked = {"project": project_id, "q": "needle", "by": "text"}
    page = seen(await http.get("/search", params=asked))
    assert "18 lines in 6 files" in page.text
    assert "2 more in this file" in page.text
    assert "src/part1/ 9 in 3 files" in " ".join(page.text.split())
    assert "14 are not shown" in page.text
    one = seen(await http.get(page.link("directory=src%2Fpart1%2Fm5.py")))
    assert "3 lines in 1 file" in one.text
    folder = seen(await http.get(page.link("directory=src%2Fpart1&")))
    assert "9 lines in 3 files" in folder.text
    more = seen(await http.get(page.link("limit=12")))
    assert "6 are not shown" in more.text


async def test_text_of_strangers_is_never_markup(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(FILES), project_id)
    for pattern in (SCRIPT, "alert(1)", "return"):
        asked = {"project": project_id, "q": pattern, "by": "text", "case": "1"}
        page = seen(await http.get("/search", params=asked))
        assert hits(page)
        seen(await http.get("/search", params=asked | {"as": "agent"}))


async def test_a_ref_and_a_change_are_searched_too(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(FILES)
    commit_all(root, "First")
    (root / "docs" / "guide.md").write_text("# Guide\n")
    commit_all(root, "Second")
    await indexed(http, root, project_id)
    asked = {"project": project_id, "q": "max_retries.", "by": "text"}
    assert "No line has it" in seen(await http.get("/search", params=asked)).text
    former = seen(await http.get("/search", params=asked | {"ref": "HEAD~1"}))
    assert hits(former) == {"docs/guide.md:3"}
    assert "Set max_retries" in seen(await http.get(former.link("#L3"))).text
    change = seen(await http.get("/search", params=asked | {"ref": "HEAD~1..HEAD"}))
    assert "removed" in change.text


async def test_a_search_by_meaning_leads_to_all_lines_with_its_exact_text(
    http: httpx2.AsyncClient, make_repo: MakeRepo, project_id: str
) -> None:
    await indexed(http, make_repo(FILES), project_id)
    asked = {"project": project_id, "q": "MAX_RETRIES"}
    await http.get("/search", params=asked | {"by": "text"})
    page = seen(await http.get("/search", params=asked))
    assert "the first 2 have the exact text: 5 lines in 2 files" in page.text
    assert "defined here" in seen(await http.get(page.link("by=text"))).text


@pytest.mark.parametrize(
    ("query", "line", "html"),
    [
        (TextQuery("a"), "  a<b>a ", "<mark>a</mark>&lt;b&gt;<mark>a</mark>"),
        (TextQuery("é"), "né\u202e", "n<mark>é</mark>\\u202e"),
        (TextQuery("b*", regex=True), "abba", "a<mark>bb</mark>a"),
        (TextQuery("x", multiline=True), "x", "x"),
    ],
)
def test_matches_are_marked(query: TextQuery, line: str, html: str) -> None:
    assert marked(line, TextMatcher.compile(query)) == html


def test_a_long_line_is_cut_around_its_first_match() -> None:
    line = marked("x" * 900 + "needle" + "y" * 900, TextMatcher.compile(TextQuery("needle")))
    assert line.startswith("…xxx")
    assert line.endswith("yyy…")
    assert "<mark>needle</mark>" in line
    assert len(line) < 450
