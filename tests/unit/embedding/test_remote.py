"""A model behind HTTP, whichever protocol it speaks: order, batches, faults, secrets."""

from __future__ import annotations

import asyncio

import httpx2
import numpy as np
import pytest
from tests.embedding_server import (
    CUT,
    HANG,
    NO_ANSWER,
    NONSENSE,
    NOT_FINITE,
    ONE_TOO_FEW,
    EmbeddingServer,
    Fault,
    rate_limited,
    status,
)
from tests.unit.embedding.conftest import TEXTS, MakeEmbedder, chosen, unit, warnings

from codebase_mcp.embedding.embedder import Embedder
from codebase_mcp.embedding.endpoint import MAX_AT_ONCE, Endpoint, RetryPolicy
from codebase_mcp.embedding.providers import open_embedder
from codebase_mcp.embedding.remote import batches
from codebase_mcp.errors import EmbeddingUnavailable

pytestmark = pytest.mark.anyio

# What it is for


async def test_every_text_gets_its_own_unit_vector_in_order(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    vectors = await make_embedder(provider, batch_size=5).embed_passages(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [unit(text) for text in TEXTS], atol=1e-6)
    sizes = sorted(len(request.texts) for request in server.embeddings[1:])
    assert sizes == [1] + [5] * 7


async def test_a_question_is_near_to_what_it_means(
    make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider)
    passages = ["def check_password(user): authenticate(user)", "def parse_json(text): ..."]
    question = await embedder.embed_query("where is the login of a user")
    assert question.shape == (96,)
    near, far = (await embedder.embed_passages(passages)) @ question
    assert near > 0.5 > 0.3 > far


async def test_a_model_is_asked_once_what_it_is(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider)
    assert not server.requests
    facts = await embedder.identify()
    asked = len(server.requests)
    assert await embedder.identify() == facts
    assert len(server.requests) == asked
    assert (facts.name, facts.dimension) == (embedder.name, 96)


async def test_a_question_is_sent_without_the_secrets_that_somebody_pasted_into_it(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    key = "cbm_aB3dE5gH7jK9_" + "mN0pQ2rS4tU6vW8xY1zA3bC5dE7fG9hJ1kL3mN5pQ7r"
    vector = await make_embedder(provider).embed_query(f"parse json with {key}")
    np.testing.assert_allclose(vector, unit("parse json with"), atol=1e-6)
    assert server.embeddings[-1].texts[0].endswith(f"parse json with {'*' * len(key)}")
    assert key not in str(server.requests)


async def test_empty_texts_are_not_sent(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider)
    vectors = await embedder.embed_passages(["", "parse json", " \n\t"])
    assert vectors.any(axis=1).tolist() == [False, True, False]
    assert not (await embedder.embed_query("  ")).any()
    assert len(server.embeddings) == 2  # one asks for the dimension
    assert (await embedder.embed_passages([])).shape == (0, 96)


async def test_a_text_that_utf8_cannot_encode_is_embedded(
    make_embedder: MakeEmbedder, provider: str
) -> None:
    vectors = await make_embedder(provider).embed_passages(["parse \udcff json\0 🙂"])
    np.testing.assert_allclose(vectors, [unit("parse json")], atol=1e-6)


@pytest.mark.parametrize(
    ("lengths", "size", "expected"),
    [
        ([], 3, []),
        ([1, 1, 1], 3, [(0, 3)]),
        ([1, 1, 1, 1], 3, [(0, 3), (3, 4)]),
        ([300_000, 90_000, 20_000], 9, [(0, 2), (2, 3)]),
        ([500_000, 500_000], 9, [(0, 1), (1, 2)]),
    ],
)
async def test_the_number_and_length_of_texts_per_request_are_limited(
    lengths: list[int], size: int, expected: list[tuple[int, int]]
) -> None:
    assert list(batches(lengths, size)) == expected


# Many at once


async def test_ten_requests_run_at_once_and_a_question_does_not_wait_for_an_index_run(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider, batch_size=1)
    await embedder.identify()
    server.released.clear()
    async with asyncio.TaskGroup() as group:
        passages = group.create_task(embedder.embed_passages(TEXTS))
        await server.until_running(MAX_AT_ONCE - 1)
        questions = [group.create_task(embedder.embed_query(text)) for text in TEXTS[:5]]
        await server.until_running(MAX_AT_ONCE)
        assert TEXTS[0] in server.texts[-1]
        async with httpx2.AsyncClient() as client:  # time enough for another one to arrive
            await client.get(f"{server.url}/v1/models")
        server.released.set()
    assert server.most_at_once == MAX_AT_ONCE
    np.testing.assert_allclose(passages.result(), [unit(text) for text in TEXTS], atol=1e-6)
    for text, question in zip(TEXTS[:5], questions, strict=True):
        np.testing.assert_allclose(question.result(), unit(text), atol=1e-6)


async def test_a_cancelled_call_leaves_no_task_behind(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider, batch_size=1)
    await embedder.identify()
    server.released.clear()
    before = asyncio.all_tasks()
    call = asyncio.create_task(embedder.embed_passages(TEXTS))
    await server.until_running(5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    ours = [t for t in asyncio.all_tasks() - before if "embedding_server" not in repr(t)]
    assert ours == []
    server.released.set()
    assert (await embedder.embed_query("parse json")).any()


async def test_one_failure_ends_the_other_requests(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider, batch_size=1)
    await embedder.identify()
    server.faults.append(NONSENSE)
    server.always = HANG
    with pytest.raises(EmbeddingUnavailable, match="not JSON"):
        await embedder.embed_passages(TEXTS[:9])


def test_it_outlives_event_loops() -> None:
    server = EmbeddingServer()
    made: list[Embedder] = []

    async def ask() -> bool:
        async with server:
            if not made:
                made.append(open_embedder(*chosen("ollama", url=server.url)))
            found = (await made[0].embed_query("parse json")).any()
            await made[0].close()
            await made[0].close()  # once more does no harm
            return bool(found)

    assert asyncio.run(ask())
    assert asyncio.run(ask())


# Faults that pass


@pytest.mark.parametrize(
    "fault",
    [
        status(500),
        status(502),
        status(503),
        status(529),
        CUT,
        NO_ANSWER,
        rate_limited("0"),
        rate_limited("0.01"),
        rate_limited("Thu, 01 Jan 2015 00:00:00 GMT"),
        rate_limited("soon"),
    ],
    ids=["500", "502", "503", "529", "cut", "gone", "429 0", "429 0.01", "429 date", "429 odd"],
)
async def test_transient_errors_are_not_reported(
    server: EmbeddingServer,
    make_embedder: MakeEmbedder,
    provider: str,
    fault: Fault,
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder = make_embedder(provider)
    server.faults += [fault, fault]
    vectors = await embedder.embed_passages(TEXTS[:4])
    server.faults += [fault, fault]
    question = await embedder.embed_query(TEXTS[0])
    np.testing.assert_allclose(vectors, [unit(text) for text in TEXTS[:4]], atol=1e-6)
    np.testing.assert_allclose(question, unit(TEXTS[0]), atol=1e-6)
    assert len(server.embeddings) == 3 + 4
    assert not warnings(caplog)


async def test_a_request_that_times_out_is_retried_once(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider, timeout_s=1.0)
    await embedder.identify()
    server.faults.append(HANG)
    assert (await embedder.embed_query("parse json")).any()


async def test_a_service_that_asks_to_wait_gets_no_other_request_meanwhile(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider, batch_size=1)
    await embedder.identify()
    server.faults.append(rate_limited("30"))
    with pytest.raises(EmbeddingUnavailable, match="ate limit") as caught:
        await embedder.embed_query("parse json")  # it waits 10 s at most
    assert caught.value.details["retry_after_seconds"] == 30
    asked = len(server.requests)
    with pytest.raises(EmbeddingUnavailable, match="ate limit"):
        await embedder.embed_passages(TEXTS)
    assert len(server.requests) == asked


async def test_requests_that_are_about_to_be_sent_wait_too(server: EmbeddingServer) -> None:
    endpoint = Endpoint(server.url)
    server.faults = [rate_limited("30"), *[HANG] * (MAX_AT_ONCE - 2)]
    body = {"model": "nomic-embed-text", "input": ["parse json"]}
    asked = [
        asyncio.create_task(
            endpoint.ask("POST", "/api/embed", body, policy=RetryPolicy(is_urgent=False))
        )
        for _ in range(MAX_AT_ONCE + 1)
    ]
    done: set[asyncio.Task[object]] = set()
    while len(done) < 3:  # the limited one, and the two that had no turn yet
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    assert {getattr(task.exception(), "kind", None) for task in done} == {"rate_limited"}
    assert len(server.requests) == MAX_AT_ONCE - 1
    for task in set(asked) - done:
        task.cancel()
    await asyncio.wait(asked)
    await endpoint.close()


async def test_repeated_rate_limits_use_the_waiting_time_and_not_the_retries(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider)
    server.faults += [rate_limited("0.001")] * 6
    assert (await embedder.embed_query("parse json")).any()


# Faults that do not


@pytest.mark.parametrize(
    ("fault", "says", "requests"),
    [
        (status(500, "out of memory"), "out of memory", 4),
        (status(503), "status 503", 4),
        (CUT, "cut", 4),
        (NO_ANSWER, "cut", 4),
        (NONSENSE, "not JSON", 1),
        (Fault(body=["a"]), "does not follow the protocol", 1),
        (Fault(body={"embeddings": None, "data": None}), "does not follow the protocol", 1),
        (Fault(body={"embeddings": [7], "data": [7]}), "does not follow the protocol", 1),
        (Fault(body={"embeddings": [[]], "data": [{"embedding": []}]}), "does not follow", 1),
        (
            Fault(body={"embeddings": [["x"]], "data": [{"embedding": ["x"]}]}),
            "invalid vector",
            1,
        ),
        (
            Fault(body={"embeddings": [[[1]]], "data": [{"embedding": [[1]]}]}),
            "invalid vector",
            1,
        ),
        (ONE_TOO_FEW, "0 vectors for 1 text", 1),
        (NOT_FINITE, "a vector of zeros", 1),
        (Fault(value=0.0), "a vector of zeros", 1),
        (Fault(value=1e300), "a vector of zeros", 1),
        (status(302, Location="/elsewhere"), "status 302", 1),
        (status(405), "status 405", 1),
        (status(418, "I am a teapot"), "teapot", 1),
        (status(400, "this model does not support embeddings"), "is not an embedding model", 1),
        (Fault(body=b"x" * 2_000_000), "longer than 1 MiB", 1),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
async def test_a_permanent_error_is_reported_by_its_kind(
    server: EmbeddingServer,
    make_embedder: MakeEmbedder,
    provider: str,
    fault: Fault,
    says: str,
    requests: int,
) -> None:
    embedder = make_embedder(provider)
    server.always = fault
    with pytest.raises(EmbeddingUnavailable, match=says) as caught:
        await embedder.identify()
    assert caught.value.hint
    assert caught.value.details["model"] == embedder.name
    assert len(server.embeddings) == requests
    server.always = None  # what failed is asked anew
    assert (await embedder.identify()).dimension == 96


async def test_a_service_that_never_answers_is_an_error_in_time(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider, timeout_s=0.05)
    server.always = HANG
    with pytest.raises(EmbeddingUnavailable, match=r"no answer within 0\.05 s") as caught:
        await embedder.embed_query("parse json")
    assert "CODEBASE_MCP_EMBEDDING_TIMEOUT" in str(caught.value.hint)


async def test_an_unavailable_service_is_an_error_until_it_is_back(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider)
    await embedder.identify()
    await server.stop()
    with pytest.raises(EmbeddingUnavailable, match="does not answer") as caught:
        await embedder.embed_passages(TEXTS)
    assert "BASE_URL" in str(caught.value.hint)
    await server.start()
    assert (await embedder.embed_query("parse json")).any()


async def test_a_dimension_that_changes_is_an_error(
    server: EmbeddingServer, make_embedder: MakeEmbedder, provider: str
) -> None:
    embedder = make_embedder(provider)
    await embedder.identify()
    server.faults += [Fault(), Fault(dimension=64)]
    with pytest.raises(EmbeddingUnavailable, match=r"64 numbers .* had 96 before"):
        await embedder.embed_passages(TEXTS)
