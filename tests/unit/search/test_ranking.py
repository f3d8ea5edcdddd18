"""In what order files answer, and how sure that is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.model import FileKind
from codebase_mcp.search.lists import CandidateFile, NamedDefinition, TextEvidence
from codebase_mcp.search.query import inverse_frequencies, parse_query, rarest_terms
from codebase_mcp.search.scope import directory_matcher
from codebase_mcp.search.signals import (
    SIGNALS,
    WEIGHTS,
    definition_signal,
    name_signals,
    path_facts,
    query_name_words,
    rank_files,
    rarity,
    unnamed_share,
)


def make_candidate(path: str, words: float = 1.0, **more: Any) -> CandidateFile:
    """A file whose first chunk has a score by words."""
    kind = more.pop("kind", FileKind.CODE)
    evidence = TextEvidence({0: words} if words else {}, **more)
    return CandidateFile(1, path, hash(path), "python", kind, evidence)


def order(query: str, *candidates: CandidateFile) -> list[str]:
    parsed = parse_query(query)
    frequency = {term.text: 2.0 for term in parsed.terms}
    return [r.candidate.path for r in rank_files(parsed, candidates, {1: 1.0}, frequency)]


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("retry policy", make_candidate("src/retry_policy.py"), make_candidate("src/other.py")),
        ("retry", make_candidate("src/x.py", 2.0), make_candidate("src/y.py", 1.0)),
        ("routing", make_candidate("src/router.py"), make_candidate("src/table.py")),
        ("retry", make_candidate("src/a.py"), make_candidate("tests/a.py", kind=FileKind.TEST)),
        ("retry", make_candidate("src/b.py"), make_candidate("src/legacy/a.py")),
        ("retry", make_candidate("src/b.py"), make_candidate("src/internal/a.py")),
        ("retry", make_candidate("src/b.py"), make_candidate("src/a.md", kind=FileKind.DOCS)),
        ("http client", make_candidate("http/z.py"), make_candidate("ftp/a.py")),
        (
            "wait between two attempts. retry_delay",
            make_candidate("src/z.py", defined_stems=frozenset({"retri", "delay"})),
            make_candidate("src/a.py", defined_stems=frozenset({"delay"})),
        ),
        (
            "stop hammering the server",
            make_candidate("src/z.py", 0, meaning={0: 0.7}),
            make_candidate("src/a.py", 0, meaning={0: 0.2}),
        ),
    ],
)
def test_one_file_stands_above_another(
    query: str, better: CandidateFile, worse: CandidateFile
) -> None:
    assert order(query, worse, better) == [better.path, worse.path]


def test_tests_stand_back_unless_they_are_asked_for() -> None:
    code, test = make_candidate("src/a.py"), make_candidate("tests/b.py", kind=FileKind.TEST)
    assert order("retry", test, code)[0] == "src/a.py"
    assert order("retry tests", make_candidate("tests/b.py", 1.1, kind=FileKind.TEST), code)[0] == (
        "tests/b.py"
    )


def make_definition(name: str, definers: int = 1) -> NamedDefinition:
    return NamedDefinition(name.replace("_", "").casefold(), name, "function", 1, 2, 0, definers)


def test_a_rare_definition_in_the_same_case_claims_most() -> None:
    query = parse_query("RetryPolicy")
    exact = definition_signal(query, [make_definition("RetryPolicy")])
    other_case = definition_signal(query, [make_definition("retry_policy")])
    common = definition_signal(query, [make_definition("RetryPolicy", definers=9)])
    assert exact > other_case > common > 0


def test_a_name_that_the_query_says_early_counts_more() -> None:
    facts = path_facts("src/router.py")
    early, late = parse_query("router for requests"), parse_query("requests go by the router")
    assert (
        name_signals(facts, query_name_words(early))[0]
        > name_signals(facts, query_name_words(late))[0]
        > 0
    )


def test_further_chunks_add_ever_less() -> None:
    def body(chunks: int) -> float:
        return TextEvidence(dict.fromkeys(range(chunks), 1.0)).body

    assert body(1) < body(2) < 2 * body(1)
    assert body(40) == body(12)


@pytest.mark.parametrize(
    ("directory", "inside", "outside"),
    [
        ("src", ["src/a.py", "src/b/c.py"], ["src2/a.py", "lib/src/a.py", "SRC/a.py"]),
        ("src/", ["src/a.py"], ["src2/a.py"]),
        ("src/*", ["src/a/b.py", "src/a.py"], ["source/a.py"]),
        ("packages/*/lib", ["packages/x/lib/a.ts"], ["packages/lib/a.ts", "packages/x/y/lib/a.ts"]),
        ("**/parsers", ["parsers/a.py", "x/y/parsers/a.py"], ["x/parsers2/a.py"]),
        ("src/**/deep", ["src/deep/a", "src/a/b/deep/c"], ["src/deeper/a"]),
        ("a.b[c]", ["a.b[c]/x"], ["aXb[c]/x"]),
    ],
)
def test_a_directory_matches_whole_segments(
    directory: str, inside: list[str], outside: list[str]
) -> None:
    is_below = directory_matcher(directory)
    assert all(is_below(path) for path in inside)
    assert not any(is_below(path) for path in outside)


def test_rare_terms_pick_the_candidates_and_common_ones_only_together() -> None:
    query = parse_query("alpha beta gamma")
    a, b, c = (term.id for term in query.terms if term.spoken)
    assert rarest_terms(query, {a: 10, b: 500, c: 9_000}) == ([a, b], False)
    assert rarest_terms(query, {a: 20_000, b: 9_000, c: 30_000}) == ([b, a], True)
    assert rarest_terms(query, {}) == ([], False)


def test_a_rarer_term_weighs_more() -> None:
    query = parse_query("alpha beta")
    a, b = (term.id for term in query.terms if term.spoken)
    weights = inverse_frequencies((a, b), {-1: 1000, a: 5, b: 500})
    assert weights[a] > weights[b] > 0


def test_a_file_means_as_much_as_its_best_chunks_together() -> None:
    def meaning(found: dict[int, float], chunks: int) -> float:
        return TextEvidence(meaning=found, chunk_count=chunks, least_meaning=0.1).mean_meaning

    assert meaning({0: 0.5, 1: 0.3}, 2) == pytest.approx(0.4)
    assert meaning({0: 0.5}, 1) == 0.5
    # A chunk that the list does not hold is no nearer than its last.
    assert meaning({0: 0.5}, 2) == pytest.approx(0.3)
    assert meaning(dict.fromkeys(range(50), 0.5), 50) == pytest.approx(0.5)
    assert meaning({}, 0) == 0.0


def test_meaning_decides_where_no_file_bears_the_name() -> None:
    said = make_candidate("src/said.py", 3.0, chunk_count=1)
    meant = make_candidate("src/meant.py", 1.0, meaning={0: 0.5}, chunk_count=1)
    assert order("stop hammering", said, meant)[0] == "src/meant.py"
    named = make_candidate("src/hammering.py", 3.0, chunk_count=1)
    assert order("hammering, stop", named, meant)[0] == "src/hammering.py"


def test_a_name_counts_less_where_no_chunk_holds_what_is_asked_together() -> None:
    query = parse_query("stop hammering the server")
    frequency = {term.text: 2.0 for term in query.terms}
    for words, scattered in ((1.5, 0.75), (6.0, 0.0)):
        candidates = make_candidate("src/server_pool.py", words), make_candidate("src/x.py", 0)
        signals = rank_files(query, candidates, {1: 1.0}, frequency)[0].signals
        unnamed = 1 - 0.95 * signals["name"]
        assert signals["name_scattered"] == pytest.approx(signals["name"] * unnamed * scattered)


def test_the_nearest_file_stands_out_unless_the_words_decide() -> None:
    far = [make_candidate(f"src/{n}.py", 0, meaning={0: 0.3}) for n in range(3)]
    near = make_candidate("src/near.py", 0, meaning={0: 0.5})
    frequency = {term.text: 2.0 for term in parse_query("stop hammering").terms}
    ranked = rank_files(parse_query("stop hammering"), [*far, near], {1: 1.0}, frequency)
    assert ranked[0].signals["standing_out"] == pytest.approx(3**0.5, rel=0.02)
    assert ranked[-1].signals["standing_out"] < 0
    whole = make_candidate("src/whole.py", 4.0, meaning={0: 0.3})
    ranked = rank_files(parse_query("stop hammering"), [whole, near], {1: 1.0}, frequency)
    assert {file.signals["standing_out"] for file in ranked} == {0.0}
    for other in ("hammering", "I am lost. Stop hammering"):
        query = parse_query(other)
        frequency = {term.text: 2.0 for term in query.terms}
        ranked = rank_files(query, [*far, near], {1: 1.0}, frequency)
        assert {file.signals["standing_out"] for file in ranked} == {0.0}
    assert rank_files(parse_query("stop hammering"), [], {1: 1.0}, frequency) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/login.py", 0.05),  # the rarest word, and first
        ("src/button.py", 1 - 0.95 / 1.35),  # as rare, but second
        ("src/new.py", 1 - 0.95 * 0.5 / 1.7),  # so common that the file may bear it by chance
        ("src/other.py", 1.0),
    ],
)
def test_a_name_shared_by_chance_leaves_a_question_unnamed(path: str, expected: float) -> None:
    query = parse_query("login button new")
    rare = rarity(query, {"login": 5.0, "button": 5.0, "new": 1.0})
    facts = path_facts(path)
    name, _ = name_signals(facts, query_name_words(query))
    assert unnamed_share([facts], [name], rare) == pytest.approx(expected)


def test_what_nothing_is_known_of_is_as_rare_as_anything() -> None:
    assert rarity(parse_query("login"), {}) == {"login": 0.0}
    assert unnamed_share([], [], {}) == 1.0


# Candidates of real searches with their signals, as the first formula computed them.
RECORDED = json.loads(Path(__file__).parents[2].joinpath("data/rankings.json").read_text())


def recorded_candidate(blob_id: int, recorded: Mapping[str, Any], least: float) -> CandidateFile:
    evidence = TextEvidence(
        *(
            {int(ordinal): score for ordinal, score in recorded[list_name].items()}
            for list_name in ("words", "meaning", "expansion")
        ),
        [NamedDefinition(*definition) for definition in recorded["definitions"]],
        recorded["comments"],
        recorded["chunk_count"],
        recorded["is_only_holder"],
        least_meaning=least,
    )
    kind = FileKind(recorded["kind"])
    return CandidateFile(1, recorded["path"], blob_id, "python", kind, evidence)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["query"])
def test_each_signal_of_recorded_candidates_is_what_it_was(recorded: Mapping[str, Any]) -> None:
    candidates = [
        recorded_candidate(n, one, recorded["least_meaning"])
        for n, one in enumerate(recorded["candidates"])
    ]
    ranked = rank_files(
        parse_query(recorded["query"]),
        candidates,
        {1: recorded["median_depth"]},
        recorded["frequency"],
    )
    signals_of = {one["path"]: one["signals"] for one in recorded["ranked"]}
    assert signals_of.keys() == {file.candidate.path for file in ranked}
    for file in ranked:
        expected = {signal.name: 0.0 for signal in SIGNALS} | signals_of[file.candidate.path]
        assert file.signals == pytest.approx(expected, abs=1e-9)
        total = sum(WEIGHTS[name] * value for name, value in file.signals.items())
        assert file.score == pytest.approx(total, abs=1e-9)
    coverage_of = {one["path"]: one["coverage"] for one in recorded["ranked"]}
    assert {f.candidate.path: f.coverage for f in ranked} == pytest.approx(coverage_of, abs=1e-9)


def test_the_recorded_candidates_show_every_signal_of_then() -> None:
    shown = {n for one in RECORDED for file in one["ranked"] for n in file["signals"]}
    assert shown == {signal.name for signal in SIGNALS} - {"expected_names"}


def test_expected_names_count_by_the_rarity_of_their_parts() -> None:
    query = parse_query("wait between two attempts. RetryPolicy backoff_delay")
    assert query.expected >= {"retri", "polici", "backoff", "delay"}
    candidates = [
        make_candidate(f"src/{n}.py", defined_stems=frozenset(stems))
        for n, stems in enumerate([{"retri", "backoff"}, {"delay"}, ()])
    ]
    frequency = {term.text: 3.0 for term in query.terms} | {"delay": 1.5}
    ranked = rank_files(query, candidates, {1: 1.0}, frequency)
    signals = {file.candidate.path: file.signals["expected_names"] for file in ranked}
    assert signals == {"src/0.py": 1.0, "src/1.py": 0.25, "src/2.py": 0.0}


def test_a_lone_identifier_is_asked_for_and_not_expected() -> None:
    assert parse_query("RetryPolicy").expected == frozenset()


def test_every_signal_has_a_unique_name_and_says_what_it_measures() -> None:
    assert len(WEIGHTS) == len(SIGNALS)
    assert all(signal.measures for signal in SIGNALS)
