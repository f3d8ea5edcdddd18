"""What is particular to Ollama: its requests, its digests, what it is told to do."""

from __future__ import annotations

import pytest
from tests.embedding_server import EmbeddingServer, Fault, status
from tests.unit.embedding.conftest import MakeEmbedder, chosen

from codebase_mcp.embedding.providers import open_embedder
from codebase_mcp.embedding.services import OllamaApi
from codebase_mcp.errors import EmbeddingUnavailable

pytestmark = pytest.mark.anyio


async def test_requests_have_the_documented_form(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    embedder = make_embedder("ollama")
    await embedder.identify()
    await embedder.embed_passages(["def f(): pass", "def g(): pass"])
    await embedder.embed_query("what is f")
    tags, probe, passages, question = server.requests
    assert (tags.method, tags.path) == ("GET", "/api/tags")
    assert {(r.method, r.path) for r in (probe, passages, question)} == {("POST", "/api/embed")}
    assert passages.headers["content-type"] == "application/json"
    assert "authorization" not in passages.headers
    assert passages.body == {
        "model": "nomic-embed-text",
        "input": ["search_document: def f(): pass", "search_document: def g(): pass"],
        "truncate": True,
    }
    assert question.texts == ["search_query: what is f"]


async def test_a_model_that_was_not_pulled_is_named_with_what_to_run(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    del server.models["nomic-embed-text:latest"]
    embedder = make_embedder("ollama")
    with pytest.raises(EmbeddingUnavailable) as caught:
        await embedder.embed_query("parse json")
    assert caught.value.message == f"Ollama at {server.url} has no model nomic-embed-text"
    assert caught.value.hint == "Run `ollama pull nomic-embed-text`, then try again."
    server.models["nomic-embed-text:latest"] = "abc"
    assert (await embedder.embed_query("parse json")).any()


async def test_a_refused_connection_is_reported_with_how_to_start_ollama(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    await server.stop()
    with pytest.raises(EmbeddingUnavailable) as caught:
        await make_embedder("ollama").identify()
    assert "`ollama serve`" in str(caught.value.hint)
    assert "OLLAMA_BASE_URL" in str(caught.value.hint)
    assert caught.value.as_dict()["code"] == "EMBEDDING_ERROR"


async def test_a_url_with_a_path_is_not_an_ollama_server(server: EmbeddingServer) -> None:
    embedder = open_embedder(*chosen("ollama", url=server.openai_url))
    with pytest.raises(EmbeddingUnavailable, match="is not an Ollama that can embed") as caught:
        await embedder.identify()
    await embedder.close()
    assert "OLLAMA_BASE_URL has no path" in str(caught.value.hint)


async def test_another_version_of_a_model_is_another_model(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    first = await make_embedder("ollama").identify()
    assert await make_embedder("ollama").identify() == first
    server.models["nomic-embed-text:latest"] = "another digest"
    assert (await make_embedder("ollama").identify()).fingerprint != first.fingerprint


@pytest.mark.parametrize("written", ["nomic-embed-text:latest", "Nomic-Embed-Text"])
async def test_a_digest_is_found_however_the_name_is_written(
    server: EmbeddingServer, make_embedder: MakeEmbedder, written: str
) -> None:
    server.models[written] = ""  # the server of these tests tells cases apart, Ollama does not
    server.models["nomic-embed-text:latest"] = "digest"
    one = await make_embedder("ollama", model=written).identify()
    server.models["nomic-embed-text:latest"] = "another digest"
    other = await make_embedder("ollama", model=written).identify()
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("fault", [Fault(body={"models": None}), Fault(body=[]), status(404)])
async def test_a_server_without_digests_can_be_used(
    server: EmbeddingServer, make_embedder: MakeEmbedder, fault: Fault
) -> None:
    server.tags = fault
    facts = await make_embedder("ollama").identify()
    server.models["nomic-embed-text:latest"] = "another digest"
    assert await make_embedder("ollama").identify() == facts


async def test_a_temporarily_missing_digest_does_not_make_another_model(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    server.tags = status(500)
    with pytest.raises(EmbeddingUnavailable):
        await make_embedder("ollama").identify()


async def test_a_key_for_another_service_is_not_sent(server: EmbeddingServer) -> None:
    choice = chosen("ollama", url=server.url + "/", api_key="sk-of-another-service")
    embedder = open_embedder(*choice)
    await embedder.identify()
    await embedder.close()
    assert [r for r in server.requests if "sk-of" in str(r.headers)] == []


async def test_texts_are_cut_to_what_the_model_reads(
    server: EmbeddingServer, make_embedder: MakeEmbedder
) -> None:
    server.models["all-minilm:latest"] = "digest"
    await make_embedder("ollama", model="all-minilm").embed_passages(["word " * 1000])
    assert len(server.texts[-1]) == 768


def test_replies_have_the_documented_form() -> None:
    answer = {"model": "m", "embeddings": [[0.1, 0.2], [0.3, 0.4]], "total_duration": 14143917}
    assert OllamaApi().parse_vectors(answer) == [[0.1, 0.2], [0.3, 0.4]]
