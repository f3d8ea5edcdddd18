"""Which text of a batch is at fault, found without losing the others."""

from __future__ import annotations

import numpy as np
import pytest
from tests.embedding_server import NOT_FINITE, EmbeddingServer, status
from tests.unit.embedding.conftest import TEXTS, MakeEmbedder, unit, warnings

from codebase_mcp.errors import EmbeddingUnavailable

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("bad_status", [400, 413, 422, 500])
async def test_one_bad_text_costs_only_its_own_vector(
    server: EmbeddingServer,
    make_embedder: MakeEmbedder,
    provider: str,
    caplog: pytest.LogCaptureFixture,
    bad_status: int,
) -> None:
    embedder = make_embedder(provider, batch_size=8)
    server.bad_words, server.bad_status = {"cache_json"}, bad_status
    vectors = await embedder.embed_passages(TEXTS)
    bad = [place for place, text in enumerate(TEXTS) if "cache_json" in text]
    assert [place for place, vector in enumerate(vectors) if not vector.any()] == bad
    good = [place for place in range(len(TEXTS)) if place not in bad]
    np.testing.assert_allclose(vectors[good], [unit(TEXTS[p]) for p in good], atol=1e-6)
    (warning,) = warnings(caplog)
    assert f"refused 1 of {len(TEXTS)} texts" in warning
    assert "cache_json" not in warning


async def test_a_refused_question_has_a_zero_vector(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    server.bad_words = {"poison"}
    assert not (await make_embedder(provider).embed_query("poison")).any()


async def test_the_beginning_of_a_text_that_is_too_long_is_embedded(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    server.context_chars = 900
    vectors = await make_embedder(provider).embed_passages(
        ["retry " * 120 + "network " * 1000, "parse json"]
    )
    assert float(vectors[0] @ unit("retry")) > 0.9
    np.testing.assert_allclose(vectors[1], unit("parse json"), atol=1e-6)


async def test_a_vector_that_is_not_finite_counts_as_refused(
    server: EmbeddingServer,
    make_embedder: MakeEmbedder,
    provider: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder = make_embedder(provider)
    await embedder.identify()
    server.faults.append(NOT_FINITE)
    vectors = await embedder.embed_passages(TEXTS[:3])
    assert vectors.any(axis=1).tolist() == [False, True, True]
    assert "refused 1 of 3 texts" in warnings(caplog)[0]


async def test_a_service_that_refuses_every_text_fails_early(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider, batch_size=50)
    server.bad_words = {"def"}
    with pytest.raises(EmbeddingUnavailable, match="cannot decode batch"):
        await embedder.embed_passages(TEXTS)
    assert len(server.embeddings) < 50


async def test_a_broken_service_is_not_searched_for_a_bad_text(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider, batch_size=50)
    await embedder.identify()
    asked = len(server.embeddings)
    server.always = status(500, "model runner has stopped")
    with pytest.raises(EmbeddingUnavailable, match="model runner has stopped"):
        await embedder.embed_passages(TEXTS)
    assert len(server.embeddings) - asked == 8  # the batch and a harmless text, four times each
