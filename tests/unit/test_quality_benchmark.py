"""The benchmark of answers: are its sets, its scores and its comparison what they say?"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codebase_mcp.search.query import parse_query
from codebase_mcp.text.tokens import aggressive_stem

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from quality_ablation import ablations, without
    from quality_dump import Dump, joined, read_dump, write_dump
    from quality_forms import FORMS, in_form
    from quality_queries import (
        EVERYDAY,
        FOLDER,
        EvalQuery,
        foreign,
        in_all_forms,
        read_json,
        unnamed,
        unrelated,
    )
    from quality_report import comparison, figures_of, page, record_of
    from quality_run import Outcome
    from quality_scoring import (
        ResultLines,
        Target,
        interval,
        mean_of_means,
        name_held,
        ndcg,
        ranks_of,
        reciprocal,
        shows_the_lines,
    )
finally:
    sys.path.pop(0)

UNNAMED = read_json(FOLDER / "unnamed.json")
UNRELATED = read_json(FOLDER / "unrelated.json")
SETS_OF_EVERYDAY = {path.stem: read_json(path) for path in sorted(EVERYDAY.glob("*.json"))}
QUERIES = [
    "how are routes registered",
    "JSON schema generation from models",
    "BaseHTTPMiddleware",
    "null-safe string operations and text helpers",
    "g",
]


def make_target(path: str, span: tuple[int, int] | None = None) -> Target:
    return Target(path, frozenset([path]), span)


def make_record(query: str, ranks: list[int], repository: str = "one", **more: Any) -> Any:
    """What a question got whose targets were found at some ranks."""
    targets = tuple(make_target(f"{number}.py") for number, _ in enumerate(ranks))
    wanted = dict(zip(ranks, targets, strict=True))
    hits = tuple(
        ResultLines(wanted[rank].path if rank in wanted else f"x{rank}.py", 1, 9, 0.95)
        for rank in range(1, max(ranks, default=0) + 1)
    )
    fields = {"set": "development", "text": query, "targets": targets, "original": query, **more}
    return record_of(Outcome(repository, "python", EvalQuery(**fields), hits, tuple(ranks)))


def stems_of(text: str) -> set[str]:
    """The stems of the words that carry a query's meaning."""
    return {aggressive_stem(part) for part in parse_query(text).parts}


@pytest.mark.parametrize(
    ("ranks", "wanted", "expected"),
    [
        ([1], 1, 1.0),
        ([3], 1, 0.5),
        ([11], 1, 0.0),
        ([None], 1, 0.0),
        ([], 0, 0.0),
        ([1, 2], 2, 1.0),
        ([1, 4], 2, (1 + 1 / math.log2(5)) / (1 + 1 / math.log2(3))),
        ([1, 1], 2, 1 / (1 + 1 / math.log2(3))),
    ],
)
def test_ndcg_discounts_by_rank(ranks: list[int | None], wanted: int, expected: float) -> None:
    assert ndcg(ranks, wanted) == pytest.approx(expected)


def test_the_first_place_of_a_file_counts_and_repeats_push_down() -> None:
    places = [
        ResultLines("b.py", 1, 9),
        ResultLines("b.py", 10, 20),
        ResultLines("a.py", 1, 5),
        ResultLines("a.py", 6, 9),
    ]
    assert ranks_of(places, [make_target("a.py"), make_target("c.py")]) == [3, None]
    assert reciprocal([3, None]) == pytest.approx(1 / 3)


def test_a_target_with_lines_is_met_by_lines_that_overlap() -> None:
    places = [ResultLines("a.py", 1, 9), ResultLines("a.py", 10, 20)]
    assert ranks_of(places, [make_target("a.py", (20, 30)), make_target("a.py", (21, 30))]) == [
        2,
        None,
    ]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (ResultLines("a.py", 10, 20), True),
        (ResultLines("a.py", 31, 40), False),
        (ResultLines("b.py", 10, 20), None),
    ],
)
def test_lines_are_judged_only_where_the_first_file_is_right(
    place: ResultLines, expected: bool | None
) -> None:
    assert shows_the_lines([place], [make_target("a.py", (15, 30))]) is expected


@pytest.mark.parametrize(
    ("query", "paths", "expected"),
    [
        ("how routing works", ["src/router.py"], "full"),
        ("parse the form", ["src/form_parser.py"], "full"),
        ("read a form", ["src/form_parser.py"], "part"),
        ("stop hammering the server", ["src/throttle.py"], "none"),
        ("the src folder", ["src/throttle.py"], "none"),
        ("throttle", ["src/limits.py", "src/throttle.py"], "full"),
    ],
)
def test_how_much_of_a_file_name_a_query_holds(query: str, paths: list[str], expected: str) -> None:
    assert name_held(query, paths) == expected


def test_an_interval_holds_the_mean_and_shrinks_with_agreement() -> None:
    chance = random.Random(1)
    groups = [[chance.gauss(0.1, 0.3) for _ in range(20)] for _ in range(20)]
    low, high = interval(groups)
    assert low < mean_of_means(groups) < high
    assert interval([[0.25] * 20] * 20) == (0.25, 0.25)


@pytest.mark.parametrize("query", QUERIES)
def test_polite_and_chatty_forms_only_add_words(query: str) -> None:
    assert query in in_form("polite", query)
    assert len(in_form("polite", query).split()) > len(query.split())
    assert in_form("chatty", query).lower().endswith(f". {query}".lower())


@pytest.mark.parametrize("query", QUERIES)
def test_a_misspelt_form_differs_by_one_slip_in_few_words_and_in_no_first_letter(
    query: str,
) -> None:
    words, wrong = query.split(), in_form("misspelt", query).split()
    changed = [(a, b) for a, b in zip(words, wrong, strict=True) if a != b]
    assert len(changed) <= 2
    for right, slipped in changed:
        missing, added = Counter(right) - Counter(slipped), Counter(slipped) - Counter(right)
        assert missing.total() + added.total() <= 1
        assert right[0] == slipped[0]


def test_every_long_enough_query_is_misspelt_in_many_ways() -> None:
    wrong = {in_form("misspelt", f"configuration number{n}") for n in range(30)}
    assert len({text.split()[0] for text in wrong}) > 5
    assert in_form("misspelt", "g in it") == "g in it"


def test_a_shuffled_form_has_the_same_words_in_another_order() -> None:
    query = "how are path parameters matched"
    assert sorted(in_form("shuffled", query).split()) == sorted(query.split())
    assert in_form("shuffled", query) != query
    assert in_form("shuffled", "alone") == "alone"


def test_forms_are_the_same_each_time() -> None:
    # Seeded by the text, not by the process: the answer is known beforehand.
    assert in_form("misspelt", "template rendering") == "template rendeirng"
    assert in_form("shuffled", "one two three") == "two three one"


def test_each_form_is_asked_of_every_repository_at_most_a_hundred_times() -> None:
    queries = {
        f"repository-{n}": [EvalQuery("development", f"How {n} of {m} works") for m in range(20)]
        for n in range(21)
    }
    made = in_all_forms(queries)
    counts = Counter((one.form, name) for name, some in made.items() for one in some)
    for form in FORMS:
        of_form = [count for (named, _), count in counts.items() if named == form]
        assert sum(of_form) == 100
        assert {4, 5} == set(of_form)
    assert all(one.text != one.original for some in made.values() for one in some)


def test_the_unnamed_queries_are_enough_and_each_is_made_of_another_one() -> None:
    assert len(UNNAMED) >= 260
    assert sum(entry["query"] != entry["original"] for entry in UNNAMED) >= 200
    assert len({(entry["repository"], entry["original"]) for entry in UNNAMED}) == len(UNNAMED)
    for entry in UNNAMED:
        assert entry.keys() == {"repository", "original", "query"}
        assert entry["query"].strip() == entry["query"] != ""
        # Words were taken out; where the rest was mended, hardly any came in.
        assert len(stems_of(entry["query"]) - stems_of(entry["original"])) <= 2, entry


def test_an_unnamed_query_keeps_its_targets_and_one_of_another_evaluation_is_left_out() -> None:
    known = EvalQuery(
        "development", "route table", (make_target("routes.py"),), category="semantic"
    )
    entry = {"repository": "one", "original": "route table", "query": "table"}
    made = unnamed({"one": [known]}, [entry, {**entry, "repository": "two"}])
    assert [(one.text, one.targets) for one in made["one"]] == [("table", known.targets)]
    assert "two" not in made


def test_there_are_enough_unrelated_queries_half_to_tune_on_and_half_to_check() -> None:
    queries = [entry["query"] for entry in UNRELATED]
    assert len(set(queries)) == len(queries) >= 110
    splits = Counter(entry["split"] for entry in UNRELATED)
    assert splits["tune"] == splits["check"]
    assert {entry["kind"] for entry in UNRELATED} == {"plain", "tricky"}
    assert all(2 <= len(query.split()) <= 9 for query in queries)


def test_a_repository_that_is_about_it_is_not_asked() -> None:
    written = [{"query": "chess", "kind": "plain", "split": "tune", "except": ["stockfish"]}]
    asked = unrelated(["stockfish", "flask"], written)
    assert (len(asked["stockfish"]), len(asked["flask"])) == (0, 1)


def test_there_are_enough_everyday_questions_in_enough_languages() -> None:
    assert len(SETS_OF_EVERYDAY) >= 10
    assert len({written["language"] for written in SETS_OF_EVERYDAY.values()}) >= 8
    assert sum(len(written["queries"]) for written in SETS_OF_EVERYDAY.values()) >= 200
    assert {written["split"] for written in SETS_OF_EVERYDAY.values()} == {"tune", "check"}


@pytest.mark.parametrize("name", SETS_OF_EVERYDAY)
def test_everyday_questions_name_their_revision_files_and_lines(name: str) -> None:
    written = SETS_OF_EVERYDAY[name]
    assert len(written["revision"]) == 40
    assert len({one["query"] for one in written["queries"]}) == len(written["queries"])
    for one in written["queries"]:
        assert one["targets"], one
        for target in one["targets"]:
            assert 1 <= target["start_line"] <= target["end_line"]
            assert not target["path"].startswith("/")


def make_dump() -> Dump:
    """Two questions: the first's target leads by its name, the second's by meaning."""
    signals = np.array([[1.0, 0.0], [0.0, 0.6], [0.0, 0.9], [0.5, 0.0]])
    added = signals * np.array([3.0, 2.0])
    questions = [
        {"set": "development", "repository": "one", "wanted": 1, "split": ""},
        {"set": "everyday", "repository": "two", "wanted": 2, "split": "tune"},
    ]
    return Dump(
        questions=questions,
        names=("name", "meaning"),
        starts=np.array([0, 2, 4]),
        paths=["a.py", "b.py"],
        path=np.array([0, 1, 0, 1], dtype=np.int32),
        targets=np.array([1, 0, 2, 0]),
        signals=signals,
        added=added,
        score=added.sum(axis=1),
        facts={"best_meaning": signals[:, 1]},
        chunks=np.array([[1.0, 0.0, 0.2, 0.3, 0.4]]),
    )


def test_a_dump_orders_candidates_anew_without_a_signal() -> None:
    dump = make_dump()
    assert dump.ranks(dump.score, 0) == [1]
    assert dump.ranks(dump.score, 1) == [None, 1]
    assert dump.ranks(without(dump, lambda name: name == "name"), 0) == [2]
    table = ablations(dump)
    assert table["all signals"] == {"development": 1.0, "everyday tune": 1.0}
    assert table["words only"] == {"development": 1.0, "everyday tune": 0.5}
    assert table["without name"]["development"] == pytest.approx(1 / math.log2(3))


def test_a_dump_is_read_as_it_was_written(tmp_path: Path) -> None:
    dump = make_dump()
    write_dump(dump, tmp_path / "dump.npz")
    again = read_dump(tmp_path / "dump.npz")
    assert (again.questions, again.names, again.paths) == (dump.questions, dump.names, dump.paths)
    assert np.array_equal(again.signals, dump.signals)
    assert np.array_equal(again.column("best_meaning"), dump.column("meaning"))
    assert ablations(again) == ablations(dump)


def test_two_dumps_become_one() -> None:
    dump = make_dump()
    both = joined([dump, dump])
    assert [both.ranks(both.score, n) for n in range(4)] == [[1], [None, 1]] * 2
    assert [both.paths[n] for n in both.path] == ["a.py", "b.py"] * 4
    assert both.chunks[:, 0].tolist() == [1.0, 5.0]
    assert len(both.column("best_meaning")) == len(both.score) == both.starts[-1]


def test_the_figures_are_means_over_repositories() -> None:
    records = [make_record("a", [1], "one"), make_record("b", [1], "one")]
    records += [make_record("c", [3], "two")]
    figures = figures_of(records)["development"]
    assert figures["ndcg10"] == pytest.approx(0.75)
    assert figures["hit1"] == pytest.approx(2 / 3)
    assert figures["confidence"]["bands"]["0.9"] == {"files": 5, "relevant": pytest.approx(0.6)}


def test_harder_queries_stand_beside_what_they_were_made_of() -> None:
    records = [
        make_record("route table", [1]),
        make_record("table", [3], set="unnamed", original="route table"),
        make_record("tabel route", [1], set="forms", form="misspelt", original="route table"),
    ]
    figures = figures_of(records)
    altered = figures["unnamed"]["altered"]
    assert (altered["ndcg10"], altered["unaltered"]) == (pytest.approx(0.5), pytest.approx(1.0))
    assert figures["forms"]["misspelt"] == {"ndcg10": 1.0, "unaltered": 1.0, "queries": 1}
    assert any("misspelt" in line for line in page(figures))


def test_a_share_of_unrelated_queries_with_any_result_is_told_by_split() -> None:
    nothing = make_record("chess", [], set="unrelated", split="tune", category="plain")
    something = {**nothing, "query": "string", "split": "check", "hits": [["a.py:1-2", 0.5, False]]}
    figures = figures_of([nothing, something])["unrelated"]
    assert (figures["any"], figures["tune"], figures["check"]) == (0.5, 0.0, 1.0)
    assert figures["most"] == {"string": 1}


def test_questions_of_other_repositories_are_noticed_if_nothing_scores_well() -> None:
    queries = {name: [EvalQuery("everyday", f"{name}?", split="tune")] for name in ("a", "b")}
    [asked] = foreign(queries)["a"]
    assert (asked.set, asked.text, asked.category, asked.targets) == ("foreign", "b?", "b", ())
    empty = make_record("empty", [], set="foreign")
    low, high = ({**empty, "hits": [["x.py:1-2", score, False]]} for score in (0.4, 0.7))
    figures = figures_of([low, high, empty])
    assert figures["foreign"] == {
        "asked": 3, "nothing": pytest.approx(1 / 3), "doubtful": pytest.approx(2 / 3)
    }  # fmt: skip
    assert "66.7% of 3" in page(figures)[0]


def test_everyday_figures_are_told_by_the_length_of_the_right_file() -> None:
    short = make_record("s", [2], set="everyday", split="tune")
    long = make_record("l", [1], set="everyday", split="tune")
    figures = figures_of([{**short, "lines": 50}, {**long, "lines": 2_000}])
    by_length = {name: part["mrr10"] for name, part in figures["everyday"]["length"].items()}
    assert by_length == {"from 1 lines": 0.5, "from 1000 lines": 1.0}
    assert any("from 1000 lines" in line for line in page(figures))


def test_a_comparison_pairs_questions_with_the_same_targets_only() -> None:
    before = [make_record("a", [3]), make_record("b", [2]), make_record("c", [1])]
    after = [make_record("a", [1]), make_record("b", [2, 1]), make_record("c", [1])]
    first, line, *_ = comparison(before, after)
    assert "2 questions" in first
    assert "0.7500 -> 1.0000  +0.2500" in line
