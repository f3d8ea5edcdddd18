"""Why did a service give no vectors, and is it worth asking again?"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

Kind = Literal[
    "away",  # nobody listens, or nobody can be reached
    "slow",  # no answer in time
    "cut",  # the connection ended before the answer did
    "limited",  # too many requests
    "quota",  # nothing is left that was paid for
    "denied",  # the key is wrong or missing
    "no_model",
    "no_embedding",  # the model does something else
    "stranger",  # another program answers, or the address has the wrong path
    "broken",
]

_BY_STATUS: Mapping[int, Kind] = {
    200: "stranger",
    401: "denied",
    403: "denied",
    404: "stranger",
    405: "stranger",
    429: "limited",
    501: "stranger",
}

# Statuses that say "not now" (408, 425, 429 and the likes of 503); 500 often is about one text.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})

_MESSAGE_CHARS = 200


class Failure(Exception):
    """A request got no usable answer.

    ``status`` is None where nothing was answered; the text is what the service or the network said,
    without anything secret.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: Kind | None = None,
        status: int | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
        self.kind: Kind = kind or _kind_of(status or 0, code, message.lower())

    @property
    def may_be_a_text(self) -> bool:
        """Whether a single text can be the reason."""
        return self.kind == "broken" and self.status in (400, 413, 422, 500)

    @property
    def passes(self) -> bool:
        """Whether the same request may do better a moment later."""
        return self.kind != "quota" and (self.status is None or self.status in _PASSING)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request is tried.

    ``max_wait_s`` bounds the waiting between its tries, most of which happens where the service
    itself says how long to wait; that uses up no try. What is urgent goes past what is not.
    """

    tries: int = 4
    first_delay_s: float = 0.25
    max_wait_s: float = 10.0
    is_urgent: bool = True

    def delay_s(self, attempt: int, waited_s: float, failure: Failure) -> float | None:
        """How long to wait after a try; None to give up."""
        if not failure.passes:
            return None
        # With jitter, or all requests that failed together would come back together.
        delay = self.first_delay_s * 2 ** min(attempt - 1, 10) * random.uniform(0.5, 1.0)
        if failure.retry_after_s is not None:
            delay = max(delay, failure.retry_after_s)
        elif attempt >= (min(self.tries, 2) if failure.kind in ("away", "slow") else self.tries):
            return None  # once more helps where a service or a model was just being started
        return delay if waited_s + delay <= self.max_wait_s else None


def failure_of(
    status: int, headers: Mapping[str, str], answer: bytes, secrets: Iterable[str]
) -> Failure:
    """The failure that an answer with an error status tells of, without the secrets."""
    message, code = _what_it_says(answer)
    for secret in secrets:
        message = message.replace(secret, "…")
    message = re.sub(r"\b(sk-|Bearer )\S+", r"\1…", message)[:_MESSAGE_CHARS]
    return Failure(
        f"{message} (status {status})" if message else f"status {status}",
        status=status,
        code=code,
        retry_after_s=_retry_after_s(headers),
    )


def _kind_of(status: int, code: str | None, message: str) -> Kind:
    if code == "insufficient_quota":
        return "quota"
    if "does not support embed" in message:
        return "no_embedding"
    if code == "model_not_found" or (status == 404 and "model" in message):
        return "no_model"
    if 300 <= status < 400:
        return "stranger"
    return _BY_STATUS.get(status, "broken")


def _what_it_says(answer: bytes) -> tuple[str, str | None]:
    """The message of an answer that tells of an error, in a line, and its code if it has one."""
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
    """How long a service asks to wait: seconds, or until a date."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None
