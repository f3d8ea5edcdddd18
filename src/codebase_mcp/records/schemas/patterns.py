r"""Matches untrusted regular expressions in bounded time.

JSON Schema uses ECMAScript's patterns. Python's engine backtracks, so ``(a+)+$`` may take
exponential time. RE2 takes linear time, but has neither lookarounds nor backreferences. Its ``\d``
and ``\w`` are ASCII, as ECMAScript's; ``\u00e9`` and ``\p{Script=Greek}`` are translated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import re2

MAX_CHARS = 1_000

# How much RE2 may use for a program and its automata: \p{L}{50} passes, a larger program is refused
# in 50 ms.
_MOST_BYTES = 1 << 20

# Bytes that a program of one instruction reads in a microsecond, where no automaton fits.
_BYTES_PER_STEP = 20

_ESCAPE = re.compile(
    r"\\u\{?(?P<code>(?<=\{)[0-9a-fA-F]{1,6}(?=\})|(?<=u)[0-9a-fA-F]{4})\}?"
    r"|\\[pP]\{(?P<name>(?:Script|sc|General_Category|gc)=)|\\.",
    re.DOTALL,
)


class PatternError(ValueError):
    """The pattern is invalid or unsupported; the message completes "a pattern that …"."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; ``cost`` is the number of its instructions: [a-z]{500} has about 500."""

    cost: int
    engine: Any

    def steps(self, text: str) -> int:
        """How many microseconds searching a text takes in the worst case, approximately."""
        return 1 + len(text) * self.cost // _BYTES_PER_STEP

    def occurs_in(self, text: str) -> bool:
        """Whether any part of the text matches."""
        return self.engine.search(text.encode(errors="surrogatepass")) is not None


def compile_pattern(source: str) -> Pattern:
    """Compile a pattern.

    Raises:
        PatternError: the pattern is invalid or not supported.
    """
    if len(source) > MAX_CHARS:
        raise PatternError(f"is longer than {MAX_CHARS:,} characters")
    options = re2.Options()
    options.max_mem, options.never_capture, options.log_errors = _MOST_BYTES, True, False
    translated = _ESCAPE.sub(_translated, source)
    try:
        engine = re2.compile(translated.encode(errors="surrogatepass"), options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise PatternError(f"is not a valid regular expression: {reason}") from None
    return Pattern(engine.programsize, engine)


def _translated(escape: re.Match[str]) -> str:
    if escape["code"]:
        return rf"\x{{{escape['code']}}}"
    return escape[0].removesuffix(escape["name"]) if escape["name"] else escape[0]
