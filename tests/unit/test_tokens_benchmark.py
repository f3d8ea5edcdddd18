"""The measure of what an agent reads: are replies read as they are written, and counted fairly?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from quality_scoring import Target
    from tokens_replies import Entry, Reply, of_chunks, of_entries, of_json, of_semble, of_text
    from tokens_report import Record, page
    from tokens_run import chars_of_range, densest, numbered_chars
    from tokens_scoring import (
        MISS_TOKENS,
        Lines,
        cost_by_file,
        cost_by_lines,
        figures_of,
        lines_of,
    )
finally:
    sys.path.pop(0)

CONTRACT = """\
1. src/flask/sessions.py:307-332  0.98  SecureCookieSessionInterface.open_session
307  def open_session(self, app, request):
308      s = self.get_signing_serializer(app)
 …   [20 lines]
   also 335-379 save_session 0.97, 289-305 get_signing_serializer 0.91
2. src/flask/app.py:176-202  0.08  Flask
"""


def target(path: str, first: int = 0, last: int = 0) -> Target:
    return Target(path, frozenset([path]), (first, last) if first else None)


def entry(path: str, chars: int, shown: tuple[int, ...] = (), **more: Any) -> Entry:
    return Entry(path, chars, frozenset(shown), **{"ranges": (), **more})


def no_reading(path: str, span: tuple[int, int]) -> int:
    raise AssertionError(f"{path} {span} need not be read")


def test_the_contracts_text_is_read_as_it_is_meant() -> None:
    reply = of_text(CONTRACT)
    first, second = reply.entries
    assert (first.path, second.path) == ("src/flask/sessions.py", "src/flask/app.py")
    assert first.shown == {307, 308}
    assert first.ranges == first.named == ((307, 332), (335, 379), (289, 305))
    assert second.shown == frozenset()
    assert second.named == ((176, 202),)
    assert reply.before == 0
    assert first.chars + second.chars == reply.chars == len(CONTRACT)


def test_what_stands_before_the_first_result_is_read_too() -> None:
    line = "The index is being made: 3 of 9 files.\n"
    reply = of_text(line + CONTRACT)
    assert reply.before == len(line)
    assert len(reply.entries) == 2
    assert cost_by_file(reply, [target("src/flask/sessions.py")]).tokens == pytest.approx(
        (len(line) + reply.entries[0].chars) / 4
    )


def test_a_result_without_a_name_gives_its_range_but_names_no_definition() -> None:
    reply = of_text("1. docs/a b.md:3  0.71\n3  Hello\n   also 28-77 0.60, 80-81\n")
    (only,) = reply.entries
    assert only.path == "docs/a b.md"
    assert only.ranges == ((3, 3), (28, 77), (80, 81))
    assert only.named == ()
    assert only.shown == {3}


def test_names_with_spaces_commas_and_dots_are_names() -> None:
    reply = of_text(
        "1. a.rs:1-9  0.98  impl Map<K, V> for B\n   also 20-30 f(a, b) 0.97, 40-41 C.d\n"
    )
    assert reply.entries[0].named == ((1, 9), (20, 30), (40, 41))


def test_results_that_are_named_together_are_results() -> None:
    more = "also: src/x.py:3-9, docs/a, b.md:1-20 added\n[2 more files]\n"
    reply = of_text(CONTRACT + more)
    assert [one.path for one in reply.entries[2:]] == ["src/x.py", "docs/a, b.md"]
    assert [one.ranges for one in reply.entries[2:]] == [((3, 9),), ((1, 20),)]
    assert reply.chars == len(CONTRACT + more)
    assert of_text("1. a.py:1-2  0.98\n1  also: b.py:1-2\n").entries[0].shown == {1}


def test_code_that_looks_like_a_heading_is_code() -> None:
    text = (
        "1. notes.md:7-9  0.90  Steps\n7  1. src/a.py:1-2  0.98  f\n8\n 9  2. b.py:1-2  0.97  g\n"
    )
    (only,) = of_text(text).entries
    assert only.shown == {7, 8, 9}


def test_our_json_shows_the_lines_around_and_names_further_places() -> None:
    result = {
        "file_path": "a.py",
        "content": 'say("results\\": [{")\n',
        "start_line": 5,
        "end_line": 6,
        "symbol": None,
        "context_before": "3\n4\n",
        "context_after": "7\n",
        "more_in_file": [{"start_line": 20, "end_line": 30, "symbol": "f", "score": 0.5}],
    }
    other = {**result, "file_path": "b.py", "more_in_file": []}
    text = json.dumps({"results": [result, other], "total_count": 2}, separators=(",", ":"))
    reply = of_json(text)
    assert [one.path for one in reply.entries] == ["a.py", "b.py"]
    assert reply.entries[0].shown == {3, 4, 5, 6, 7}
    assert reply.entries[0].ranges == ((5, 6), (20, 30))
    assert reply.entries[0].named == ((20, 30),)
    assert reply.before == len('{"results":[')
    assert reply.before + sum(e.chars for e in reply.entries) == text.index('],"total_count"')
    assert reply.chars == len(text)


def test_sembles_reply_shows_the_first_lines_of_a_chunk_and_gives_its_range() -> None:
    result = {"file_path": "a.py", "start_line": 5, "end_line": 30, "score": 0.1, "content": "x\ny"}
    reply = of_semble(json.dumps({"query": 'the "results": [{', "results": [result]}))
    (only,) = reply.entries
    assert only.shown == {5, 6}
    assert only.ranges == ((5, 30),)
    assert only.named == ()
    assert of_semble(json.dumps({"error": "No results found."})).entries == ()


def test_reading_ends_with_the_first_result_of_a_relevant_file() -> None:
    reply = of_entries([entry("a", 400), entry("b", 600), entry("b", 9_000), entry("c", 1_000)])
    cost = cost_by_file(reply, [target("b"), target("c")])
    assert cost.tokens == 250
    assert cost.recall == {250: 0.5, 500: 0.5, 1_000: 0.5, 2_000: 0.5}
    assert cost.whole == 2_750


def test_a_target_with_lines_is_met_by_a_range_that_overlaps_them() -> None:
    reply = of_chunks([("a", 1, 10, 40), ("a", 11, 20, 40)])
    assert cost_by_file(reply, [target("a", 20, 25)]).tokens == 20
    assert cost_by_file(reply, [target("a", 21, 25)]).tokens is None


def test_what_is_never_found_costs_what_the_published_measure_says() -> None:
    reply = of_entries([entry("a", 400)])
    figures = figures_of([cost_by_file(reply, [target(path)]) for path in "ab"])
    assert figures.expected == (100 + MISS_TOKENS) / 2
    assert (figures.found, figures.misses) == (100, 1)
    assert figures.within[250] == figures.recall[250] == 0.5


@pytest.mark.parametrize(
    ("shown", "is_there"), [((4, 5), False), ((3, 9), False), ((4, 5, 6), True)]
)
def test_three_lines_of_the_answer_are_enough(shown: tuple[int, ...], is_there: bool) -> None:
    reply = of_entries([entry("a", 40, shown)])
    answer = [target("a", 4, 8)]
    assert lines_of(reply, answer).shown is is_there
    assert (cost_by_lines(reply, answer, no_reading).tokens is not None) is is_there


def test_a_shorter_answer_needs_all_its_lines_and_results_of_a_file_add_up() -> None:
    parts = [entry("a", 40, (4,)), entry("b", 40, (5,)), entry("a", 40, (5,))]
    answer = [target("a", 4, 5)]
    assert not lines_of(of_entries(parts[:2]), answer).shown
    assert cost_by_lines(of_entries(parts), answer, no_reading).tokens == 30


def test_a_named_definition_is_read_before_it_counts() -> None:
    named = entry("a", 40, ranges=((1, 50), (2, 9)), named=((1, 50), (2, 9)))
    asked_for: list[tuple[int, int]] = []

    def read_chars(path: str, span: tuple[int, int]) -> int:
        asked_for.append(span)
        return 360

    cost = cost_by_lines(of_entries([named]), [target("a", 4, 8)], read_chars)
    assert asked_for == [(2, 9)]
    assert cost.tokens == 100
    assert cost.recall[250] == 1


def test_lines_that_come_later_may_be_cheaper_than_a_large_definition() -> None:
    parts = [entry("a", 40, ranges=((1, 900),), named=((1, 900),)), entry("a", 40, (4, 5, 6))]
    cost = cost_by_lines(of_entries(parts), [target("a", 4, 8)], lambda path, span: 40_000)
    assert cost.tokens == 20


def test_a_range_without_a_name_is_told_apart() -> None:
    reply = of_entries([entry("a", 40, (1,), ranges=((1, 50),))])
    assert lines_of(reply, [target("a", 4, 8)]) == Lines(shown=False, named=False, in_range=True)
    assert cost_by_lines(reply, [target("a", 4, 8)], no_reading).tokens is None


def test_lines_of_a_file_are_read_with_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    read = chars_of_range(tmp_path)
    assert read("a.py", (2, 3)) == len("2  two\n3  three\n")
    assert read("a.py", (3, 99)) == len("3  three\n")


def test_the_window_lies_where_the_matches_are_densest() -> None:
    rows = 1 << 0 | 1 << 99 | 1 << 120
    assert densest(rows, 200) == (82, 121)
    assert densest(rows, 100) == (1, 40)
    assert densest(1, 7) == (1, 7)
    assert numbered_chars(["x" * 9_000], (1, 1)) == len("1  ") + 500 + len("\n")


def test_the_tables_name_every_tool_and_both_measures() -> None:
    reply = of_entries([entry("a", 400, (4, 5, 6))])
    answer = [target("a", 4, 8)]
    by_file, by_lines = cost_by_file(reply, [target("a")]), cost_by_lines(reply, answer, no_reading)
    records = [
        Record("one tool", "development", "r", "q", by_file),
        Record("one tool", "everyday", "r", "q", by_file, by_lines, lines_of(reply, answer)),
        Record("nothing", "development", "r", "q", cost_by_file(Reply((), 0, 0), answer)),
    ]
    written = "\n".join(page(records))
    assert "Development part, by file (questions: 1)" in written
    assert "by the lines of the answer" in written
    assert "| nothing  |   32,000 |      1 |" in written
    assert "| one tool | 1.000 |" in written
