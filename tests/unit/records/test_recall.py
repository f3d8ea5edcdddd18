"""What answers a question, and what is worth its place in a prompt."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.records.anchoring import Anchor
from codebase_mcp.records.memory import MAX_PASSAGES, Observation, passages
from codebase_mcp.records.memory_search import (
    HALF_LIFE_DAYS,
    TYPE_WORTH,
    estimate_tokens,
    pack,
)
from codebase_mcp.search.query import parse_query
from codebase_mcp.search.relevance import (
    FUSED,
    MEANING_ONLY,
    WORDS_ONLY,
    Match,
    floor_among,
    nearness,
    rank,
)
from codebase_mcp.tools.sessions import preview

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def make_candidate(number: int, content: str = "It is so.", **fields: object) -> Observation:
    candidate = Observation(UUID(int=number), content, "Insight", (), None, NOW, NOW)
    return replace(candidate, **fields)  # type: ignore[arg-type]


def changed(symbol: str) -> Anchor:
    """An anchor at a symbol that has changed."""
    fields = (None, None, symbol, None, None, None, "needs_review", f"{symbol} changed", None)
    return Anchor(*fields)  # type: ignore[arg-type]


def order(*candidates: Observation) -> list[int]:
    """The numbers of some candidates in the order in which they are packed."""
    return [identity.int for identity in pack(candidates, "own", 100_000, NOW).ids]


def ranked(query: str, *matches: tuple[float, float], weighing: object = None) -> list[int]:
    """The numbers of matches (words as a share of what is asked for, cosine), best first."""
    parsed = parse_query(query)
    frequency = {term.id: 2.0 for term in parsed.terms}
    asked = 2.0 * sum(term.spoken for term in parsed.terms)
    given = [
        Match(UUID(int=number), share * asked, cosine)
        for number, (share, cosine) in enumerate(matches)
    ]
    more = {} if weighing is None else {"weighing": weighing}
    found = rank(parsed, frequency, given, 10, **more)  # type: ignore[arg-type]
    return [one.id.int for one in found]


def test_both_words_and_meaning_speak_for_an_observation() -> None:
    assert ranked("retry uploads", (0.5, 0.4), (0.5, 0.3), (0.9, 0.4)) == [2, 0, 1]


def test_without_a_shared_word_the_meaning_alone_can_make_an_answer() -> None:
    assert ranked("retry uploads", (0.0, 0.5)) == [0]


@pytest.mark.parametrize("match", [(0.0, 0.1), (0.0, 0.0), (0.1, 0.05), (0.0, -0.3)])
def test_weak_evidence_is_not_an_answer(match: tuple[float, float]) -> None:
    assert ranked("retry uploads", match) == []


def test_the_more_are_compared_the_more_evidence_an_answer_needs() -> None:
    floors = [floor_among(count) for count in (0, 1, 10, 100, 10_000)]
    assert floors == sorted(floors)
    assert floors[0] == floors[2] < floors[3]
    query = parse_query("retry uploads")
    frequency = {term.id: 1.0 for term in query.terms}
    match = Match(UUID(int=1), 0.0, (floors[2] + floors[3]) / 2 / FUSED.meaning)
    assert len(rank(query, frequency, [match], 10)) == 1
    assert rank(query, frequency, [match], 100) == []


def test_words_or_meaning_alone_can_be_asked_for() -> None:
    matches = ((1.0, 0.0), (0.0, 0.6))
    assert ranked("retry uploads", *matches, weighing=WORDS_ONLY) == [0]
    assert ranked("retry uploads", *matches, weighing=MEANING_ONLY) == [1]


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(-1, 1)), max_size=20))
def test_relevance_lies_between_0_and_1_and_never_rises(matches: list[tuple[float, float]]) -> None:
    query = parse_query("retry uploads")
    frequency = {term.id: 1.0 for term in query.terms}
    given_matches = [Match(UUID(int=n), w, c) for n, (w, c) in enumerate(matches)]
    scores = [one.relevance for one in rank(query, frequency, given_matches, 10)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_a_question_without_a_word_finds_nothing_by_words() -> None:
    assert rank(parse_query("!?"), {}, [Match(UUID(int=1), 0.0, 0.0)], 10) == []


contents = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=400)
words = st.text("aé語", max_size=20)
candidates = st.lists(
    st.builds(
        Observation,
        id=st.integers(0, 12).map(lambda n: UUID(int=n)),
        content=contents,
        type=st.sampled_from([*TYPE_WORTH]),
        tags=st.lists(words, max_size=3).map(tuple),
        stored_at=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(
            lambda at: at.replace(tzinfo=UTC)
        ),
        created_at=st.just(NOW),
        relevance=st.none() | st.floats(0, 1),
        session_id=st.sampled_from([None, "own", "another"]),
        anchors=st.lists(words.map(changed), max_size=2).map(tuple),
    ),
    max_size=12,
)


@given(candidates, st.integers(1, 600))
def test_a_packed_context_stays_within_its_budget_and_truncates_nothing(
    some: list[Observation], max_tokens: int
) -> None:
    packed = pack(some, "own", max_tokens, NOW)
    by_id = {candidate.id: candidate for candidate in some}
    assert packed.estimated_tokens == estimate_tokens(packed.context) <= max_tokens
    assert len(packed.ids) == len(set(packed.ids))
    assert len(packed.ids) + packed.omitted == len(by_id)
    rest = packed.context
    for identity in reversed(packed.ids):  # each is there whole, in this order
        content = f"\n\n{by_id[identity].content}"
        assert rest.endswith(content)
        rest = rest.removesuffix(content).rpartition("\n\n### ")[0]
    assert rest == ("## Project memory" if packed.ids else "")
    assert bool(packed.context) == bool(packed.ids)


@given(candidates)
def test_everything_is_included_if_it_fits(some: list[Observation]) -> None:
    packed = pack(some, "own", 100_000, NOW)
    assert set(packed.ids) == {candidate.id for candidate in some}
    assert packed.omitted == 0


def test_entries_that_do_not_fit_are_skipped_for_smaller_ones() -> None:
    long, short = make_candidate(1, "x" * 500, type="Decision"), make_candidate(2, "short")
    packed = pack([long, short], None, 40, NOW)
    assert [identity.int for identity in packed.ids] == [2]
    assert packed.omitted == 1


def test_at_the_same_age_types_rank_in_their_order() -> None:
    kinds = ["Decision", "Pattern", "Insight", "Summary", "Execution"]
    made = [make_candidate(number, type=kind) for number, kind in enumerate(kinds)]
    assert order(*made[::-1]) == [0, 1, 2, 3, 4]


def test_newer_ones_come_before_older_ones_of_a_type() -> None:
    ages = [30, 0, 7]
    made = [make_candidate(n, stored_at=NOW - timedelta(days=age)) for n, age in enumerate(ages)]
    assert order(*made) == [1, 2, 0]


def test_a_half_life_weighs_as_much_as_a_better_type() -> None:
    old = make_candidate(1, type="Decision", stored_at=NOW - timedelta(days=HALF_LIFE_DAYS))
    assert order(old, make_candidate(2, type="Summary")) == [1, 2]
    ancient = replace(old, stored_at=NOW - timedelta(days=10 * HALF_LIFE_DAYS))
    assert order(ancient, make_candidate(2, type="Summary")) == [2, 1]


def test_an_answer_comes_before_what_is_only_new_and_of_a_better_type() -> None:
    answer = make_candidate(1, type="Execution", relevance=0.9, stored_at=NOW - timedelta(days=365))
    assert order(make_candidate(2, type="Decision", relevance=0.2), answer) == [1, 2]


def test_observations_of_the_session_come_first() -> None:
    own = make_candidate(1, type="Execution", session_id="own")
    assert order(make_candidate(2, type="Decision", relevance=1.0), own) == [1, 2]


def test_of_duplicate_observations_the_last_one_is_used() -> None:
    first = make_candidate(1)
    packed = pack([first, make_candidate(2), replace(first, relevance=1.0)], None, 10_000, NOW)
    assert [identity.int for identity in packed.ids] == [1, 2]


def test_an_entry_says_what_it_is_and_whether_the_code_has_changed() -> None:
    candidate = make_candidate(
        1, "Use the pool.", tags=("db", "io"), anchors=(changed("Pool.get"),)
    )
    assert pack([candidate], None, 1_000, NOW).context == (
        "## Project memory\n\n"
        "### Insight · 2026-03-01 · tags: db, io · may be out of date, the code changed: Pool.get"
        "\n\nUse the pool."
    )


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 4, 2), ("語", 1)]
)
def test_tokens_are_a_quarter_of_the_bytes_rounded_up(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("short", ("short", False)),
        ("a" * 200, ("a" * 200, False)),
        ("a" * 201, ("a" * 200, True)),
        ("a" * 198 + " bcd", ("a" * 198, True)),
        ("a" * 200 + " bcd", ("a" * 200, True)),
        ("a" * 199 + "  bcd", ("a" * 199, True)),
        ("word " * 39 + "words and more", ("word " * 39 + "words", True)),
        ("line\n" * 50, (("line\n" * 40).rstrip(), True)),
    ],
)
def test_a_preview_ends_with_a_word(content: str, expected: tuple[str, bool]) -> None:
    assert preview(content) == expected


@given(st.text(max_size=500))
def test_a_preview_is_a_beginning(content: str) -> None:
    text, cut = preview(content)
    assert content.startswith(text)
    assert len(text) <= 200
    assert cut == (len(content) > 200)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("One sentence.", []),
        ("a, " * 200, []),
        ("Short one. Short two.", []),
        ("x" * 100 + ". " + "y" * 100 + "!", ["x" * 100 + ".", "y" * 100 + "!"]),
        ("x" * 60 + ". Yes. " + "y" * 100, ["x" * 60 + ". Yes.", "y" * 100]),
        ("x" * 110 + "\n\n- " + "y" * 20, ["x" * 110, "- " + "y" * 20]),
        ("日" * 100 + "。" + "本" * 50, ["日" * 100 + "。", "本" * 50]),
        ("version 1.2.3 of a.b.c", []),
    ],
)
def test_a_text_is_split_into_passages_of_sentences(content: str, expected: list[str]) -> None:
    assert passages(content) == expected


@given(st.text(max_size=3_000))
def test_passages_lose_nothing_but_white_space_and_are_few(content: str) -> None:
    found = passages(content)
    assert len(found) != 1
    assert len(found) <= 2 * MAX_PASSAGES + 1
    if found:
        assert "".join("".join(found).split()) == "".join(content.split())


@pytest.mark.parametrize(
    ("whole", "passage", "expected"),
    [(None, None, 0.0), (0.4, None, 0.4), (0.2, 0.6, 0.4), (0.3, -0.1, 0.1)],
)
def test_the_similarity_of_a_text_combines_the_whole_and_its_nearest_passage(
    whole: float | None, passage: float | None, expected: float
) -> None:
    assert nearness(whole, passage) == pytest.approx(expected)
