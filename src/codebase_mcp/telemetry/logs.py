"""What is logged, how, and what never is? All of it goes to standard error.

Standard output carries the protocol alone. Passwords and keys are taken out of every line, whoever
wrote it: a driver's message, a URL, a traceback.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import unquote, urlsplit

from codebase_mcp.printable import printable, printable_json
from codebase_mcp.telemetry import tracing

HIDDEN = "***"

# Libraries that put handlers of their own in the way, as soon as they are imported.
_LIBRARIES = ("fastmcp", "mcp", "uvicorn", "uvicorn.access", "uvicorn.error")

# What looks like a credential wherever it comes from: a URL's, a header's, a connection string's.
_CREDENTIALS = (
    (re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]+@"), f"{HIDDEN}@"),
    (re.compile(r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?\w+\s+)[^\s\"',]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}"), rf"\1{HIDDEN}"),
    (
        re.compile(r"(?i)\b((?:password|passwd|api[_-]?key|secret|token)[\"']?\s*[=:]\s*[\"']?)"
                   r"[^\s\"'&,;]+"),
        rf"\1{HIDDEN}",
    ),
)  # fmt: skip
_LEAST_SECRET_CHARS = 4

_fields: ContextVar[Mapping[str, object]] = ContextVar("log_fields", default={})  # noqa: B039


@contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Put these fields on each line that is logged in the block."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


class Redactor:
    """Takes credentials out of a text: those that the settings hold, and what looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({part for secret in secrets for part in _parts(secret)}, key=len)
        # The longest first: a password may be a piece of its URL.
        self._known = re.compile("|".join(map(re.escape, reversed(known)))) if known else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern, replacement in _CREDENTIALS:
            text = pattern.sub(replacement, text)
        return text


def _parts(secret: str) -> Iterator[str]:
    """A secret as it may turn up: as it is, and of a URL the password, quoted or not."""
    try:
        password = urlsplit(secret).password if "://" in secret else None
    except ValueError:
        password = None
    for part in (secret, password, unquote(password or "")):
        if part and len(part) >= _LEAST_SECRET_CHARS:
            yield part


class TextFormatter(logging.Formatter):
    """A line for people."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return printable(self._redact(super().format(record)))


class JsonFormatter(logging.Formatter):
    """A line for programs: one JSON object with ts, level, logger, message, and what is known."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields.get(),
            **tracing.identifiers(),
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
    """Log to standard error from now on; ``secrets`` are taken out of every line."""
    redact = Redactor(secrets)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(redact) if form == "json" else TextFormatter(redact))
    root = logging.getLogger()
    for earlier in root.handlers[:]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    adopt_libraries()


def adopt_libraries() -> None:
    """Let libraries log as we do; called again after the import of one that configured itself."""
    for name in _LIBRARIES:
        logger = logging.getLogger(name)
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
