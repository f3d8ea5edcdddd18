"""What an endpoint keeps to itself, and which way its requests go."""

from __future__ import annotations

import logging

import pytest
from tests.embedding_server import NO_ANSWER, NONSENSE, EmbeddingServer, Fault, status
from tests.unit.embedding.conftest import KEY, chosen

from codebase_mcp.embedding.providers import open_embedder
from codebase_mcp.errors import EmbeddingUnavailable

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "fault",
    [
        status(401, f"Incorrect API key provided: {KEY}"),
        status(403, f"{KEY} may not"),
        status(400, f"Bearer {KEY}: bad request from sk-another-key"),
        status(500, f"panic: {KEY} of someone"),
        NO_ANSWER,
        NONSENSE,
    ],
    ids=["401", "403", "400", "500", "gone", "nonsense"],
)
async def test_secrets_are_never_shown(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    caplog.set_level(logging.DEBUG)
    url = server.openai_url.replace("//", "//someone:a-password@")
    choice = chosen("openai", url=url, api_key=KEY)
    embedder = open_embedder(*choice)
    server.always = fault
    with pytest.raises(EmbeddingUnavailable) as caught:
        await embedder.identify()
    await embedder.close()
    error = caught.value
    told = [repr(choice), repr(embedder), repr(error), repr(error.as_dict()), caplog.text]
    for secret in (KEY, "someone", "a-password", "sk-another-key"):
        assert [text for text in told if secret in text] == []


async def test_user_and_password_of_the_address_are_sent(server: EmbeddingServer) -> None:
    url = server.url.replace("//", "//someone:a-password@")
    embedder = open_embedder(*chosen("ollama", url=url))
    await embedder.identify()
    await embedder.close()
    assert {r.headers["authorization"] for r in server.requests} == {
        "Basic c29tZW9uZTphLXBhc3N3b3Jk"
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_loopback_address_is_never_asked_through_a_proxy(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    embedder = open_embedder(*chosen("ollama", url=f"http://{host}:{server.port}"))
    assert (await embedder.identify()).dimension == 96
    await embedder.close()


async def test_another_address_is_asked_through_the_proxy_of_the_environment(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    embedder = open_embedder(*chosen("ollama", url="http://ollama.invalid:11434"))
    with pytest.raises(EmbeddingUnavailable):
        await embedder.identify()
    await embedder.close()
    assert server.requests[0].path == "http://ollama.invalid:11434/api/tags"


async def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "gopher://me:a-password@proxy.invalid")
    embedder = open_embedder(*chosen("ollama", url="http://ollama.invalid"))
    with pytest.raises(EmbeddingUnavailable, match="proxy") as caught:
        await embedder.identify()
    assert "a-password" not in str(caught.value.as_dict())
