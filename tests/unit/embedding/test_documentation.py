"""What docs/embedding.md shows works."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.embedding_server import EmbeddingServer, status

from codebase_mcp.embedding.endpoint import Endpoint
from codebase_mcp.embedding.providers import input_format_of
from codebase_mcp.embedding.remote import EmbeddingApi, RemoteEmbedder, RemoteModel
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.settings.loading import SETTINGS

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "embedding.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def api() -> EmbeddingApi:
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, type[EmbeddingApi]] = {}
    exec(example, names)  # it is our own page
    return names["TextEmbeddingsInferenceApi"]()


def embedder_of(api: EmbeddingApi, server: EmbeddingServer) -> RemoteEmbedder:
    model = RemoteModel("tei", "bag-of-words", "", "", 1000)
    return RemoteEmbedder(model, api, Endpoint(server.url), batch_size=2)


async def test_the_example_of_a_provider_embeds(server: EmbeddingServer, api: EmbeddingApi) -> None:
    embedder = embedder_of(api, server)
    server.bad_words = {"poison"}
    texts = ["parse json", "poison", "retry the network", "open a file", "read it"]
    vectors = await embedder.embed_passages(texts)
    question = await embedder.embed_query("parse a json text")
    assert vectors.any(axis=1).tolist() == [True, False, True, True, True]
    assert int(np.argmax(vectors @ question)) == 0
    assert (await embedder.identify()).name == "tei/bag-of-words"
    assert server.requests[0].path == "/info"
    await embedder.close()


async def test_the_example_of_a_provider_says_what_to_do(
    server: EmbeddingServer, api: EmbeddingApi
) -> None:
    embedder = embedder_of(api, server)
    server.always = status(418, "teapot")
    with pytest.raises(EmbeddingUnavailable, match="teapot") as caught:
        await embedder.identify()
    assert caught.value.hint == "See its log."
    await server.stop()
    with pytest.raises(EmbeddingUnavailable, match="No embedding service answers"):
        await embedder.identify()
    await embedder.close()


def test_the_settings_that_are_named_exist() -> None:
    named = set(re.findall(r"CODEBASE_MCP_[A-Z_]+|OLLAMA_BASE_URL|EMBEDDING_BATCH_SIZE", PAGE))
    assert named <= {setting.variable for setting in SETTINGS}
    assert {s.variable for s in SETTINGS if s.section == "Embedding"} <= named


@pytest.mark.parametrize(
    "family",
    "nomic-embed-text mxbai-embed-large bge-base e5-base snowflake-arctic-embed qwen3-embedding"
    " embeddinggemma".split(),
)
def test_the_models_whose_prefixes_are_known_are_those_that_are_named(family: str) -> None:
    assert input_format_of(family).query_prefix
    assert re.match(r"[a-z0-9]+(-arctic)?(-embed\w*)?", family).group() in PAGE
