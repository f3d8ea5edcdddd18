"""What is particular to OpenAI-compatible endpoints: requests, indexes, keys, limits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.embedding_server import EmbeddingServer, Fault, status
from tests.unit.embedding.conftest import KEY, MakeEmbedder, chosen

from codebase_mcp.embedding.providers import open_embedder
from codebase_mcp.embedding.services import OpenAIApi
from codebase_mcp.errors import EmbeddingUnavailable

pytestmark = pytest.mark.anyio


async def test_requests_have_the_documented_form(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    server.api_key = KEY
    embedder = make_embedder("openai")
    await embedder.identify()
    await embedder.embed_passages(["def f(): pass", "def g(): pass"])
    request = server.requests[-1]
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["def f(): pass", "def g(): pass"],
        "encoding_format": "float",
    }


async def test_a_self_hosted_endpoint_needs_no_key(server: EmbeddingServer) -> None:
    embedder = open_embedder(*chosen("openai", url=server.openai_url))
    assert (await embedder.identify()).dimension == 96
    await embedder.close()
    assert "authorization" not in server.requests[0].headers


async def test_a_wrong_key_is_an_error_that_does_not_repeat_it(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    server.api_key = "another"
    with pytest.raises(EmbeddingUnavailable, match="does not accept the key") as caught:
        await make_embedder("openai").identify()
    assert "CODEBASE_MCP_OPENAI_API_KEY" in str(caught.value.hint)
    assert "sk-" not in str(caught.value.as_dict())
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [400, 404])
async def test_a_missing_model_is_reported(
    server: EmbeddingServer, make_embedder: MakeEmbedder, code: int
) -> None:
    error = {"message": "The model does not exist", "code": "model_not_found"}
    server.always = Fault(status=code, body={"error": error})
    with pytest.raises(EmbeddingUnavailable, match="has no model nonsense") as caught:
        await make_embedder("openai", model="nonsense").identify()
    assert "CODEBASE_MCP_EMBEDDING_MODEL" in str(caught.value.hint)
    assert len(server.requests) == 1


async def test_a_url_without_v1_is_distinguished_from_a_missing_model(
    server: EmbeddingServer,
) -> None:
    embedder = open_embedder(*chosen("openai", url=server.url, api_key=KEY))
    with pytest.raises(EmbeddingUnavailable, match="does not follow OpenAI") as caught:
        await embedder.identify()
    await embedder.close()
    assert "/v1" in str(caught.value.hint)


async def test_a_quota_that_is_used_up_is_not_waited_for(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    error = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
    server.always = Fault(status=429, body={"error": error})
    with pytest.raises(EmbeddingUnavailable, match=r"quota .* is used up"):
        await make_embedder("openai").identify()
    assert len(server.requests) == 1


def entries(*indexes: int | None) -> dict[str, Any]:
    return {
        "data": [
            {"embedding": [place]} | ({} if index is None else {"index": index})
            for place, index in enumerate(indexes)
        ]
    }


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        (entries(), []),
        (entries(0), [[0]]),
        (entries(2, 0, 1), [[1], [2], [0]]),
        (entries(None, None), [[0], [1]]),
        (entries(0, 0, 0), [[0], [1], [2]]),
    ],
)
def test_vectors_are_ordered_by_their_index(answer: dict[str, Any], rows: list[Any]) -> None:
    assert OpenAIApi().parse_vectors(answer) == rows


@pytest.mark.parametrize("answer", [entries(0, 0, 1), entries(1, 2), entries(None, 1)])
def test_invalid_indexes_are_an_error(answer: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="index"):
        OpenAIApi().parse_vectors(answer)


async def test_a_batch_over_the_limit_is_halved(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    embedder = make_embedder("openai", batch_size=4)
    await embedder.identify()
    server.faults.append(status(413, "batch size 4 > maximum allowed batch size 2"))
    vectors = await embedder.embed_passages(["a one", "a two", "a three", "a four"])
    assert vectors.any(axis=1).all()
    assert [len(r.texts) for r in server.embeddings] == [1, 4, 1, 2, 2]
