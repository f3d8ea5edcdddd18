"""What a reader gets from a search, and what it costs."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from codebase_mcp.app.app import SearchReport
from codebase_mcp.app.freshness.verified_search import IndexFreshness
from codebase_mcp.app.scopes import CallScope
from codebase_mcp.database.naming import Project
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.search.help import NO_HINT, Help
from codebase_mcp.search.hits import Hit, LineRange, Location
from codebase_mcp.search.scope import ScopedSnapshot
from codebase_mcp.search.search import Answer
from codebase_mcp.symbols.references import Usage, UsingPlace
from codebase_mcp.tools.replies.search import search_text

REPOSITORY = uuid.uuid4()
SNAPSHOT = ScopedSnapshot(
    *(Profile(1, "1.1.1-a", "builtin", 256), uuid.uuid4(), "worktree", 1, REPOSITORY),
    *("/home/me/shop", "shop", 0.0, 0, 0, "{}", None),
)
BODY = "".join(f"    step_{n} = run(step_{n - 1})\n" for n in range(1, 40))


def make_hit(path: str, score: float, **more: Any) -> Hit:
    content = more.pop("content", f"def {path[4:-3]}(self):\n{BODY}")
    first = more.pop("first", 101)
    lines = content.count("\n")
    return Hit(
        chunk_id=uuid.uuid4(),
        repository_id=REPOSITORY,
        file_path=path,
        language="python",
        file_kind="code",
        content=content,
        start_line=first,
        end_line=first + lines - 1,
        symbol=more.pop("symbol", path[4:-3]),
        kind="function",
        similarity_score=score,
        context_before="",
        context_after="",
        matching_lines=tuple(first + n for n in (20, 30, 10, 37, 5)),
        **more,
    )


def report_of(
    *hits: Hit, files: int | None = None, state: str = "ready", **more: Any
) -> SearchReport:
    answer = Answer(list(hits), files or len(hits), len(hits), False, (SNAPSHOT,))
    truth = IndexFreshness(state, 2, 0, 0, None, None)  # type: ignore[arg-type]
    project = Project("shop", "project_shop", datetime.now(UTC))
    scope = CallScope(project, "explicit", (), "workspace")
    return SearchReport(answer, project, "explicit", truth, 5.0, scope, **more)


def blocks(text: str) -> list[list[str]]:
    """The lines of each result."""
    found: list[list[str]] = []
    for line in text.split("\n"):
        if line[:1].isdigit() and ". " in line[:4]:
            found.append([])
        if found:
            found[-1].append(line)
    return found


def test_a_result_is_a_heading_and_lines_as_they_stand_in_the_file() -> None:
    hit = make_hit(
        "src/sessions.py",
        0.98,
        symbol="Store.open",
        content='def open(self):\n    """It\'s \\"raw\\"."""\n\treturn 1\n',
        first=307,
        more_in_file=(
            LineRange(335, 379, "Store.save", 0.97),
            LineRange(20, 24, None, 0.5),  # without a name it says nothing
            LineRange(50, 59, "Store.close", 0.31),
            LineRange(90, 99, "Store.fork", 0.01),
        ),
    )
    assert search_text(report_of(hit)) == (
        "1. src/sessions.py:307-309  0.98  Store.open\n"
        "307  def open(self):\n"
        '308      """It\'s \\"raw\\"."""\n'
        "309  \treturn 1\n"
        "   also 335-379 Store.save 0.97, 50-59 Store.close 0.31"
    )


def test_what_is_left_out_of_a_definition_is_counted() -> None:
    text = search_text(report_of(make_hit("src/pay.py", 0.95)))
    assert "101  def pay(self):" in text
    assert "\n  …   [7 lines]\n109  " in text
    assert "121      step_20 = run(step_19)" in text
    assert "\n108  " not in text


def test_behind_a_cliff_five_have_a_line_each_and_the_others_up_to_ten_one_together() -> None:
    sure = make_hit("src/pay.py", 0.95)
    others = [make_hit(f"src/other{n}.py", 0.2) for n in range(14)]
    text, last = search_text(report_of(sure, *others, files=40)).rsplit("\n", 1)
    first, *rest = blocks(text)
    assert len(first) > 5
    assert len(rest) == 5
    assert all(len(block) == 1 for block in rest)
    assert last == "also: " + ", ".join(f"src/other{n}.py:101-140 other{n}" for n in range(5, 9))


def test_of_the_last_places_headings_of_documents_are_not_shown() -> None:
    hits = [make_hit(f"docs/{n}.md", 0.2, symbol="Pay. By card") for n in range(7)]
    last = search_text(report_of(make_hit("src/pay.py", 0.95), *hits)).rsplit("\n", 1)[1]
    assert last == "also: docs/5.md:101-140, docs/6.md:101-140"


def test_of_several_about_as_good_each_has_some_lines() -> None:
    hits = [make_hit(f"src/pay{n}.py", 0.8 - n / 50) for n in range(4)]
    text = search_text(report_of(*hits, files=40))
    found = blocks(text)
    assert all(any("def pay" in line for line in block) for block in found[:2])
    assert len(found[0]) > len(found[1]) > len(found[2]) == 1


def test_what_is_probably_not_here_is_said_and_shown_as_places_without_code() -> None:
    usage = Usage(True, (UsingPlace("a.py", 1, "x"),), 0, 0, False)
    hits = [make_hit(f"src/x{n}.py", 0.49 - n / 50) for n in range(9)]
    help_ = Help((), {}, {}, None, NO_HINT, doubt="Probably not here.", absent="No card.")
    text = search_text(report_of(*hits, usage=usage, help=help_))
    doubt, absent, *places, others = text.split("\n")
    assert (doubt, absent) == ("Probably not here.", "No card.")
    assert [line[:12] for line in places] == [f"{n}. src/x{n - 1}.py" for n in range(1, 6)]
    assert others.startswith("also: src/x5.py:101-140 x5, ")
    likely = search_text(report_of(*(make_hit(f"src/x{n}.py", 0.5) for n in range(9))))
    assert likely.startswith("1. src/x0.py")
    assert "def x0" in likely


@pytest.mark.parametrize("context_lines", [0, 3, 50])
@pytest.mark.parametrize("budget", [200, 500, 1_000, 2_000, 4_000])
def test_a_reply_keeps_to_its_budget_and_shows_one_result_at_least(
    budget: int, context_lines: int
) -> None:
    hits = [make_hit(f"src/pay{n}.py", 0.9 - n / 50, content=BODY * 9) for n in range(10)]
    plain = search_text(report_of(*hits, files=99), budget)
    text = search_text(report_of(*hits, files=99), budget, context_lines)
    assert len(text) <= budget
    assert text.startswith("1. src/pay0.py:")
    # Context goes first: nothing else is left out for it.
    assert set(plain.split("\n")) - set(text.split("\n")) <= {
        line for line in plain.split("\n") if " lines]" in line
    }


def test_the_lines_around_those_that_answer_are_shown_beyond_the_definition_too() -> None:
    hit = make_hit("src/pay.py", 0.95, first=4, content="def pay(card):\n    return 7\n")
    hit = replace(hit, context_before="LIMIT = 3\n\n\n", context_after="\n\nclass Card:\n")
    assert search_text(report_of(hit), context_lines=3) == (
        "1. src/pay.py:4-5  0.95  pay\n"
        "1  LIMIT = 3\n2\n3\n4  def pay(card):\n5      return 7\n6\n7\n8  class Card:"
    )
    assert search_text(report_of(hit)).split("\n")[1:] == ["4  def pay(card):", "5      return 7"]


def test_lines_around_close_gaps_and_what_is_left_out_is_counted_still() -> None:
    report = report_of(make_hit("src/pay.py", 0.95))
    plain, wider = (search_text(report, context_lines=count).split("\n") for count in (0, 2))
    assert "  …   [7 lines]" in plain
    assert "  …   [3 lines]" in wider
    assert "  …   [7 lines]" not in wider


def test_line_numbers_keep_their_width() -> None:
    hit = make_hit("src/pay.py", 0.95, first=9, content="x = 1\n")
    hit = replace(hit, context_before="w = 0\n", context_after="y = 2\n")
    assert search_text(report_of(hit), context_lines=1).split("\n")[1:] == [
        " 8  w = 0",
        " 9  x = 1",
        "10  y = 2",
    ]


def test_more_room_shows_more() -> None:
    report = report_of(*(make_hit(f"src/pay{n}.py", 0.9 - n / 50) for n in range(4)))
    assert len(search_text(report, 4_000)) > 1.3 * len(search_text(report, 2_000))


def test_what_limits_an_answer_comes_first() -> None:
    hit = make_hit("src/pay.py", 0.95)
    assert search_text(report_of(hit, state="stale")).startswith(
        "2 files changed since the last index run.\n1. "
    )
    assert search_text(report_of(hit, state="unchecked")).startswith("1. ")
    report = report_of(hit)
    report = replace(report, answer=replace(report.answer, respelt={"recieve": "receive"}))
    assert search_text(report).startswith('Read "recieve" as "receive".\n1. ')


def test_nothing_found_says_what_to_do_next() -> None:
    help_ = Help(("No word of the question occurs in this code.",), {}, {}, None, "Try: image.")
    assert search_text(report_of(help=help_)) == (
        "Nothing found. Try: image.\nNo word of the question occurs in this code."
    )


def test_the_state_of_the_index_is_reported_once_when_nothing_is_found() -> None:
    changed = "2 files changed since the last index run."
    help_ = Help((changed,), {}, {}, None, "Ask again in a moment.")
    assert search_text(report_of(state="stale", help=help_)) == (
        f"{changed}\nNothing found. Ask again in a moment."
    )


def test_the_same_text_elsewhere_is_named() -> None:
    hit = make_hit("src/pay.py", 0.9, also_at=(Location(REPOSITORY, "copy/pay.py", 101, 140),))
    assert "   same text: copy/pay.py" in search_text(report_of(hit))


def test_what_would_steer_a_terminal_is_escaped() -> None:
    hit = make_hit("src/a\x1b[2J.py", 0.9, content="x = '\x1b[31m'\n")
    assert "\x1b" not in search_text(report_of(hit))


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (
            Usage(True, (UsingPlace("cart.py", 41, "checkout"), UsingPlace("api.py", 8, None)),
                  3, 2, True),
            "   called from: cart.py:41 checkout, api.py:8 (+3, 2 in tests)",
        ),
        (
            Usage(False, (UsingPlace("a\nb.py", 1, "x"),), 0, 0, True),
            "   used in: a\\x0ab.py:1 x",
        ),
        (
            Usage(True, (UsingPlace("a" * 70, 1, "x"), UsingPlace("b" * 70, 2, "y")), 17, 0, False),
            f"   called from: {'a' * 70}:1 x (+18 or more)",
        ),
    ],
    ids=["two places", "a name with a line break", "long paths, a common name"],
)  # fmt: skip
def test_where_the_first_result_is_used_is_one_line(usage: Usage, line: str) -> None:
    report = report_of(make_hit("src/a.py", 0.9), make_hit("src/b.py", 0.8), usage=usage)
    first, second = blocks(search_text(report))
    assert [one for one in first if "called" in one or "used" in one] == [line]
    assert not any("called" in one for one in second)
