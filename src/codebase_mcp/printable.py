"""Makes untrusted text safe to print: without terminal control sequences and invisible characters.

A file name, a line of code or a record may hold escape sequences that rename a window, move the
cursor or write to the clipboard, and overrides of the direction of text, by which code reads
otherwise than it runs. Both are shown as escapes: ``\\x1b``, ``\\u202e``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_DIRECTIONS = "\u202a-\u202e\u2066-\u2069"
# JSON escapes the remaining control characters by itself.
_LEFT_BY_JSON = re.compile(f"[\x7f-\x9f{_DIRECTIONS}\ud800-\udfff]")
_UNPRINTABLE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_DIRECTIONS}\ud800-\udfff]")
_NOT_IN_A_LINE = re.compile(f"[\x00-\x1f\x7f-\x9f{_DIRECTIONS}\ud800-\udfff]")


def printable(text: str) -> str:
    """Text of several lines; tabs and line feeds stay as they are."""
    return _UNPRINTABLE.sub(_escape, text)


def printable_line(text: str) -> str:
    """Text that has no line break of its own, such as a file name."""
    return _NOT_IN_A_LINE.sub(_escape, text)


def printable_json(
    value: Any, *, indent: int | None = None, default: Callable[[object], str] | None = None
) -> str:
    """JSON in readable characters; a parser gets the same value from it."""
    return escaped_json(json.dumps(value, ensure_ascii=False, indent=indent, default=default))


def escaped_json(text: str) -> str:
    """JSON that was written in readable characters, without those that steer a terminal."""
    return _LEFT_BY_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
