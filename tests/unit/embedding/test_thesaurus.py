"""What the concepts lend to a question."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from codebase_mcp.embedding.static import BUILTIN, StaticEmbedder
from codebase_mcp.embedding.thesaurus import (
    CONCEPTS,
    Thesaurus,
    packed,
    thesaurus_of,
    unpacked,
)
from codebase_mcp.tokens import stem, term_id

TRAINING = Path(__file__).parents[3] / "training"

sys.path.insert(0, str(TRAINING))
try:
    from thesaurus import read_concepts
finally:
    sys.path.remove(str(TRAINING))

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def thesaurus() -> Thesaurus:
    found = thesaurus_of(StaticEmbedder.load())
    assert found is not None
    return found


def lent(thesaurus: Thesaurus, question: str, word: str) -> float:
    return thesaurus.kindred(question).get(term_id(stem(word)), 0.0)


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("stop hammering the server", "throttle"),
        ("forgot my password", "reset"),
        ("keep a copy so that it is quicker the second time", "cache"),
        ("sign in", "authenticate"),
    ],
)
def test_everyday_words_are_lent_words_of_code(
    thesaurus: Thesaurus, question: str, word: str
) -> None:
    assert lent(thesaurus, question, word) > lent(thesaurus, "boil an egg", word)


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("stop hammering the server", "class RateLimiter: throttle(max_requests, window)"),
        ("forgot my password", "def reset_password(token): send_reset_email"),
        ("keep a copy so that it is quicker the second time", "class Cache: memoize get_or_set"),
    ],
)
def test_a_question_is_turned_towards_the_names_that_code_has(
    thesaurus: Thesaurus, question: str, code: str
) -> None:
    embedder = thesaurus.embedder
    names = embedder.encode_query(code)
    turned = thesaurus.turned(question)
    assert turned @ names > embedder.encode_query(question) @ names + 0.02
    assert float(np.linalg.norm(turned)) == pytest.approx(1.0)


def test_what_is_near_to_nothing_is_not_turned(thesaurus: Thesaurus) -> None:
    assert not thesaurus.turned("?!").any()


def test_a_model_that_reads_text_is_told_the_names_in_words(thesaurus: Thesaurus) -> None:
    assert {"password", "reset"} <= set(thesaurus.named("forgot my password").split())
    assert thesaurus.named("?!") == ""


async def test_questions_are_embedded_turned_and_passages_are_not(thesaurus: Thesaurus) -> None:
    embedder, text = thesaurus.embedder, "stop hammering the server"
    assert (await embedder.embed_query(text)).tolist() == thesaurus.turned(text).tolist()
    [passage] = await embedder.embed_passages([text])
    assert passage == pytest.approx(embedder.encode_query(text), abs=1e-5)


def test_vectors_in_four_bits_are_nearly_what_they_were() -> None:
    vectors = np.random.default_rng(1).normal(size=(50, 256)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    stored = packed(vectors)
    assert (stored.dtype, stored.shape) == (np.uint8, (50, 128))
    again = unpacked(stored)
    assert np.sum(vectors * again, axis=1).min() > 0.98
    assert np.linalg.norm(again, axis=1) == pytest.approx(1.0)


def test_what_is_near_to_nothing_is_lent_nothing(thesaurus: Thesaurus) -> None:
    assert thesaurus.kindred("?!") == {}
    assert thesaurus.kindred("") == {}


def test_only_the_nearest_concepts_lend(thesaurus: Thesaurus) -> None:
    most = int(np.diff(thesaurus.lends).max())
    assert 0 < len(thesaurus.kindred("too many requests")) <= CONCEPTS * most


def test_a_word_that_many_lend_is_worth_less(thesaurus: Thesaurus) -> None:
    lenders = np.bincount(thesaurus.lent)
    weights = thesaurus.weights
    assert len(weights) == len(thesaurus.stems) == len(lenders)
    assert weights[lenders.argmin()] == 1.0 > weights[lenders.argmax()] > 0
    assert (np.diff(weights[np.argsort(lenders)]) <= 0).all()


def test_the_packaged_stems_are_those_of_the_concepts(thesaurus: Thesaurus) -> None:
    expected = [
        [term_id(stem) for stem in concept.stems]
        for concept in read_concepts(TRAINING / "concepts")
    ]
    stems = thesaurus.stems[thesaurus.lent].tolist()
    bounds = pairwise(thesaurus.lends.tolist())
    assert [stems[start:end] for start, end in bounds] == expected
    assert (np.diff(thesaurus.stems) > 0).all()


def test_a_text_is_the_sum_of_its_tokens(thesaurus: Thesaurus) -> None:
    embedder = thesaurus.embedder
    tokens = np.array(sorted(set(embedder.pieces("password forgotten"))), np.int32)
    summed = embedder.rows(tokens).sum(axis=0)
    expected = embedder.encode_query("password forgotten")
    assert summed / np.linalg.norm(summed) == pytest.approx(expected, abs=1e-5)


def test_another_models_thesaurus_is_left_alone() -> None:
    embedder = StaticEmbedder.load()
    embedder.fingerprint = "of another table"
    assert thesaurus_of(embedder) is None


def test_a_model_without_concepts_lends_nothing(tmp_path: Path) -> None:
    embedder = StaticEmbedder.load()
    embedder.source = replace(embedder.source, folder=tmp_path)
    assert thesaurus_of(embedder) is None
    assert thesaurus_of(StaticEmbedder.load(BUILTIN)) is not None


async def test_one_search_does_not_make_the_whole_table() -> None:
    embedder = StaticEmbedder.load()
    texts = ["def retry(request): ...", "", "class RateLimiter: throttle(window)"]
    on_demand = await embedder.embed_passages(texts)
    assert "_table" not in vars(embedder)
    embedder.rows(np.zeros(len(embedder.rows(np.arange(30_000))), np.int32))
    assert (await embedder.embed_passages(texts)).tolist() == on_demand.tolist()
    assert "_table" in vars(embedder)


@pytest.mark.parametrize(
    ("software", "other"),
    [
        ("where are database connections closed", "sourdough starter feeding schedule"),
        ("forgot my password", "get grass stains out of jeans"),
    ],
)
def test_a_question_about_software_is_told_from_others(software: str, other: str) -> None:
    embedder = StaticEmbedder.load()
    assert embedder.topic(software) > 0 > embedder.topic(other)
