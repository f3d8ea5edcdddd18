"""How ranked files become something to read."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.model import Chunk, FileKind
from codebase_mcp.search.hits import (
    Hit,
    ScoredFile,
    StoredText,
    choose,
    chunk_id_of,
    make_hits,
)
from codebase_mcp.search.lists import (
    NEAREST_CHUNKS,
    CandidateFile,
    NamedDefinition,
    TextEvidence,
)
from codebase_mcp.search.signals import RankedFile

REPOSITORY = uuid.uuid4()
TEXT = "".join(f"line {n}\n" for n in range(1, 41))
CHUNKS = {n: Chunk(n * 10 + 1, n * 10 + 10, f"part{n}", "function") for n in range(4)}


def make_file(
    path: str, similarity: float, blob: int = 1, *, far_behind: bool = False, **evidence: Any
) -> ScoredFile:
    candidate = CandidateFile(1, path, blob, "text", FileKind.CODE, TextEvidence(**evidence))
    ranked = RankedFile(candidate, 1.0, {"definition": 1.0}, 1.0)
    return ScoredFile(ranked, similarity, REPOSITORY, far_behind=far_behind)


def hits_of(files: list[ScoredFile], texts: dict[int, str], limit: int = 10) -> list[Hit]:
    stored = {blob: StoredText(split_lines(t), CHUNKS, ()) for blob, t in texts.items()}
    return make_hits(choose(files, limit), stored, context_lines=2, explain=False)


def test_a_file_is_shown_by_its_best_chunk_with_lines_around() -> None:
    [hit] = hits_of([make_file("a", 0.9, words={1: 3.0, 2: 0.5})], {1: TEXT}, limit=1)
    assert (hit.start_line, hit.end_line, hit.symbol) == (11, 20, "part1")
    assert hit.content == "".join(f"line {n}\n" for n in range(11, 21))
    assert (hit.context_before, hit.context_after) == ("line 9\nline 10\n", "line 21\nline 22\n")


def test_the_nearest_chunk_is_shown_though_another_holds_more_of_the_words() -> None:
    near = make_file("a", 0.9, words={1: 3.0}, meaning={2: 0.5, 1: 0.35}, least_meaning=0.3)
    [hit] = hits_of([near], {1: TEXT}, limit=1)
    assert hit.start_line == 21


def test_the_head_of_a_file_is_shown_only_if_it_is_much_better() -> None:
    meaning = {0: 0.45, 2: 0.4}
    [hit] = hits_of([make_file("a", 0.9, meaning=meaning, least_meaning=0.3)], {1: TEXT}, limit=1)
    assert hit.start_line == 21
    head = NamedDefinition("part0", "part0", "class", 1, 10, 0, 1, ordinal=0)
    defining = make_file("a", 0.9, meaning=meaning, least_meaning=0.3, definitions=[head])
    assert hits_of([defining], {1: TEXT}, limit=1)[0].start_line == 1
    meaning[0] = 0.6
    [hit] = hits_of([make_file("a", 0.9, meaning=meaning, least_meaning=0.3)], {1: TEXT}, limit=1)
    assert hit.start_line == 1


def test_a_file_found_by_its_expansion_terms_is_shown_where_they_are() -> None:
    [hit] = hits_of([make_file("a", 0.9, expansion={2: 3.0, 1: 1.0})], {1: TEXT}, limit=1)
    assert hit.start_line == 21


def test_other_good_places_are_named_inside_the_hit() -> None:
    [hit] = hits_of([make_file("a", 0.9, words={1: 3.0, 2: 2.8, 3: 0.2})], {1: TEXT}, limit=1)
    assert [place.start_line for place in hit.more_in_file] == [21]


def test_further_chunks_follow_only_where_files_are_too_few() -> None:
    files = [
        make_file("a", 0.9, 1, words={1: 3.0, 2: 2.9}),
        make_file("b", 0.8, 2, words={2: 1.0}),
    ]
    texts = {1: TEXT, 2: TEXT.replace("line", "row")}
    assert [h.file_path for h in hits_of(files, texts, limit=2)] == ["a", "b"]
    assert [h.file_path for h in hits_of(files, texts, limit=3)] == ["a", "a", "b"]


def test_the_same_text_elsewhere_is_one_hit_with_both_places() -> None:
    files = [make_file("a", 0.9, words={0: 1.0}), make_file("copy/a", 0.8, words={0: 1.0})]
    [hit] = hits_of(files, {1: TEXT}, limit=1)
    assert [place.file_path for place in hit.also_at] == ["copy/a"]


def test_a_place_stands_where_its_own_score_puts_it_and_is_named_once() -> None:
    words = {1: 4.0, 2: 3.8, 3: 3.6}
    files = [make_file("a", 0.9, 1, words=words), make_file("b", 0.1, 2, words=words)]
    texts = {1: TEXT, 2: TEXT.replace("line", "row")}
    alone = hits_of(files[:1], texts, limit=1)
    scores = {place.start_line: place.score for place in alone[0].more_in_file}
    assert scores == {21: 0.855, 31: 0.81}
    found = hits_of(files, texts, limit=4)
    assert [(h.file_path, h.start_line, h.similarity_score) for h in found] == [
        ("a", 11, 0.9), ("a", 21, scores[21]), ("a", 31, scores[31]), ("b", 11, 0.1)
    ]  # fmt: skip
    assert [[p.start_line for p in hit.more_in_file] for hit in found] == [[], [], [], [21, 31]]


def test_a_file_far_behind_and_weak_places_come_only_where_others_are_too_few() -> None:
    files = [
        make_file("a", 0.9, 1, words={1: 3.0, 2: 2.0, 0: 0.1}),
        make_file("b", 0.4, 2, words={2: 1.0}, far_behind=True),
    ]
    texts = {1: TEXT, 2: TEXT.replace("line", "row")}
    shown = [[(h.file_path, h.symbol) for h in hits_of(files, texts, limit=n)] for n in (2, 3, 4)]
    assert shown[0] == [("a", "part1"), ("a", "part2")]
    assert shown[1] == [*shown[0], ("b", "part2")]
    assert shown[2] == [*shown[1], ("a", "part0")]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.floats(0, 1),
            st.dictionaries(st.integers(0, 2), st.floats(0, 9, width=16), max_size=3),
        ),
        max_size=6,
    ),
    st.integers(1, 12),
)
def test_as_many_places_come_as_are_wanted_each_once(
    found: list[tuple[int, float, dict[int, float]]], limit: int
) -> None:
    said: dict[int, dict[int, float]] = {}  # files of one text share what was found in it
    files = [
        make_file(f"f{n}", score, blob, words=said.setdefault(blob, words))
        for n, (blob, score, words) in enumerate(found)
    ]
    texts = {blob: TEXT.replace("line", f"row{blob}") for blob in range(1, 4)}
    hits = hits_of(files, texts, limit)
    assert len(hits) == min(limit, NEAREST_CHUNKS * len(said))
    scores = [hit.similarity_score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    places = [(h.content, h.start_line) for h in hits]
    assert len(set(places)) == len(places)


def test_the_chunk_that_defines_what_is_asked_for_counts_among_the_others() -> None:
    definition = NamedDefinition("part2", "part2", "function", 21, 30, 0, 1, ordinal=2)
    words, meaning = {1: 1.0}, {1: 0.4}
    file = make_file("a", 0.9, words=words, meaning=meaning, definitions=[definition])
    assert [hit.symbol for hit in hits_of([file], {1: TEXT}, limit=1)] == ["part1"]
    file = make_file("a", 0.9, words=words, meaning={1: 0.0}, definitions=[definition])
    assert [hit.symbol for hit in hits_of([file], {1: TEXT}, limit=2)] == ["part2", "part1"]


def test_a_chunk_keeps_its_id_as_long_as_its_text() -> None:
    assert chunk_id_of("a") == chunk_id_of("a") != chunk_id_of("b")
    assert chunk_id_of("a").version == 5
