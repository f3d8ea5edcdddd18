"""What is said of a weak answer, for facts of every kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from codebase_mcp.search.help import (
    FilteredFiles,
    FilterEffect,
    Help,
    IndexCoverage,
    MissFacts,
    WordUse,
    explain,
    is_elsewhere,
    is_weak,
    words_to_help,
)
from codebase_mcp.search.hits import Hit
from codebase_mcp.search.vocabulary import NearWords

READY = IndexCoverage("ready", 0, 0)
REPOSITORY = UUID(int=1)


def make_hit(similarity: float) -> Hit:
    return Hit(
        uuid4(), REPOSITORY, "a.py", "python", "code", "x", 1, 1, None, "text", similarity, "", ""
    )


def helped(question: str, words: dict[str, int], **facts: Any) -> Help:
    """Help for a question whose words occur in so many of 1,000 chunks."""
    uses = tuple(WordUse(word, chunks) for word, chunks in words.items())
    given: dict[str, Any] = {"near": (), "coverage": READY} | facts
    return explain(question, MissFacts(uses, 1_000, **given))


@pytest.mark.parametrize(
    ("similarities", "weak"),
    [([], True), ([0.59, 0.2], True), ([0.6], False), ([0.95, 0.1], False)],
)
def test_an_answer_is_weak_if_its_best_hit_is_poor(
    similarities: list[float], *, weak: bool
) -> None:
    assert is_weak([make_hit(one) for one in similarities]) == weak


def test_what_this_code_may_lack_is_said_first() -> None:
    words = {"charge": 3, "card": 0}
    found = helped("charge a card", words, best=0.49)
    assert (
        found.reasons[0]
        == found.doubt
        == ("Probably not in this code. These places are the nearest.")
    )
    assert found.absent == "These words occur nowhere in this code: card."
    assert found.reasons[1:] == helped("charge a card", words, best=0.55).reasons
    assert helped("charge a card", words, best=0.5).doubt == "Perhaps not in this code."
    assert helped("charge_card", words, best=0.3).doubt == (
        "No such name in this code. These places are the nearest."
    )
    for best in (None, 0.55):
        assert helped("charge a card", words, best=best).doubt is None
    assert helped("charge a card", {"charge": 3}, best=0.3).absent is None


def test_places_are_the_nearest_at_most_below_a_half() -> None:
    assert [is_elsewhere([make_hit(score), make_hit(0.2)]) for score in (0.49, 0.5)] == [
        True,
        False,
    ]
    assert not is_elsewhere([])


def test_a_word_that_occurs_only_joined_or_in_a_file_name_is_not_missing() -> None:
    assert WordUse("web", 0).missing
    assert not WordUse("web", 0, elsewhere=True).missing
    assert not WordUse("web", 1).missing


@pytest.mark.parametrize(
    ("total", "helped_words"),
    [
        (100, {"none": True, "one": False, "two": False}),
        (2_000, {"none": True, "one": False, "two": False, "ten": False}),
        (1_000_000, {"none": True, "one": False, "two": False, "ten": False}),
    ],
)
def test_others_are_looked_for_instead_of_missing_and_rare_words(
    total: int, helped_words: dict[str, bool]
) -> None:
    counts = {"hundred": 100, "ten": 10, "two": 2, "one": 1, "none": 0}
    uses = [WordUse(word, chunks) for word, chunks in counts.items()]
    assert list(words_to_help(uses, total).items()) == list(helped_words.items())


def test_a_question_of_many_missing_words_gets_help_for_a_handful() -> None:
    assert len(words_to_help([WordUse(f"w{n}", 0) for n in range(50)], 1_000)) == 5


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({}, "The question holds no word to look for."),
        ({"quantum": 0, "spin": 0}, "No word of the question occurs in this code."),
        ({"quantum": 0, "user": 9}, "These words occur nowhere in this code: quantum."),
        (
            {"user": 101, "name": 500},
            "Every word of the question is common here: user (in 101 of 1000 chunks), "
            "name (in 500 of 1000 chunks).",
        ),
        (
            {"user": 100, "name": 500},
            "Every word of the question occurs in this code, but no place stands out.",
        ),
        (
            {f"w{n}": 0 for n in range(10)} | {"user": 1},
            "These words occur nowhere in this code: w0, w1, w2, w3, w4, w5, w6, w7 and 2 more.",
        ),
    ],
)
def test_what_the_words_say(words: dict[str, int], reason: str) -> None:
    told = helped("?", words)
    assert told.reasons == (reason,)
    assert told.words == words


@pytest.mark.parametrize(
    ("filtered", "first"),
    [
        (
            FilteredFiles(220, 3, (FilterEffect("directory=src/{api}", 3),)),
            "directory=src/{api} leaves 3 of 220 files.",
        ),
        (
            FilteredFiles(
                220, 0, (FilterEffect("extension=rs", 0, "There are these extensions: py."),)
            ),
            "extension=rs leaves none of 220 files. There are these extensions: py.",
        ),
        (
            FilteredFiles(
                220, 0, (FilterEffect("extension=rs", 9), FilterEffect("directory=src", 90))
            ),
            "extension=rs leaves 9 of 220 files, directory=src leaves 90, "
            "together they leave none.",
        ),
    ],
)
def test_what_filters_leave_is_counted(filtered: FilteredFiles, first: str) -> None:
    told = helped("user", {"user": 9}, filtered=filtered)
    assert " ".join(told.reasons).startswith(
        first + " Without the filters nothing better is found."
    )


def test_a_better_file_behind_the_filters_is_named_and_nothing_else_advised() -> None:
    better = replace(make_hit(0.914), file_path="src/auth.py")
    told = helped(
        "sign in",
        {"sign": 0},
        filtered=FilteredFiles(9, 2, (FilterEffect("directory=lib", 2),)),
        better=better,
        near=(NearWords("sign", (), ("login",)),),
    )
    assert told.better == better
    assert told.hint == "Drop the filters: src/auth.py answers best (0.91)."
    assert told.reasons == (
        "directory=lib leaves 2 of 9 files.",
        "No word of the question occurs in this code.",
    )


def test_common_words_are_not_blamed_where_filters_hide_the_answer() -> None:
    filtered = FilteredFiles(9, 0, (FilterEffect("directory=lib", 0),))
    assert helped("user", {"user": 900}, filtered=filtered).reasons == (
        "directory=lib leaves none of 9 files.",
        "Without the filters nothing better is found.",
    )


@pytest.mark.parametrize(
    ("coverage", "reasons"),
    [
        (READY, []),
        (
            IndexCoverage("indexing", 12, 0),
            ["An index run is in progress, 12 files not searchable yet."],
        ),
        (IndexCoverage("indexing", 0, 0), []),  # only the history is still read
        (
            IndexCoverage("incomplete", 1, 0),
            ["The last index run was interrupted, 1 file missing: index the repository again."],
        ),
        (IndexCoverage("stale", 2, 0), ["2 files changed since the last index run."]),
        (
            IndexCoverage("unchecked", 0, 0),
            ["It is not known whether files changed since they were indexed."],
        ),
        (IndexCoverage("ready", 0, 1), ["1 file could not be indexed."]),
        (
            IndexCoverage(
                "ready", 0, 0, {"binary": 40, "symlink": 2, "too_large": 3, "installed": 1}
            ),
            ["Left out of the index: 3 too large, 1 installed."],
        ),
    ],
)
def test_what_the_index_lacks_is_said(coverage: IndexCoverage, reasons: list[str]) -> None:
    told = helped("user", {"user": 9}, coverage=coverage)
    assert list(told.reasons[1:]) == reasons
    assert ("Ask again in a moment." in told.hint) == (coverage.state in ("indexing", "stale"))


def test_nearest_words_are_advised_the_nearest_of_each_word_first() -> None:
    near = (
        NearWords("erase", (), ("remove", "delete", "clear")),
        NearWords("picture", (), ("image", "avatar", "remove", "icon")),
    )
    told = helped("erase picture", {"erase": 0, "picture": 1}, near=near)
    assert told.hint == "Try: remove, image, delete, avatar, clear."
    assert told.nearest == {
        "erase": ("remove", "delete", "clear"),
        "picture": ("image", "avatar", "remove", "icon"),
    }


@pytest.mark.parametrize(
    ("question", "mended"),
    [
        ("authentcate a user", "authenticate a user"),
        ("Authentcate a user", "Authenticate a user"),
        ("AUTHENTCATE_USER", "AUTHENTICATE_USER"),
        ("userAuthentcate()", "userAuthenticate()"),
    ],
)
def test_a_slip_is_mended_in_the_question(question: str, mended: str) -> None:
    near = (NearWords("authentcate", ("authenticate", "authenticated"), ()),)
    told = helped(question, {"authentcate": 0, "user": 7}, near=near)
    assert told.hint == f'Try: "{mended}".'


def test_what_was_read_otherwise_is_said() -> None:
    told = helped("server", {"server": 3}, respelt={"servr": "server"})
    assert told.reasons[0] == '"servr" was read as "server".'


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            {"quantum": 0, "spin": 0, "algorithm": 2},
            "This code seems to have nothing to do with quantum, spin.",
        ),
        ({"quantum": 0, "state": 3, "algorithm": 2}, "Try: compute."),
        ({"algorithm": 2}, "Try: compute."),
    ],
)
def test_a_question_that_is_mostly_foreign_gets_no_words(words: dict[str, int], hint: str) -> None:
    near = (NearWords("algorithm", (), ("compute",)),)
    assert helped("?", words, near=near).hint == hint


def test_there_is_always_something_to_do() -> None:
    told = helped("user", {"user": 9})
    assert told.hint == "Say what the code does in other words, or name a symbol."
