"""A question with exact text: places that have the text come first, and the reply says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.git import git

from codebase_mcp.app.app import App
from codebase_mcp.app.reports import SearchReport
from codebase_mcp.app.text_scan import TextQuestion
from codebase_mcp.errors import NotFound
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request
from codebase_mcp.search.text_pattern import TextQuery
from codebase_mcp.tools.answers import symbol_question
from codebase_mcp.tools.replies.search import search_text
from codebase_mcp.tools.search_reply import full_reply

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

FILES = {
    "shop/errors.py": """\
def fail(order):
    raise LookupError("order %s not found" % order)


def warn(order):
    log("order %s is late", order)
""",
    "shop/orders.py": """\
def find_order(number):
    # Orders that were not found are looked up again.
    return table.get(number)


def order_header(request):
    return request.headers["x-order-id"]
""",
    "shop/api.py": "def order(headers):\n    return headers['X-Order-Id'], headers['x-order-id']\n",
    "docs/guide.md": "# Guide\n\nA missing order: order %s not found.\n",
    **{f"shop/order_not_found_{n}.py": f"def order_not_found_{n}():\n    pass\n" for n in range(8)},
}


async def ask(
    app: App, project_id: str, question: str, *, ref: str | None = None, **options: Any
) -> SearchReport:
    repository = options.pop("repository", None)
    request = Request(**{"by_definition": True, **options})
    return await app.search(
        question, project_id, request, repository=repository, ref=ref, with_help=True
    )


async def copy_texts(app: App, project_id: str) -> None:
    """What an exact search leaves behind: texts on this machine."""
    await app.exact.find(TextQuestion(TextQuery("anything")), project_id)


def paths(report: SearchReport) -> list[str]:
    return [hit.file_path for hit in report.answer.hits]


def note(report: SearchReport) -> str:
    return search_text(report).partition("\n")[0]


@pytest.fixture
async def indexed(app: App, make_repo: MakeRepo, project_id: str) -> str:
    await app.index(make_repo(FILES), project_id)
    return project_id


@pytest.mark.parametrize("by_definition", [True, False])
async def test_places_with_the_text_come_first(app: App, indexed: str, by_definition: bool) -> None:
    await copy_texts(app, indexed)
    for question in ('"order %s not found"', "order %s not found"):
        report = await ask(app, indexed, question, by_definition=by_definition)
        assert paths(report)[:2] == ["shop/errors.py", "docs/guide.md"]
        first = report.answer.hits[0]
        assert (first.exact_lines, first.similarity_score >= 0.9) == ((2,), True)
        assert note(report) == "1-2 have the exact text."
        scores = [hit.similarity_score for hit in report.answer.hits]
        assert scores == sorted(scores, reverse=True)
    if by_definition:
        assert (first.symbol, first.matching_lines[0]) == ("fail", 2)


async def test_the_text_in_a_question_moves_only_what_has_it(app: App, indexed: str) -> None:
    await copy_texts(app, indexed)
    report = await ask(app, indexed, 'where is "order %s is late" logged')
    assert (paths(report)[0], report.answer.hits[0].symbol) == ("shop/errors.py", "warn")
    assert note(report) == "1 has the exact text."


async def test_text_that_is_nowhere_is_said_and_changes_no_answer(app: App, indexed: str) -> None:
    await copy_texts(app, indexed)
    report = await ask(app, indexed, '"order not found here"')
    assert note(report) == "Not in these files as text."
    words = await ask(app, indexed, "order not found here")
    assert report.answer.hits == words.answer.hits
    assert words.answer.exact is None
    assert "exact" not in full_reply(words).as_json()


async def test_case_counts_if_the_text_has_an_upper_case_letter(app: App, indexed: str) -> None:
    await copy_texts(app, indexed)
    report = await ask(app, indexed, "X-Order-Id")
    assert [hit.file_path for hit in report.answer.hits if hit.exact_lines] == ["shop/api.py"]
    report = await ask(app, indexed, "x-order-id")
    assert {*paths(report)[:2]} == {"shop/api.py", "shop/orders.py"}
    assert full_reply(report).as_json()["exact"] == {
        "texts": ["x-order-id"],
        "results": 2,
        "lines": 2,
        "files": 2,
    }


async def test_lines_that_are_not_shown_are_counted(app: App, indexed: str) -> None:
    await copy_texts(app, indexed)
    report = await ask(app, indexed, '"order_not_found"', limit=3)
    assert note(report) == "1-3 have the exact text (8 lines in 8 files; find_text lists them)."
    assert full_reply(report).as_json()["exact"]["files"] == 8


async def test_signs_alone_are_found(app: App, indexed: str) -> None:
    await copy_texts(app, indexed)
    report = await ask(app, indexed, '["')
    assert (paths(report), report.answer.total_count) == (["shop/orders.py"], 1)
    assert paths(await ask(app, indexed, "->")) == []


async def test_several_repositories_are_looked_through(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    first = await app.index(make_repo({"a.py": "call('x-order-id')\n"}), project_id)
    second = await app.index(make_repo({"b.py": "send('x-order-id')\n"}, "other"), project_id)
    await copy_texts(app, project_id)
    report = await ask(app, project_id, "x-order-id")
    assert note(report) == "1-2 have the exact text."
    assert {hit.repository_id for hit in report.answer.hits} == {
        first.run.repository_id,
        second.run.repository_id,
    }
    report = await ask(app, project_id, "x-order-id", repository=second.run.repository_id)
    assert (paths(report), note(report)) == (["b.py"], "1 has the exact text.")


async def test_filters_leave_the_text_elsewhere_out(app: App, indexed: str) -> None:
    await copy_texts(app, indexed)
    filters = FileFilters(directory="docs")
    report = await ask(app, indexed, '"order %s not found"', filters=filters)
    assert (paths(report), note(report)) == (["docs/guide.md"], "1 has the exact text.")
    report = await ask(app, indexed, "x-order-id", filters=filters)
    assert report.answer.exact is not None
    assert report.answer.exact.line_count == 0


@pytest.mark.parametrize(
    ("question", "before", "after"),
    [
        (
            "x-order-id",
            "1-2 have the exact text (perhaps more, see find_text).",
            "1-2 have the exact text.",
        ),
        ("no-such-order", "As text: see find_text.", "Not in these files as text."),
    ],
)
async def test_a_search_does_not_wait_until_texts_are_copied(
    app: App, indexed: str, question: str, before: str, after: str
) -> None:
    assert note(await ask(app, indexed, question)) == before
    await asyncio.gather(*app.exact._copying.values())
    assert note(await ask(app, indexed, question)) == after


async def test_a_ref_and_a_change_have_the_text_of_their_own(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo(FILES)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "shop" / "late.py").write_text('def late():\n    return "order %s not found"\n')
    git(root, "add", ".")
    git(root, "commit", "-qm", "second")
    await app.index(root, project_id)
    await copy_texts(app, project_id)
    await ask(app, project_id, "x-order-id", ref="HEAD~1")  # indexes the commit
    former = await ask(app, project_id, '"order %s not found"', ref="HEAD~1")
    assert former.answer.exact is not None
    assert (former.answer.exact.line_count, "shop/late.py" in paths(former)) == (2, False)
    change = await ask(app, project_id, '"order %s not found"', ref="HEAD~1..HEAD")
    assert paths(change)[0] == "shop/late.py"
    assert change.answer.exact is not None
    assert change.answer.exact.line_count == 1


async def test_a_name_that_is_not_defined_may_be_a_text(app: App, indexed: str) -> None:
    for name, offers in (("X_ORDER_ID", True), ("order_missing", False)):
        with pytest.raises(NotFound) as error:
            await app.symbols.ask(symbol_question("definition", name), indexed)
        assert ("find_text" in (error.value.hint or "")) == offers
