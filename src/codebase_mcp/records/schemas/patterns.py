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
    translated, cost = _translate(source)
    try:
        engine = SchemaValidator(
            core_schema.str_schema(pattern=translated, regex_engine="rust-regex")
        )
    except SchemaError as error:
        reason = str(error).rpartition("error: ")[2].strip()
        raise PatternError(f"is not a valid regular expression: {reason}") from None
    return Pattern(source, cost, engine)


# A character or an escape; atomic, as otherwise an unclosed class could be read in many ways.
_ITEM = r"(?>\\(?:u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[pP]\{[\w=]+\}|.)|[^\\])"
_TOKEN = re.compile(
    r"(?P<group>\((?:\?(?:P?<[A-Za-z_]\w*>|:))?)"
    r"|(?P<count>\{(?P<least>\d+)(?:,(?P<most>\d*))?\})"
    rf"|\[(?P<negated>\^?)(?P<members>(?:(?!\]){_ITEM})*+)\]"
    rf"|(?P<item>{_ITEM})",
    re.ASCII | re.DOTALL,
)
_MEMBER = re.compile(rf"({_ITEM})(?:-({_ITEM}))?", re.ASCII | re.DOTALL)
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
_OUTSIDE_CLASS = {**_ESCAPES, "b": (r"(?-u:\b)", 1), "B": (r"(?-u:\B)", 1)}
_INSIDE_CLASS = {**_ESCAPES, "b": (r"\x08", 1)}
_NO_LINE_END = r"[^\n\r\x{2028}\x{2029}]"


def _translate(source: str) -> tuple[str, int]:
    """The pattern in the engine's syntax, and its cost; the engine reports other syntax errors."""
    if (len(source) - len(source.rstrip("\\"))) % 2:
        raise PatternError("ends with a backslash")
    parts = []
    groups = [0]  # the cost of each open group so far; the first is the whole pattern
    last = 0  # the cost of the part that a following repetition repeats
    position = 0
    while token := _TOKEN.match(source, position):
        position = token.end()
        part = token[0]
        if token["group"]:
            if source.startswith(("?=", "?!", "?<=", "?<!"), position):
                raise PatternError("contains a lookaround, which is not supported")
            if source.startswith("?", position):
                message = "contains a flag or an unknown group type, which is not supported"
                raise PatternError(message)
            groups.append(0)
            part = "(?:"
        elif token["count"]:
            times = max(1, int(token["least"]), int(token["most"] or 0))
            groups[-1] += last * (times - 1)
            last *= times
        elif part not in ("*", "+", "?", "|"):
            if part == ")":
                last = max(1, groups.pop()) if len(groups) > 1 else 0
            elif token["members"] is not None:
                part, last = _class(bool(token["negated"]), token["members"])
            else:
                part, last = _outside_class(part)
            groups[-1] += last
        parts.append(part)
        if sum(groups) > MAX_COST:
            message = f"is too large: with repetitions expanded it has over {MAX_COST:,} parts"
            raise PatternError(message)
    return "".join(parts), max(1, sum(groups))


def _outside_class(item: str) -> tuple[str, int]:
    if item == "[":
        raise PatternError("is not a valid regular expression: unclosed character class")
    if item == ".":
        return _NO_LINE_END, _BEYOND_ASCII
    return (item, 1) if item in "^$" else _item(item, _OUTSIDE_CLASS)


def _class(is_negated: bool, members: str) -> tuple[str, int]:
    """A set of characters in brackets; ``[]`` matches nothing, ``[^]`` anything."""
    if not members:
        return (r"[\s\S]" if is_negated else r"[^\s\S]"), _BEYOND_ASCII
    parts, cost = [], _BEYOND_ASCII if is_negated else 0
    for first, last in _MEMBER.findall(members):
        part, of_part = _item(first, _INSIDE_CLASS)
        if last:
            end, of_end = _item(last, _INSIDE_CLASS)
            if "[" in (part[0], end[0]):
                raise PatternError("contains a range between sets of characters")
            part, of_part = f"{part}-{end}", max(of_part, of_end)
        parts.append(part)
        cost += of_part if of_part > 1 else 0
    return f"[{'^' if is_negated else ''}{''.join(parts)}]", min(max(1, cost), _PROPERTY)


def _item(item: str, escapes: Mapping[str, tuple[str, int]]) -> tuple[str, int]:
    """A character or an escape, and its cost."""
    char = item[-1]
    if len(item) > 1:
        char = item[1]
        if char in escapes:
            return escapes[char]
        if len(item) > 2:
            return item, _PROPERTY if char in "pP" else _BEYOND_ASCII
        if char in "123456789k":
            raise PatternError("contains a backreference, which is not supported")
        if char.isascii() and char.isalnum():
            raise PatternError(f"contains an unknown escape: {item}")
    literal = f"\\{char}" if char in _SPECIAL else char
    return literal, 1 if char.isascii() else _BEYOND_ASCII
