"""What a list of places is worth for a query, and what reading it costs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from codebase_mcp.app.evaluation.questions import Question, Target
from codebase_mcp.app.evaluation.scoring import (
    Evaluation,
    ListEntry,
    Outcome,
    Score,
    compare,
    interval,
    listed_results,
    ndcg,
    ranks_of_files,
    score,
)

A, B = Target("a.py"), Target("b.py")
A_LINES = Target("a.py", (10, 20))
SIZES = {"a.py": 4_000, "b.py": 8_000}


def shown(*paths: str, lines: tuple[int, int] = (1, 5), chars: int = 400) -> ListEntry:
    return ListEntry(tuple(Target(path, lines) for path in paths), chars)


LIST = [shown("x.py"), shown("a.py"), shown("x.py"), shown("b.py")]


def test_a_file_has_the_rank_of_its_first_place() -> None:
    assert ranks_of_files(LIST) == {"x.py": 1, "a.py": 2, "b.py": 3}
    assert ranks_of_files([shown("x.py", "y.py"), shown("y.py", "z.py")]) == {
        "x.py": 1, "y.py": 1, "z.py": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ranks", "wanted", "expected"),
    [
        ([1], 1, 1.0),
        ([2], 1, 1 / math.log2(3)),
        ([], 1, 0.0),
        ([11], 1, 0.0),
        ([1, 2], 2, 1.0),
        ([1], 2, 1 / (1 + 1 / math.log2(3))),
        ([1, 1], 2, 1 / (1 + 1 / math.log2(3))),
        (list(range(1, 11)), 12, 1.0),
    ],
)
def test_ndcg(ranks: list[int], wanted: int, expected: float) -> None:
    assert ndcg(ranks, wanted) == pytest.approx(expected)


def test_recall_is_the_share_of_the_files_that_were_found() -> None:
    found = score(LIST, [A, B, Target("a.py", (1, 2))], SIZES)
    assert found.recall == {1: 0.0, 5: 1.0, 10: 1.0}
    assert score(LIST, [A, Target("gone.py")], {**SIZES, "gone.py": 0}).recall[10] == 0.5
    assert (found.rank, found.reciprocal_rank) == (2, 0.5)


@pytest.mark.parametrize(
    ("listed", "targets", "tokens"),
    [
        ([shown("a.py")], [A], 100),
        (LIST, [A], 200),
        (LIST, [B], 400),
        (LIST, [A, B], 200),
        # The lines come with the second place of the file.
        ([shown("a.py"), shown("a.py", lines=(15, 30))], [A_LINES], 200),
        # The file comes, its lines never do: it is opened.
        ([shown("x.py"), shown("a.py"), shown("y.py")], [A_LINES], 200 + 1_000),
        # Neither of two comes: the smaller one is opened after the whole list.
        ([shown("x.py"), shown("y.py")], [A, B], 200 + 1_000),
        ([], [B], 2_000),
    ],
)
def test_tokens_to_the_answer(
    listed: list[ListEntry], targets: list[Target], tokens: float
) -> None:
    assert score(listed, targets, SIZES).tokens == tokens


@pytest.mark.parametrize(
    ("lines", "targets", "expected"),
    [
        ((1, 9), [A_LINES], False),
        ((1, 10), [A_LINES], True),
        ((20, 25), [A_LINES], True),
        ((21, 25), [A_LINES], False),
        ((1, 9), [A], None),
        ((1, 9), [Target("b.py", (1, 9))], None),
    ],
)
def test_lines_are_shown_where_any_of_them_is(
    lines: tuple[int, int], targets: list[Target], expected: bool | None
) -> None:
    assert score([shown("a.py", lines=lines)], targets, SIZES).shows_lines is expected


def test_an_answer_comes_within_a_budget_and_a_miss_never_does() -> None:
    cheap, dear = score([shown("a.py", chars=4_000)], [A], SIZES), score(LIST, [A_LINES], SIZES)
    assert (cheap.tokens, dear.tokens) == (1_000, 1_200)
    assert [cheap.is_within(1_000), cheap.is_within(999), dear.is_within(1_000)] == [
        True,
        False,
        False,
    ]
    assert not score([], [A], SIZES).is_within(4_000)


def test_the_interval_narrows_with_the_number_of_queries() -> None:
    few, many = interval([0.0, 1.0] * 10), interval([0.0, 1.0] * 1_000)
    assert few[0] < many[0] < 0.5 < many[1] < few[1]
    assert many[1] - many[0] == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(2_000), rel=0.1)
    assert interval([0.7] * 5) == pytest.approx((0.7, 0.7))


def test_a_result_costs_all_of_its_json_and_shows_its_content() -> None:
    result = {
        "file_path": "a.py", "start_line": 3, "end_line": 9, "content": "ü\n" * 7,
        "repository_id": "r",
        "also_at": [
            {"repository_id": "r", "file_path": "b.py", "start_line": 1, "end_line": 7},
            {"repository_id": "other", "file_path": "c.py", "start_line": 1, "end_line": 7},
        ],
    }  # fmt: skip
    (found,) = listed_results([result], "r")
    assert found.places == (Target("a.py", (3, 9)), Target("b.py", (1, 7)))
    assert found.chars > len(str(result["content"])) * 1.5
    longer = {**result, "context_before": "x" * 1_000}
    assert listed_results([longer], "r")[0].chars - found.chars == 1_000 + len(
        ',"context_before":""'
    )


def outcome(text: str, ours: float, grep: float, group: str = "") -> Outcome:
    def one(value: float) -> Score:
        return Score(1 if value else None, {1: value, 5: value, 10: value}, value, None, 10, 20)

    return Outcome(Question(text, (A,), group), one(ours), one(grep), [], [])


def test_the_worst_come_first_and_those_that_got_all_not_at_all() -> None:
    outcomes = [outcome("half", 0.5, 0), outcome("all", 1, 1), outcome("none", 0, 1)]
    evaluation = Evaluation(Path("/r"), None, 3, 10, outcomes)
    assert [one.question.text for one in evaluation.worst(5)] == ["none", "half"]
    assert [one.question.text for one in evaluation.worst(1)] == ["none"]
    assert evaluation.is_rough
    assert evaluation.groups == {}


def test_figures_are_averages_and_the_difference_is_by_query() -> None:
    found = compare([outcome(str(n), ours=n % 2, grep=0.5 * (n % 2)) for n in range(40)])
    ours, grep = found["search_code"], found["grep"]
    assert (ours["ndcg_at_10"], grep["ndcg_at_10"], ours["missed"]) == (0.5, 0.25, 0.5)
    assert {ours["within_1000_tokens"], grep["within_4000_tokens"]} == {0.5}
    difference = found["ndcg_difference"]
    assert 0 < difference["low"] < difference["mean"] == 0.25 < difference["high"] < 0.5
