"""Lines for a person or a program; control characters in them never reach the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from codebase_mcp.printable import printable, printable_json
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.table import MAX_REPLY_CHARS

# A person scrolls: only a very long list is cut.
_CHARS_FOR_PERSON = 100_000
SHOWN = 50
"""The entries of a list that a terminal shows, unless more are asked for."""


def reply_budget(settings: Settings, times: int = 1) -> int:
    """How many characters of the agents' text are shown: on a terminal far more than in a pipe.

    In a pipe ``times`` as many as agents get of a search, up to the limit.
    """
    in_pipe = min(times * settings.reply_chars, MAX_REPLY_CHARS)
    return _CHARS_FOR_PERSON if sys.stdout.isatty() else in_pipe


def say(text: str) -> None:
    """Tell a person, on standard output."""
    print(printable(text))


def warn(text: str) -> None:
    """Tell a person, on standard error."""
    print(printable(text), file=sys.stderr)


def ask(question: str) -> None:
    """Put a question to a person, on standard error; the answer comes after it in its line."""
    print(printable(question), end=" ", file=sys.stderr, flush=True)


def local_time(time: datetime | str | None) -> str:
    """A time in the local time zone, to the minute; texts are in ISO 8601."""
    if time is None:
        return ""
    at = datetime.fromisoformat(time) if isinstance(time, str) else time
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def encoding_counts(encodings: Mapping[str, int]) -> str:
    """How many files are not in UTF-8, by encoding."""
    counts = ", ".join(f"{number} in {name}" for name, number in encodings.items())
    return f"not UTF-8: {counts}"


def picked(record: object, names: str) -> dict[str, Any]:
    """The attributes of a record with these names, in their order, for programs."""
    return {name: getattr(record, name) for name in names.split()}


def print_json(content: Any, *, indent: int | None = 2) -> int:
    """Print a reply for a program; returns 0, the exit status of a command that only prints it."""
    print(printable_json(content, indent=indent, default=_text_of), flush=True)
    return 0


def tell(options: argparse.Namespace, content: Any, text: str) -> int:
    """Tell the outcome of a command in a line: JSON for a program, or a text for a person."""
    if options.json:
        return print_json(content, indent=None)
    say(text)
    return 0


def _text_of(value: object) -> str:
    """What JSON has no type for: times in ISO 8601, ids and paths."""
    return value.isoformat() if isinstance(value, datetime) else str(value)
