"""How sure an answer is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from codebase_mcp.model import FileKind
from codebase_mcp.search.candidates import Candidates
from codebase_mcp.search.confidence import (
    ANSWERABLE_WEIGHTS,
    FIRST_WEIGHTS,
    FLOOR,
    LEAST_ANSWERABLE,
    LEAST_FIRST,
    MOST_ELSEWHERE,
    RELATED_WEIGHTS,
    FirstEvidence,
    QueryEvidence,
    confidences,
    first_evidence,
    is_doubtful,
    query_evidence,
)
from codebase_mcp.search.lists import CandidateFile, TextEvidence
from codebase_mcp.search.query import Query, parse_query
from codebase_mcp.search.signals import RankedFile

NOTHING = QueryEvidence(
    coverage=0.05, name=0.0, definition=0.0, meaning=0.2, mean_meaning=0.15, spread=0.05,
    unknown=0.7, words=1.4, known_coverage=0.0, topic=-2.0, background=0.5,
    expansion_coverage=0.1, size=6.0, missing=False,
)  # fmt: skip


def make_ranked(score: float, coverage: float = 0.5, **signals: float) -> RankedFile:
    evidence = TextEvidence({0: 1.0}, {0: signals.get("meaning", 0.0)})
    candidate = CandidateFile(1, "a.py", 1, "python", FileKind.CODE, evidence)
    named = (
        dict.fromkeys(("name", "definition", "meaning", "expansion", "only_place"), 0.0) | signals
    )
    return RankedFile(candidate, score, named, coverage)


def evidence_of(query: Query, ranked: list[RankedFile], facts: Mapping[str, Any]) -> QueryEvidence:
    of_query = ("topic", "background", "chunks")
    lists = {name: value for name, value in facts.items() if name not in of_query}
    candidates = Candidates(files=[], frequency={}, total=0, **lists)
    return query_evidence(query, ranked, candidates, **{name: facts[name] for name in of_query})


def test_a_question_about_something_else_is_below_the_floor() -> None:
    assert NOTHING.odds < FLOOR


@pytest.mark.parametrize(
    "evidence",
    [
        {"coverage": 1.2, "known_coverage": 1.2, "unknown": 0.0, "topic": 0.0},
        {"name": 1.0, "definition": 1.0, "unknown": 0.0, "topic": 0.0},
        # In everyday words: hardly a word is in the code, but it is near, and about software.
        {"meaning": 0.5, "mean_meaning": 0.45, "spread": 0.3, "unknown": 0.2, "topic": 2.0},
    ],
)
def test_each_kind_of_evidence_lifts_a_question_above_it(evidence: dict[str, float]) -> None:
    assert replace(NOTHING, **evidence).odds >= FLOOR


def test_the_weights_are_of_the_facts() -> None:
    facts = {field.name for field in fields(QueryEvidence)} | {"intercept"}
    assert (
        facts - {"missing", "literal", "small"}
        == RELATED_WEIGHTS.keys() | ANSWERABLE_WEIGHTS.keys()
    )
    assert set(FIRST_WEIGHTS) == {field.name for field in fields(FirstEvidence)} | {"intercept"}


def test_what_a_question_shows_is_the_most_of_its_first_files() -> None:
    query = parse_query("retry policy")
    ranked = [make_ranked(3.0, 0.5, name=1.0), make_ranked(2.0, 9.0, meaning=0.6)]
    facts = {
        "least_meaning": 0.2, "unknown": 0.5, "topic": 1.5, "background": 0.4,
        "expansion_coverage": 0.3, "chunks": 100,
    }  # fmt: skip
    found = evidence_of(query, ranked, facts)
    assert asdict(found) == pytest.approx(
        {
            "coverage": 1.5, "name": 1.0, "definition": 0.0, "meaning": 0.6, "mean_meaning": 0.6,
            "spread": 0.4, "unknown": 0.5, "words": 1.0986, "known_coverage": 0.75, "topic": 1.5,
            "background": 0.4, "expansion_coverage": 0.3, "size": 5.7071, "missing": False,
            "literal": False, "small": 1.0,
        },
        abs=1e-4,
    )  # fmt: skip
    nothing = evidence_of(parse_query("?"), [], {**facts, "least_meaning": 0.0})
    assert nothing.coverage == nothing.meaning == 0.0


@pytest.mark.parametrize(("asked", "unknown", "here"), [
    ("retry_policy", 0.0, True),
    ("retry_policy", 0.3, False),
    ("retry policy", 0.3, True),
])  # fmt: skip
def test_an_identifier_is_here_if_it_occurs_or_names_a_file(
    asked: str, unknown: float, *, here: bool
) -> None:
    facts = {
        "least_meaning": 0.3, "unknown": unknown, "topic": 1.5, "background": 0.0,
        "expansion_coverage": 0.0, "chunks": 100,
    }  # fmt: skip
    query, ranked = parse_query(asked), make_ranked(3.0, meaning=0.3)
    assert (evidence_of(query, [ranked], facts).answerable >= LEAST_ANSWERABLE) == here
    for path, is_named in (("src/retry_policy.py", True), ("src/retry.py", False)):
        named = ranked._replace(candidate=ranked.candidate._replace(path=path))
        assert (evidence_of(query, [named], facts).answerable >= LEAST_ANSWERABLE) == (
            here or is_named
        )
    defined = make_ranked(3.0, meaning=0.3, definition=1.0)
    assert evidence_of(query, [defined], facts).answerable >= LEAST_ANSWERABLE


def test_without_a_model_no_question_seems_to_belong_elsewhere() -> None:
    facts = {
        "least_meaning": None, "unknown": 0.2, "topic": 1.5, "background": 0.6,
        "expansion_coverage": 0.05, "chunks": 100,
    }  # fmt: skip
    query = parse_query("try again when the connection drops")
    assert evidence_of(query, [make_ranked(3.0)], facts).answerable >= LEAST_ANSWERABLE


@pytest.mark.parametrize(("asked", "unknown", "coverage", "chunks", "literal"), [
    ("apricot", 0.0, 0.4, 9_000, True),  # a word of the code
    ("apricot", 1.0, 0.0, 9_000, False),
    ("peel the apricot first", 0.0, 0.9, 100, True),  # a sentence of small code
    ("peel the apricot first", 0.0, 0.9, 9_000, False),
    ("peel the apricot first", 0.3, 0.9, 100, False),
])  # fmt: skip
def test_what_stands_in_the_code_as_it_is_has_to_do_with_it(
    asked: str, unknown: float, coverage: float, chunks: int, *, literal: bool
) -> None:
    facts = {
        "least_meaning": 0.1, "unknown": unknown, "topic": -9.0, "background": 0.4,
        "expansion_coverage": 0.0, "chunks": chunks,
    }  # fmt: skip
    found = evidence_of(parse_query(asked), [make_ranked(3.0, coverage)], facts)
    assert (found.literal, found.is_about_code) == (literal, literal)
    assert found.odds < FLOOR


def test_a_filter_is_doubted_where_it_may_have_added_the_evidence() -> None:
    assert is_doubtful(replace(NOTHING, spread=0.4, meaning=0.5, mean_meaning=0.5, unknown=0.0))
    assert not is_doubtful(replace(NOTHING, topic=4.0))  # the question alone is about software
    near = {"meaning": 0.8, "mean_meaning": 0.7, "spread": 0.4, "topic": 0.0, "unknown": 0.0}
    assert not is_doubtful(replace(NOTHING, **near))


def test_in_small_code_the_first_file_is_held_against_the_question() -> None:
    small = replace(NOTHING, small=1.0, background=0.3, unknown=0.0)
    weak, strong = make_ranked(4.0, 0.1, meaning=0.2), make_ranked(4.0, 1.0, meaning=0.2)
    for others in ([], [make_ranked(-1.0)], [make_ranked(0.0) for _ in range(20)]):
        found = [first_evidence([best, *others], [1.0] + [0.0] * len(others), small)
                 for best in (weak, strong)]  # fmt: skip
        assert [round(one.apart, 3) for one in found] == [0.1, 1.0]
        assert [round(one.ahead, 3) for one in found] == [0.1, 1.0]


def test_what_answers_by_chance_is_never_surer_than_even() -> None:
    sure = replace(NOTHING, background=0.0, unknown=0.0)
    ranked = [make_ranked(9.0, 1.0, meaning=0.8), make_ranked(1.0)]
    assert confidences(ranked, sure)[0].similarity > LEAST_FIRST
    scores = [one.similarity for one in confidences(ranked, sure, by_chance=True)]
    assert scores[0] == LEAST_FIRST
    assert scores == sorted(scores, reverse=True)


def first_of(ranked: list[RankedFile]) -> FirstEvidence:
    leads = [file.lead for file in confidences(ranked, NOTHING)]
    return first_evidence(ranked, leads, replace(NOTHING, unknown=0.25))


def test_the_first_file_is_held_against_the_others() -> None:
    ranked = [
        make_ranked(4.0, 9.0, name=1.0, meaning=0.3, expansion=0.5),
        make_ranked(3.0, meaning=0.5, expansion=1.0),
        *[make_ranked(1.0) for _ in range(20)],
    ]
    assert asdict(first_of(ranked)) == pytest.approx(
        {
            "coverage": 1.5, "name": 1.0, "definition": 0.0, "meaning": 0.3, "apart": 0.75,
            "ahead": 0.25, "expanded": 0.75, "behind": 0.2, "unknown": 0.25,
            "answerable": NOTHING.answerable,
        }
    )  # fmt: skip
    alone = first_of([make_ranked(4.0)])
    assert (alone.apart, alone.ahead, alone.expanded, alone.behind) == (0.0, 0.0, 0.0, 0.0)
    only_place = first_of([make_ranked(64.0, only_place=1.0)])
    assert (only_place.apart, only_place.ahead) == (1.0, 1.0)


def test_the_others_are_sure_by_their_lead() -> None:
    ranked = [make_ranked(score) for score in (4.0, 3.0, 1.0)]
    first, second, third = confidences(ranked, NOTHING)
    assert (first.lead, second.lead, third.lead) == (1.0, 0.75, 0.25)
    assert 1 >= first.similarity > second.similarity > third.similarity >= 0
    assert confidences([], NOTHING) == []
    # Penalties may bring all files below nothing: the best of them is still the first.
    below = confidences([make_ranked(-1.0), make_ranked(-2.0)], NOTHING)
    assert [file.lead for file in below] == [1.0, 0.0]
    assert below[0].similarity >= below[1].similarity


def test_a_file_that_leads_far_is_more_likely_meant() -> None:
    close = confidences([make_ranked(4.0, 1.0), make_ranked(3.9)], NOTHING)[0]
    far = confidences([make_ranked(4.0, 1.0), make_ranked(1.0)], NOTHING)[0]
    assert close.similarity < far.similarity


def test_no_file_is_surer_than_the_first() -> None:
    first, second = confidences([make_ranked(4.0, 0.0), make_ranked(3.99, 0.0)], NOTHING)
    assert second.similarity <= first.similarity


def test_what_this_code_hardly_has_scores_below_what_it_may_have() -> None:
    strong = [make_ranked(4.0, 1.5, meaning=0.9), make_ranked(1.0)]
    weak = [make_ranked(4.0, 0.0), make_ranked(3.99, 0.0)]
    elsewhere = replace(NOTHING, mean_meaning=0.1, background=0.7)
    assert elsewhere.answerable < LEAST_ANSWERABLE
    assert confidences(strong, elsewhere)[0].similarity == MOST_ELSEWHERE
    here = replace(NOTHING, mean_meaning=0.35)
    assert here.answerable >= LEAST_ANSWERABLE
    assert confidences(weak, here)[0].similarity == LEAST_FIRST
    assert confidences(strong, here)[0].similarity > LEAST_FIRST


def test_a_file_however_far_behind_has_a_score() -> None:
    first, second = confidences([make_ranked(0.001), make_ranked(-50.0)], NOTHING)
    assert 0 <= second.similarity <= first.similarity
