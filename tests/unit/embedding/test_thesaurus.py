"""What the concepts add to a query."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from codebase_mcp.embedding.providers import BUILTIN
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.embedding.thesaurus import (
    EXPANSION_CONCEPTS,
    Thesaurus,
    dequantized,
    quantized,
    thesaurus_of,
)
from codebase_mcp.text.tokens import stem, term_id

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


def weight_of(thesaurus: Thesaurus, question: str, word: str) -> float:
    return thesaurus.expansion_terms(question).get(term_id(stem(word)), 0.0)


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("stop hammering the server", "throttle"),
        ("forgot my password", "reset"),
        ("keep a copy so that it is quicker the second time", "cache"),
        ("sign in", "authenticate"),
    ],
)
def test_everyday_words_are_expanded_with_code_terms(
    thesaurus: Thesaurus, question: str, word: str
) -> None:
    assert weight_of(thesaurus, question, word) > weight_of(thesaurus, "boil an egg", word)


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("stop hammering the server", "class RateLimiter: throttle(max_requests, window)"),
        ("forgot my password", "def reset_password(token): send_reset_email"),
        ("keep a copy so that it is quicker the second time", "class Cache: memoize get_or_set"),
    ],
)
def test_a_query_vector_is_shifted_towards_code_terms(
    thesaurus: Thesaurus, question: str, code: str
) -> None:
    embedder = thesaurus.model
    names = embedder.encode_query(code)
    adjusted = thesaurus.rocchio_vector(question)
    assert adjusted @ names > embedder.encode_query(question) @ names + 0.02
    assert float(np.linalg.norm(adjusted)) == pytest.approx(1.0)


def test_a_query_without_words_has_a_vector_of_zeros(thesaurus: Thesaurus) -> None:
    assert not thesaurus.rocchio_vector("?!").any()


def test_another_model_gets_the_code_terms_as_words(thesaurus: Thesaurus) -> None:
    assert {"password", "reset"} <= set(thesaurus.code_words("forgot my password").split())
    assert thesaurus.code_words("?!") == ""


async def test_queries_are_embedded_adjusted_and_passages_are_not(thesaurus: Thesaurus) -> None:
    embedder, text = thesaurus.model, "stop hammering the server"
    assert (await embedder.embed_query(text)).tolist() == thesaurus.rocchio_vector(text).tolist()
    [passage] = await embedder.embed_passages([text])
    assert passage == pytest.approx(embedder.encode_query(text), abs=1e-5)


def test_quantization_to_four_bits_hardly_changes_vectors() -> None:
    vectors = np.random.default_rng(1).normal(size=(50, 256)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    stored = quantized(vectors)
    assert (stored.dtype, stored.shape) == (np.uint8, (50, 128))
    again = dequantized(stored)
    assert np.sum(vectors * again, axis=1).min() > 0.98
    assert np.linalg.norm(again, axis=1) == pytest.approx(1.0)


def test_a_query_without_words_is_not_expanded(thesaurus: Thesaurus) -> None:
    assert thesaurus.expansion_terms("?!") == {}
    assert thesaurus.expansion_terms("") == {}


def test_only_the_nearest_concepts_expand_a_query(thesaurus: Thesaurus) -> None:
    most = int(np.diff(thesaurus.term_starts).max())
    assert 0 < len(thesaurus.expansion_terms("too many requests")) <= EXPANSION_CONCEPTS * most


def test_a_term_of_many_concepts_weighs_less(thesaurus: Thesaurus) -> None:
    frequencies = np.bincount(thesaurus.concept_terms)
    weights = thesaurus.term_weights
    assert len(weights) == len(thesaurus.terms) == len(frequencies)
    assert weights[frequencies.argmin()] == 1.0 > weights[frequencies.argmax()] > 0
    assert (np.diff(weights[np.argsort(frequencies)]) <= 0).all()


def test_the_packaged_stems_are_those_of_the_concepts(thesaurus: Thesaurus) -> None:
    expected = [
        [term_id(stem) for stem in concept.stems]
        for concept in read_concepts(TRAINING / "concepts")
    ]
    stems = thesaurus.terms[thesaurus.concept_terms].tolist()
    bounds = pairwise(thesaurus.term_starts.tolist())
    assert [stems[start:end] for start, end in bounds] == expected
    assert (np.diff(thesaurus.terms) > 0).all()


def test_a_text_is_the_sum_of_its_tokens(thesaurus: Thesaurus) -> None:
    embedder = thesaurus.model
    tokens = np.array(sorted(set(embedder.token_ids("password forgotten"))), np.int32)
    summed = embedder.token_vectors(tokens).sum(axis=0)
    expected = embedder.encode_query("password forgotten")
    assert summed / np.linalg.norm(summed) == pytest.approx(expected, abs=1e-5)


def test_the_thesaurus_of_another_table_is_not_used() -> None:
    embedder = StaticEmbedder.load()
    embedder.fingerprint = "of another table"
    assert thesaurus_of(embedder) is None


def test_a_model_without_a_thesaurus_has_none(tmp_path: Path) -> None:
    embedder = StaticEmbedder.load()
    embedder.source = replace(embedder.source, folder=tmp_path)
    assert thesaurus_of(embedder) is None
    assert thesaurus_of(StaticEmbedder.load(BUILTIN)) is not None


async def test_one_search_does_not_make_the_whole_table() -> None:
    embedder = StaticEmbedder.load()
    texts = ["def retry(request): ...", "", "class RateLimiter: throttle(window)"]
    on_demand = await embedder.embed_passages(texts)
    assert "_all_vectors" not in vars(embedder)
    embedder.token_vectors(np.zeros(len(embedder.token_vectors(np.arange(30_000))), np.int32))
    assert (await embedder.embed_passages(texts)).tolist() == on_demand.tolist()
    assert "_all_vectors" in vars(embedder)


@pytest.mark.parametrize(
    ("software", "other"),
    [
        ("where are database connections closed", "sourdough starter feeding schedule"),
        ("forgot my password", "get grass stains out of jeans"),
    ],
)
def test_questions_about_software_are_recognized(software: str, other: str) -> None:
    embedder = StaticEmbedder.load()
    assert embedder.software_log_odds(software) > 0 > embedder.software_log_odds(other)
