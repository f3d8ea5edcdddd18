"""Why did a request to an embedding service fail, and is it worth a retry?"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

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
