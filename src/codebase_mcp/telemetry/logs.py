"""Logging, to standard error only.

Standard output is reserved for the protocol. Passwords and keys are removed from every line: also
from messages of drivers, URLs and tracebacks.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import unquote

from codebase_mcp.printable import printable, printable_json
from codebase_mcp.telemetry.stopwatch import identifiers, log_fields

HIDDEN = "***"

# Libraries that install their own handlers when they are imported.
_LIBRARIES = ("fastmcp", "mcp", "uvicorn", "uvicorn.access", "uvicorn.error")

# Address, method, target, version of HTTP, status.
_ACCESS_ARGUMENTS = 5

# What looks like a credential: in a URL, a header, a connection string.
_CREDENTIALS = (
    (re.compile(r"(?<=://)[^\s\"'<>]*@"), f"{HIDDEN}@"),
    (re.compile(r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?\w+\s+)[^\s\"',]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}"), rf"\1{HIDDEN}"),
    (
        re.compile(r"(?i)\b((?:password|passwd|api[_-]?key|secret|token)[\"']?\s*[=:]\s*[\"']?)"
                   r"[^\s\"'&,;]+"),
        rf"\1{HIDDEN}",
    ),
)  # fmt: skip
_LEAST_SECRET_CHARS = 4
_REMEMBERED_FAULTS = 256
_QUOTES = "\"'«»“”„"


class Redactor:
    """Removes credentials from a text: those of the settings, and what looks like them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        secrets = list(secrets)
        parts = {part for secret in secrets for part in _parts(secret)}
        users = _any_of({user for secret in secrets for user in _users(secret)})
        self._patterns = [
            *((re.compile(pattern), HIDDEN) for pattern in _any_of(parts)),
            # A user name may be any word, so it is only removed where a message quotes it.
            *((re.compile(rf"(?<=[{_QUOTES}])({user})(?=[{_QUOTES}])"), HIDDEN) for user in users),
            *_CREDENTIALS,
        ]

    def __call__(self, text: str) -> str:
        for pattern, replacement in self._patterns:
            text = pattern.sub(replacement, text)
        return text


def _any_of(texts: Collection[str]) -> Iterator[str]:
    """A pattern for all texts, the longest first, as they may overlap; nothing without texts."""
    if texts:
        yield "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))


def _parts(secret: str) -> Iterator[str]:
    """The forms in which a secret may appear: itself, and the password of a URL, quoted or not.

    Also the pieces of a password: a wrong parser may take them for a host or a port.
    """
    _, _, password = _user_info(secret).partition(":")
    for part in (secret, password, unquote(password), *re.split(r"[@:/?#]", password)):
        if len(part) >= _LEAST_SECRET_CHARS:
            yield part


def _users(secret: str) -> Iterator[str]:
    user, _, _ = _user_info(secret).partition(":")
    yield from filter(None, (user, unquote(user)))


def _user_info(secret: str) -> str:
    """The part before the host of a URL, even of an invalid URL; empty if it is no URL."""
    return secret.partition("://")[2].rpartition("@")[0]


class OncePerSecond(logging.Filter):
    """Logs a repeated warning once a second, with the number of suppressed repetitions.

    Only identical messages count: each unexpected error has an id of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        fault = (record.name, record.levelno, f"{record.msg} {record.args}")
        logged_at, left_out = self._seen.pop(fault, (0.0, 0))
        if record.created - logged_at < 1:
            self._seen[fault] = (logged_at, left_out + 1)
            return False
        self._seen[fault] = (record.created, 0)
        if len(self._seen) > _REMEMBERED_FAULTS:
            del self._seen[next(iter(self._seen))]
        if left_out:
            record.msg = f"{record.msg} ({left_out} repetitions suppressed)"
        return True


class WithoutQuery(logging.Filter):
    """Leaves the query out of uvicorn's lines about requests: it is what somebody searched for."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple) and len(record.args) == _ACCESS_ARGUMENTS:
            client, method, target, *others = record.args
            record.args = (client, method, str(target).partition("?")[0], *others)
        return True


class TextFormatter(logging.Formatter):
    def __init__(self, redact: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return printable(self._redact(super().format(record)))


class JsonFormatter(logging.Formatter):
    """Formats a line as a JSON object with ts, level, logger, message and bound fields."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **log_fields.get(),
            **identifiers(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["traceback"] = record.exc_text
        hidden = {k: self._redact(v) if isinstance(v, str) else v for k, v in line.items()}
        return printable_json(hidden, default=str)


def configure(
    level: str, form: Literal["text", "json"] | str = "text", secrets: Iterable[str] = ()
) -> None:
    """Log to standard error; ``secrets`` are removed from every line."""
    redact = Redactor(secrets)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(redact) if form == "json" else TextFormatter(redact))
    handler.addFilter(OncePerSecond())
    root = logging.getLogger()
    for earlier in root.handlers[:]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    adopt_libraries()


def adopt_libraries() -> None:
    """Use our handler for libraries; called again after imports that configure logging."""
    access = logging.getLogger("uvicorn.access")
    if not any(isinstance(present, WithoutQuery) for present in access.filters):
        access.addFilter(WithoutQuery())
    for name in _LIBRARIES:
        logger = logging.getLogger(name)
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
