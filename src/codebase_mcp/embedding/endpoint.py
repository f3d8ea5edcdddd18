"""How is a service asked over HTTP, so that transient failures do not show?

At most ten concurrent requests, each retried where that may help. The content of requests and
responses is the business of `services.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any, Literal

import httpx2

from codebase_mcp.errors import EmbeddingUnavailable

_log = logging.getLogger(__name__)

# As documented since version 2. A slot is reserved for queries, so that a search does not wait
# for the batches of an index run.
MAX_AT_ONCE = 10

# A service may ask for a pause of hours; it is asked again sooner if a vector is needed.
_LONGEST_PAUSE_S = 120.0

# Above the size of any vector as text: 8,000 numbers of 25 characters.
_MAX_BYTES_PER_TEXT = 200_000
_MAX_BYTES = 1 << 20

FailureKind = Literal[
    "unreachable",  # no connection
    "timeout",  # no response in time
    "connection_lost",  # the connection ended before the response did
    "rate_limited",  # too many requests
    "quota_exceeded",  # a paid quota is used up
    "unauthorized",  # the key is wrong or missing
    "model_not_found",
    "not_an_embedding_model",  # the model has another purpose
    "unexpected_service",  # another program answers, or the path of the address is wrong
    "service_error",
]

_BY_STATUS: Mapping[int, FailureKind] = {
    200: "unexpected_service",
    401: "unauthorized",
    403: "unauthorized",
    404: "unexpected_service",
    405: "unexpected_service",
    429: "rate_limited",
    501: "unexpected_service",
}

# Worth a retry; a status 500 may also be caused by a single text.
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})

_MESSAGE_CHARS = 200


class Failure(Exception):
    """A request got no usable response.

    ``status`` is None where there was no response. The message comes from the service or the
    network; secrets are removed from it.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind | None = None,
        status: int | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
        self.kind: FailureKind = kind or _kind_of(status or 0, code, message.lower())

    @property
    def may_be_caused_by_text(self) -> bool:
        """Whether a single text of the batch may be the cause."""
        return self.kind == "service_error" and self.status in (400, 413, 422, 500)

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed a moment later."""
        return self.kind != "quota_exceeded" and (self.status is None or self.status in _TRANSIENT)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a request is retried.

    Exponential backoff with jitter; a ``Retry-After`` of the service is waited for without counting
    as an attempt. ``max_wait_s`` limits the total wait. Urgent requests have a slot of their own.
    """

    max_attempts: int = 4
    first_delay_s: float = 0.25
    max_wait_s: float = 10.0
    is_urgent: bool = True

    def delay_s(self, attempt: int, waited_s: float, failure: Failure) -> float | None:
        """How long to wait after an attempt; None to give up."""
        if not failure.is_transient:
            return None
        # Jitter, so that requests that failed together are not retried together.
        delay = self.first_delay_s * 2 ** min(attempt - 1, 10) * random.uniform(0.5, 1.0)
        if failure.retry_after_s is not None:
            delay = max(delay, failure.retry_after_s)
        elif attempt >= self._attempts_after(failure):
            return None
        return delay if waited_s + delay <= self.max_wait_s else None

    def _attempts_after(self, failure: Failure) -> int:
        """A single retry is enough for a service or model that was just starting."""
        is_down = failure.kind in ("unreachable", "timeout")
        return min(self.max_attempts, 2) if is_down else self.max_attempts


@dataclass(slots=True)
class _Session:
    """The client and limits of an event loop."""

    loop: asyncio.AbstractEventLoop
    client: httpx2.AsyncClient
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_AT_ONCE))
    passage_slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_AT_ONCE - 1)
    )
    paused_until: float = 0.0

    @property
    def pause_s(self) -> float:
        """How long the pause that the service asked for still lasts."""
        return self.paused_until - self.loop.time()

    def pause_for(self, seconds: float) -> None:
        """Send no request for a while."""
        until = self.loop.time() + min(seconds, _LONGEST_PAUSE_S)
        self.paused_until = max(self.paused_until, until)

    async def wait_for_pause(self, limit_s: float) -> float:
        """Wait for the end of a pause; how long that took.

        Raises:
            Failure: the pause is longer than ``limit_s``.
        """
        rest = self.pause_s
        if rest <= 0:
            return 0.0
        if rest > limit_s:
            raise Failure("Rate limit reached", status=429, retry_after_s=rest)
        await asyncio.sleep(rest)
        return rest


class Endpoint:
    """The address of a service. ``address`` can be shown: no user, password or query is in it."""

    def __init__(
        self, base_url: str, *, api_key: str | None = None, timeout_s: float = 60.0
    ) -> None:
        url = _parsed(base_url)
        self.address = str(url.copy_with(userinfo=b"", query=None, fragment=None)).rstrip("/")
        self._auth = (url.username, url.password) if url.userinfo else None
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {_checked_key(api_key)}"
        self._secrets = tuple(filter(None, (api_key, url.username, url.password)))
        self._timeout_s = timeout_s
        # A request to this machine must not go through the environment's proxy.
        self._is_loopback = is_loopback(url.host)
        self._session: _Session | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r})"

    async def ask(
        self, method: str, path: str, body: object = None, *, texts: int = 0, policy: RetryPolicy
    ) -> Any:
        """The JSON of a response; its size is limited by the number of ``texts``.

        Raises:
            Failure: there is no usable response after all attempts.
        """
        attempt, waited_s = 1, 0.0
        while True:
            try:
                session = self._opened()
                waited_s += await session.wait_for_pause(policy.max_wait_s - waited_s)
                own_slot = nullcontext() if policy.is_urgent else session.passage_slots
                async with own_slot, session.slots:
                    if session.pause_s <= 0:  # no concurrent request has set a pause meanwhile
                        return await self._ask_once(session, method, path, body, texts)
            except Failure as failure:
                delay_s = policy.delay_s(attempt, waited_s, failure)
                if delay_s is None:
                    raise
                _log.info("%s: %s; retry in %.1f s", self.address, failure, delay_s)
                await asyncio.sleep(delay_s)
                attempt, waited_s = attempt + 1, waited_s + delay_s

    async def close(self) -> None:
        """Close connections; a later request opens new connections."""
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
                "the environment's proxy or certificates cannot be used", kind="unreachable"
            ) from None

    async def _ask_once(
        self, session: _Session, method: str, path: str, body: object, texts: int
    ) -> Any:
        content = None
        if body is not None:  # a lone surrogate cannot be encoded
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                session.client.stream(method, self.address + path, content=content) as response,
            ):
                answer = await _body(response, _MAX_BYTES + texts * _MAX_BYTES_PER_TEXT)
        except (TimeoutError, httpx2.TimeoutException):
            raise Failure(f"no answer within {self._timeout_s:g} s", kind="timeout") from None
        except httpx2.ConnectError as error:
            raise Failure(f"no connection: {error}", kind="unreachable") from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise Failure(f"the connection was cut: {reason}", kind="connection_lost") from None
        if response.status_code == httpx2.codes.OK:
            return _json(answer)
        failure = failure_of_response(response.status_code, response.headers, answer, self._secrets)
        if failure.retry_after_s is not None:
            session.pause_for(failure.retry_after_s)
        raise failure


def is_loopback(host: str) -> bool:
    """Whether a host name stands for this machine."""
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
    # An @ in the path: a password with a slash was parsed as host, port and path.
    if url.scheme not in ("http", "https") or not url.host or "@" in url.path:
        raise EmbeddingUnavailable(
            "The address of the embedding service is invalid",
            hint="Write it like http://127.0.0.1:11434 or https://api.openai.com/v1.",
        )
    return url


def _checked_key(api_key: str) -> str:
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise EmbeddingUnavailable(
            "The key for the embedding service is invalid: it holds blanks or special characters",
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


def failure_of_response(
    status: int, headers: Mapping[str, str], answer: bytes, secrets: Iterable[str]
) -> Failure:
    """The failure of a response with an error status; secrets are removed from its message."""
    message, code = _error_message(answer)
    for secret in secrets:
        message = message.replace(secret, "…")
    message = re.sub(r"\b(sk-|Bearer )\S+", r"\1…", message)[:_MESSAGE_CHARS]
    return Failure(
        f"{message} (status {status})" if message else f"status {status}",
        status=status,
        code=code,
        retry_after_s=_retry_after_s(headers),
    )


def _kind_of(status: int, code: str | None, message: str) -> FailureKind:
    if code == "insufficient_quota":
        return "quota_exceeded"
    if "does not support embed" in message:
        return "not_an_embedding_model"
    if code == "model_not_found" or (status == 404 and "model" in message):
        return "model_not_found"
    if 300 <= status < 400:
        return "unexpected_service"
    return _BY_STATUS.get(status, "service_error")


def _error_message(answer: bytes) -> tuple[str, str | None]:
    """The message of an error response in a single line, and its code, if any."""
    try:
        content: Any = json.loads(answer)
    except (ValueError, RecursionError):
        content = answer[:1000].decode("utf-8", "replace")
    code = None
    for key in ("error", "message", "detail"):
        if isinstance(content, dict) and key in content:
            code = content.get("code", code)
            content = content[key]
    is_text = isinstance(content, str) and not content.lstrip().startswith("<")
    line = " ".join(content[:1000].split()) if is_text else ""
    return line, code if isinstance(code, str) else None


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The ``Retry-After`` header in seconds; it holds seconds or a date (RFC 9110, 10.2.3)."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None
