"""Which words a code base uses, and which of them are near to another."""

from __future__ import annotations

from functools import cache

import pytest

from codebase_mcp.embedding.profile import BUILTIN_SCALE, Scale
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.search import vocabulary as vocabulary_room
from codebase_mcp.search.vocabulary import NEAR_WORDS, NearWords, Vocabulary, near_words

NAMES = [
    "authenticate_user",
    "AuthenticationError",
    "removeFile",
    "RepositoryConfig",
    "set_image_color",
    "OAuth2Token",
]
PATHS = ["src/billing/retry_policy.py", "src/billing/charge.py"]


@cache
def model() -> StaticEmbedder:
    return StaticEmbedder.load()


def words_of(names: list[str], paths: list[str] | None = None) -> Vocabulary:
    return Vocabulary.of(names, paths or [], model())


def near(
    word: str, names: list[str], *, is_missing: bool = True, scale: Scale = BUILTIN_SCALE
) -> NearWords | None:
    found = near_words(words_of(names), {word: is_missing}, model(), scale)
    return found[0] if found else None


def test_words_are_the_parts_of_names_and_paths() -> None:
    known = set(words_of(NAMES, PATHS).words)
    assert {"authenticate", "authentication", "remove", "config", "token"} <= known
    assert {"billing", "retry", "policy", "charge", "src"} <= known


def test_numbers_and_pieces_of_a_letter_or_two_are_no_words() -> None:
    assert set(words_of(["v2_to_http", "utf8", "x1024y"], [""]).words) == {"http", "utf"}


def test_the_most_frequent_words_come_first() -> None:
    assert words_of(["a_user", "UserName", "name_of_user", "group"]).words == (
        "user",
        "name",
        "group",
    )


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("authentcate", "authenticate"),
        ("repositroy", "repository"),
        ("remvoe", "remove"),
        ("cofnig", "config"),
        ("authntcate", "authenticate"),
    ],
)
def test_a_slip_is_told_by_its_letters(slip: str, meant: str) -> None:
    found = near(slip, NAMES)
    assert found is not None
    assert found.spelled[0] == meant


def test_of_words_as_near_the_more_frequent_comes_first() -> None:
    assert words_of(["carts", "cards_a", "cards_b"]).spelled_like("carxs") == ["cards", "carts"]


def test_a_word_with_fewer_slips_comes_before_a_more_frequent_one() -> None:
    names = ["retries", "retrieve_a", "retrieve_b"]
    assert words_of(names).spelled_like("retrievs") == ["retrieve", "retries"]


@pytest.mark.parametrize("word", ["bake", "demove", "rexxve", "remove"])
def test_too_short_too_far_and_the_word_itself_are_no_slips(word: str) -> None:
    assert words_of(["base", "remove"]).spelled_like(word) == []


def test_a_word_that_occurs_is_no_slip() -> None:
    assert near("authentcate", NAMES, is_missing=False) is None


@pytest.mark.parametrize(
    ("asked", "has"), [("colour", "color"), ("picture", "image"), ("erase", "remove")]
)
def test_a_known_word_is_compared_by_meaning(asked: str, has: str) -> None:
    found = near(asked, NAMES, is_missing=False)
    assert found is not None
    assert found.spelled == ()
    assert has in found.others


@pytest.mark.parametrize("word", ["penguin", "цвет", "kjhqxz", "404", "no"])
def test_what_is_near_to_nothing_gets_no_words(word: str) -> None:
    assert near(word, NAMES) is None


def test_a_known_word_is_no_slip_of_one_spelled_like_it() -> None:
    found = near("baking", ["backing_store", "banking", "making"])
    assert found is None or "banking" not in found.spelled


def test_an_abbreviation_and_what_it_stands_for_begin_alike() -> None:
    known = words_of(["config", "reposit", "requester", "requesting", "requested", "requests"])
    assert known.beginning_like("configuration") == ["config"]
    assert known.beginning_like("req") == ["requester", "requesting", "requested"]
    assert known.beginning_like("re") == []
    assert known.beginning_like("config") == []


def test_forms_of_one_word_are_offered_once_and_its_own_never() -> None:
    found = near("erase", ["remove", "removes", "removed", "erased", "deleted", "delete"])
    assert found is not None
    assert len({word[:4] for word in found.all}) == len(found.all)
    assert "erased" not in found.all


def test_no_more_than_a_handful_is_offered() -> None:
    slip = near("bxtter", ["batter", "better", "bitter", "butter", "botter", "byttr", "bxter"])
    assert slip is not None
    assert len(slip.all) == NEAR_WORDS
    meant = near("erase", ["remove", "delete", "clear", "clean", "wipe", "purge", "destroy"])
    assert meant is not None
    assert len(meant.all) == NEAR_WORDS


def test_a_slip_in_the_code_itself_is_not_offered() -> None:
    names = ["receive_parcel", "receiveAll", "on_receive", "recieve_once"]
    slip = near("recive", names)
    assert slip is not None
    assert slip.all == ("receive",)
    alone = near("recive", ["recieve_once"])
    assert alone is not None
    assert alone.spelled == ("recieve",)


def test_another_models_cosines_are_brought_to_the_built_in_scale() -> None:
    assert near("picture", ["image"]) is not None
    assert near("picture", ["image"], scale=Scale(slope=0.1)) is None


def test_of_many_words_only_the_most_frequent_are_near_in_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vocabulary_room, "MAX_VECTORS", 1)
    names = ["user_a", "user_b", "image", "authenticate"]
    assert near("picture", names) is None
    slip = near("authentcate", names)
    assert slip is not None
    assert slip.spelled == ("authenticate",)


def test_a_code_base_without_names_has_no_words() -> None:
    assert near("picture", []) is None
