"""How is a service asked over HTTP, so that a fault which passes does not show?

Ten requests at once at most, each tried again after a short while where that may help. What the
questions and answers mean is left to `ollama.py` and `openai.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import httpx2

from codebase_mcp.embedding.failures import Failure, Patience, failure_of
from codebase_mcp.errors import EmbeddingUnavailable

_log = logging.getLogger(__name__)

# The figure that version 2 of this product documented; one of them is left to questions, or a
# search would wait for all batches of an index run.
MAX_AT_ONCE = 10

# A service that asks to be left alone for hours is asked again sooner, if somebody wants a vector.
_LONGEST_PAUSE_S = 120.0

# More than the vector of any model takes as text: 8,000 numbers of 25 characters.
_MAX_BYTES_PER_TEXT = 200_000
_MAX_BYTES = 1 << 20


@dataclass(slots=True)
class _Session:
    """What belongs to one event loop."""

    loop: asyncio.AbstractEventLoop
    client: httpx2.AsyncClient
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_AT_ONCE))
    passages: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_AT_ONCE - 1))
    paused_until: float = 0.0

    @property
    def pause_s(self) -> float:
        """How long the service still wants to be left alone."""
        return self.paused_until - self.loop.time()

    def leave_alone(self, seconds: float) -> None:
        """Send nothing for a while."""
        until = self.loop.time() + min(seconds, _LONGEST_PAUSE_S)
        self.paused_until = max(self.paused_until, until)

    @asynccontextmanager
    async def turn(self, *, urgent: bool) -> AsyncIterator[None]:
        """Wait until another request may be sent."""
        async with nullcontext() if urgent else self.passages, self.gate:
            yield


class Endpoint:
    """One service's address. ``address`` can be shown: it has no user, password or query."""

    def __init__(
        self, base_url: str, *, api_key: str | None = None, timeout_s: float = 60.0
    ) -> None:
        url = _parsed(base_url)
        self.address = str(url.copy_with(userinfo=b"", query=None, fragment=None)).rstrip("/")
        self._auth = (url.username, url.password) if url.userinfo else None
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {_sendable(api_key)}"
        self._secrets = tuple(filter(None, (api_key, url.username, url.password)))
        self._timeout_s = timeout_s
        # The environment's proxy must never see what is meant for this machine.
        self._is_loopback = is_loopback(url.host)
        self._session: _Session | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r})"

    async def ask(
        self, method: str, path: str, body: object = None, *, texts: int = 0, patience: Patience
    ) -> Any:
        """The JSON that a request is answered with; ``texts`` tells how long that may be.

        Raises:
            Failure: there is none, after all tries.
        """
        attempt, waited_s = 1, 0.0
        while True:
            try:
                session = self._opened()
                waited_s += await _pause(session, patience.max_wait_s - waited_s)
                async with session.turn(urgent=patience.is_urgent):
                    if session.pause_s <= 0:  # nobody was told to wait meanwhile
                        return await self._ask_once(session, method, path, body, texts)
            except Failure as failure:
                delay_s = patience.delay_s(attempt, waited_s, failure)
                if delay_s is None:
                    raise
                _log.info("%s: %s; asked again in %.1f s", self.address, failure, delay_s)
                await asyncio.sleep(delay_s)
                attempt, waited_s = attempt + 1, waited_s + delay_s

    async def close(self) -> None:
        """Let connections go; another request opens new ones."""
        session, self._session = self._session, None
        if session is not None and session.loop is asyncio.get_running_loop():
            await session.client.aclose()

    def _opened(self) -> _Session:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.loop is not loop:
            self._session = _Session(loop, self._client())
        return self._session

    def _client(self) -> httpx2.AsyncClient:
        try:
            return httpx2.AsyncClient(
                headers=self._headers,
                auth=self._auth,
                timeout=httpx2.Timeout(self._timeout_s, connect=min(self._timeout_s, 10.0)),
                limits=httpx2.Limits(max_connections=MAX_AT_ONCE),
                trust_env=not self._is_loopback,
            )
        except (ImportError, ValueError, OSError, httpx2.InvalidURL):
            raise Failure(
                "the environment's proxy or certificates cannot be used", kind="away"
            ) from None

    async def _ask_once(
        self, session: _Session, method: str, path: str, body: object, texts: int
    ) -> Any:
        content = None
        if body is not None:  # a lone surrogate is no text that could be sent
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                session.client.stream(method, self.address + path, content=content) as response,
            ):
                answer = await _body(response, _MAX_BYTES + texts * _MAX_BYTES_PER_TEXT)
        except (TimeoutError, httpx2.TimeoutException):
            raise Failure(f"no answer within {self._timeout_s:g} s", kind="slow") from None
        except httpx2.ConnectError as error:
            raise Failure(f"no connection: {error}", kind="away") from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise Failure(f"the connection was cut: {reason}", kind="cut") from None
        if response.status_code == httpx2.codes.OK:
            return _json(answer)
        failure = failure_of(response.status_code, response.headers, answer, self._secrets)
        if failure.retry_after_s is not None:
            session.leave_alone(failure.retry_after_s)
        raise failure


async def _pause(session: _Session, limit_s: float) -> float:
    """Wait as long as the service told another request to; how long that was.

    Raises:
        Failure: that is longer than ``limit_s``.
    """
    rest = session.pause_s
    if rest <= 0:
        return 0.0
    if rest > limit_s:
        raise Failure("Rate limit reached", status=429, retry_after_s=rest)
    await asyncio.sleep(rest)
    return rest


def is_loopback(host: str) -> bool:
    """Whether a host's name means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _parsed(base_url: str) -> httpx2.URL:
    try:
        url = httpx2.URL(base_url)
    except (httpx2.InvalidURL, ValueError):
        url = httpx2.URL()
    # An @ behind the host: what was taken for a host and a port is a user and half a password.
    if url.scheme not in ("http", "https") or not url.host or "@" in url.path:
        raise EmbeddingUnavailable(
            "The address of the embedding service is none",
            hint="It reads like http://127.0.0.1:11434 or https://api.openai.com/v1.",
        )
    return url


def _sendable(api_key: str) -> str:
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise EmbeddingUnavailable(
            "The key for the embedding service holds characters that no key has",
            hint="Check CODEBASE_MCP_OPENAI_API_KEY (or OPENAI_API_KEY) for blanks and quotes.",
        )
    return api_key


async def _body(response: httpx2.Response, max_bytes: int) -> bytes:
    pieces, length = [], 0
    async for piece in response.aiter_bytes():
        length += len(piece)
        if length > max_bytes:
            raise Failure(f"the answer is longer than {max_bytes >> 20} MiB", status=200)
        pieces.append(piece)
    return b"".join(pieces)


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise Failure("the answer is not JSON", status=200) from None
