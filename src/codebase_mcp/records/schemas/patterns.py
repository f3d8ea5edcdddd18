r"""Matches untrusted regular expressions in bounded time.

JSON Schema uses ECMAScript's patterns. Python's engine backtracks, so ``(a+)+$`` may take
exponential time. Rust's engine, used by pydantic, takes linear time, but has neither lookarounds
nor backreferences. Where its syntax has another meaning than ECMAScript's (``\d`` in any script,
``&&`` in a class), the pattern is translated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic_core import SchemaError, SchemaValidator, core_schema

MAX_CHARS = 1_000

# With counted repetitions expanded: [a-z]{500} costs 500.
MAX_COST = 5_000

# Characters that the engine reads in a microsecond, for a pattern with a cost of 1.
_CHARS_PER_STEP = 100

_BEYOND_ASCII = 6  # the cost of a character of several bytes, or of a set of them
_PROPERTY = 60  # the cost of \p{L} and similar classes, which have hundreds of ranges


class PatternError(ValueError):
    """The pattern is invalid or unsupported; the message completes "a pattern that …"."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern."""

    source: str
    cost: int
    engine: SchemaValidator = field(repr=False, compare=False)

    def steps(self, text: str) -> int:
        """The cost of searching a text, in microseconds approximately."""
        return 1 + len(text) * self.cost // _CHARS_PER_STEP

    def occurs_in(self, text: str) -> bool:
        """Whether any part of the text matches."""
        return self.engine.isinstance_python(text)


def compile_pattern(source: str) -> Pattern:
    """Compile a pattern.

    Raises:
        PatternError: the pattern is invalid or not supported.
    """
    if len(source) > MAX_CHARS:
        raise PatternError(f"is longer than {MAX_CHARS:,} characters")
    translation = _Translation(source)
    translated = translation.whole()
    try:
        engine = SchemaValidator(
            core_schema.str_schema(pattern=translated, regex_engine="rust-regex")
        )
    except SchemaError as error:
        reason = str(error).rpartition("error: ")[2].strip()
        raise PatternError(f"is not a valid regular expression: {reason}") from None
    return Pattern(source, translation.cost, engine)


_COUNT = re.compile(r"\{(\d+)(?:,(\d*))?\}", re.ASCII)
_GROUP = re.compile(r"\((?:\?(?:P?<[A-Za-z_]\w*>|:))?", re.ASCII)
_ESCAPE = re.compile(
    r"\\(?:u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[pP]\{[\w=]+\}|.)",
    re.ASCII | re.DOTALL,
)
_SPECIAL = frozenset("\\.+*?()|[]{}^$#&-~")
_SPACE = r"\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}"
_ESCAPES: Mapping[str, tuple[str, int]] = {
    "d": ("[0-9]", 1),
    "D": ("[^0-9]", _BEYOND_ASCII),
    "w": ("[0-9A-Za-z_]", 1),
    "W": ("[^0-9A-Za-z_]", _BEYOND_ASCII),
    "s": (f"[{_SPACE}]", _BEYOND_ASCII),
    "S": (f"[^{_SPACE}]", _BEYOND_ASCII),
    "0": (r"\x00", 1),
    **{control: (f"\\{control}", 1) for control in "tnrfv"},
}
_OUTSIDE_CLASS = {"b": (r"(?-u:\b)", 1), "B": (r"(?-u:\B)", 1)}
_INSIDE_CLASS = {"b": (r"\x08", 1)}
_NO_LINE_END = r"[^\n\r\x{2028}\x{2029}]"


class _Translation:
    """Translates a pattern from left to right, and computes its cost."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._groups = [0]  # the cost of each open group so far; the first is the whole pattern
        self._last = 0  # the cost of the part that a following repetition repeats

    @property
    def cost(self) -> int:
        return max(1, sum(self._groups))

    def whole(self) -> str:
        """The pattern in the engine's syntax; the engine reports the remaining syntax errors."""
        parts = []
        while self._at < len(self._source):
            parts.append(self._next())
            if self.cost > MAX_COST:
                message = f"is too large: with repetitions expanded it has over {MAX_COST:,} parts"
                raise PatternError(message)
        return "".join(parts)

    def _next(self) -> str:
        char = self._source[self._at]
        if char == "(":
            return self._open()
        if char == "{" and (count := _COUNT.match(self._source, self._at)):
            return self._repeat(count)
        if char in "*+?|":
            self._at += 1
            return char
        return self._atom(*self._single(char))

    def _single(self, char: str) -> tuple[str, int]:
        """An item that a repetition can follow: a character, a set, an anchor, a group's end."""
        if char == "\\":
            return self._escape(_OUTSIDE_CLASS)
        if char == "[":
            return self._class()
        self._at += 1
        if char == ")":
            return char, max(1, self._groups.pop()) if len(self._groups) > 1 else 0
        if char == ".":
            return _NO_LINE_END, _BEYOND_ASCII
        return (char, 1) if char in "^$" else _literal(char)

    def _atom(self, translated: str, cost: int) -> str:
        self._last = cost
        self._groups[-1] += cost
        return translated

    def _open(self) -> str:
        group = _GROUP.match(self._source, self._at)
        assert group is not None
        self._at = group.end()
        if self._source.startswith(("?=", "?!", "?<=", "?<!"), self._at):
            raise PatternError("contains a lookaround, which is not supported")
        if self._source.startswith("?", self._at):
            raise PatternError("contains a flag or an unknown group type, which is not supported")
        self._groups.append(0)
        return "(?:"

    def _repeat(self, count: re.Match[str]) -> str:
        self._at = count.end()
        times = max(1, int(count[1]), int(count[2] or 0))
        self._groups[-1] += self._last * (times - 1)
        self._last *= times
        return count[0]

    def _escape(self, special: Mapping[str, tuple[str, int]]) -> tuple[str, int]:
        escape = _ESCAPE.match(self._source, self._at)
        if escape is None:
            raise PatternError("ends with a backslash")
        self._at = escape.end()
        text, char = escape[0], escape[0][1]
        if translated := special.get(char) or _ESCAPES.get(char):
            return translated
        if len(text) > 2:
            return text, _PROPERTY if char in "pP" else _BEYOND_ASCII
        if char in "123456789k":
            raise PatternError("contains a backreference, which is not supported")
        if char.isascii() and char.isalnum():
            raise PatternError(f"contains an unknown escape: {text}")
        return _literal(char)

    def _class(self) -> tuple[str, int]:
        """A set of characters in brackets; ``[]`` matches nothing, ``[^]`` anything."""
        is_negated = self._source.startswith("^", self._at + 1)
        self._at += 2 if is_negated else 1
        members, cost = [], _BEYOND_ASCII if is_negated else 0
        while not self._source.startswith("]", self._at):
            member, of_member = self._member()
            members.append(member)
            cost += of_member if of_member > 1 else 0
        self._at += 1
        if not members:
            return (r"[\s\S]" if is_negated else r"[^\s\S]"), _BEYOND_ASCII
        return f"[{'^' if is_negated else ''}{''.join(members)}]", min(max(1, cost), _PROPERTY)

    def _member(self) -> tuple[str, int]:
        """A character, a range or a set within brackets."""
        first, cost = self._char_in_class()
        rest = self._source[self._at : self._at + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return first, cost
        self._at += 1
        last, of_last = self._char_in_class()
        if "[" in (first[0], last[0]):
            raise PatternError("contains a range between sets of characters")
        return f"{first}-{last}", max(cost, of_last)

    def _char_in_class(self) -> tuple[str, int]:
        char = self._source[self._at : self._at + 1]
        if not char:
            raise PatternError("is not a valid regular expression: unclosed character class")
        if char == "\\":
            return self._escape(_INSIDE_CLASS)
        self._at += 1
        return _literal(char)


def _literal(char: str) -> tuple[str, int]:
    """A literal character."""
    escaped = f"\\{char}" if char in _SPECIAL else char
    return escaped, 1 if char.isascii() else _BEYOND_ASCII
