"""At shutdown streams end; a response of a known length arrives as it was announced."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from codebase_mcp.web.shutdown import EndableStreams

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("headers", "arrives"), [([(b"content-length", b"5")], b"whole"), ([], b"")]
)
async def test_only_streams_are_cut(headers: list[tuple[bytes, bytes]], arrives: bytes) -> None:
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        streams.end()
        await send({"type": "http.response.body", "body": b"whole"})

    async def never() -> Message:
        raise AssertionError

    async def keep(message: Message) -> None:
        sent.append(message)

    streams = EndableStreams(app)
    await streams({"type": "http"}, never, keep)
    assert b"".join(message.get("body", b"") for message in sent) == arrives
    assert not sent[-1].get("more_body", False)
