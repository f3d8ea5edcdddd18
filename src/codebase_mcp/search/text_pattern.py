"""Which lines match a pattern? Literals and regular expressions in the syntax of RE2.

RE2 needs time that grows with the length of the text alone, so no pattern can stop the server. Line
ends match nothing but the anchors, unless a pattern may span lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from mmap import mmap
from re import _constants as nodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import re2

from codebase_mcp.errors import InvalidInput

MAX_PATTERN_CHARS = 1_000

# How much is searched between two looks at the clock.
_SLICE_BYTES = 1 << 20

# A pattern is tested on the lines that hold a text which it requires. Where more lines of a slice
# hold it than this, the pattern is tested on all lines.
_MOST_CANDIDATES = 2_000
_LEAST_REQUIRED_CHARS = 3

# What RE2 lacks: how it begins in a pattern, its name, and what to do instead.
_LACKING = (
    (r"\(\?<?[=!]", "look-around", "Match the text around it too, or search for the part alone."),
    (r"\\[1-9]|\(\?P=|\\k[<{']", "backreferences", "Repeat the expression of the group."),
    (r"\(\?>|[+*?}]\+", "atomic groups and possessive repetitions", "Use plain groups and + or *."),
    (r"\\Z", r"\Z", r"Use \z."),
    (r"\\[hHR]", r"\h and \R", r"Use [ \t] and \r?\n."),
    (r"\(\?[a-z]*x", "the flag x", "Write the pattern without blanks and comments."),
    (r"\(\?(?:\(|R|&|\d|#)", "conditions, recursion and comments", "Leave them out."),
)  # fmt: skip

_ESCAPES = r"\\[pP](?:\{[^}]*\}|.)|\\."
_NO_WORD = "[^0-9A-Za-z_]"

# Python warns of sets that some later version of it may understand in another way.
_SETS_OF_OTHERS = re.compile(r"\[[^\]]*(?:\[|--|&&|~~|\|\|)")

Text = bytes | mmap
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A pattern: a literal, or with ``regex`` an expression in the syntax of RE2.

    Without ``ignore_case`` letters match in either case if the pattern has no upper-case letter.
    """

    pattern: str
    regex: bool = False
    ignore_case: bool | None = None
    whole_word: bool = False
    multiline: bool = False

    @property
    def ignores_case(self) -> bool:
        if self.ignore_case is not None:
            return self.ignore_case
        letters = re.sub(_ESCAPES, "", self.pattern) if self.regex else self.pattern
        return letters == letters.lower()

    @property
    def spans_lines(self) -> bool:
        """Whether a match may span lines: a pattern with a line end cannot match otherwise."""
        ends = re.search(r"(?<!\\)(?:\\\\)*\\n", self.pattern) if self.regex else None
        return self.multiline or "\n" in self.pattern or ends is not None


@dataclass(frozen=True)
class TextMatcher:
    """A compiled pattern; ``is_anchored`` if it names the beginning or end of a file."""

    query: TextQuery
    spans_lines: bool
    is_anchored: bool
    _regex: Any = field(repr=False)
    _required: Any = field(repr=False)

    @classmethod
    def compile(cls, query: TextQuery) -> TextMatcher:
        """Compile a pattern.

        Raises:
            InvalidInput: the pattern is empty or too long, or RE2 does not accept it.
        """
        pattern, rule = query.pattern, f"1 to {MAX_PATTERN_CHARS} characters"
        if not 0 < len(pattern) <= MAX_PATTERN_CHARS:
            message = f"pattern has {len(pattern)} characters"
            raise InvalidInput.of("pattern", pattern[:200], message, rule=rule)
        source = pattern if query.regex else re2.escape(pattern)
        if query.whole_word:
            source = f"(?:^|{_NO_WORD})(?:{source})(?:$|{_NO_WORD})"
        options = _options(never_nl=not query.spans_lines, case_sensitive=not query.ignores_case)
        try:
            regex = re2.compile(f"(?m){source}".encode(), options)
        except re2.error as error:
            raise _refused(pattern, error) from None
        required = _required(query)
        return cls(
            query,
            query.spans_lines,
            query.regex and re.search(r"\\[Az]", pattern) is not None,
            regex,
            None if required is None else re2.compile(re2.escape(required).encode(), options),
        )

    def is_in(self, text: Text) -> bool:
        """Whether anything in a text matches."""
        return self._regex.search(text) is not None

    def spans(self, text: Text, start: int, end: int, check: Callable[[], None]) -> Iterator[Span]:
        """The first match of each line between two offsets, which are at line ends.

        ``check`` is called now and then, and may raise. A match that spans lines counts once.
        """
        if self.spans_lines or self.is_anchored:
            yield from self._matches(text, start, end)
            return
        prefilter = self._required
        while start < end:
            check()
            stop = _line_end(text, min(start + _SLICE_BYTES, end), end)
            candidates = None if prefilter is None else self._candidates(text, start, stop)
            if candidates is None:
                prefilter = None
                yield from self._matches(text, start, stop)
            else:
                for first, last in candidates:
                    if match := self._regex.search(text, first, last):
                        yield match.span()
            start = stop

    def _matches(self, text: Text, start: int, end: int) -> Iterator[Span]:
        """The first match of each line; of a pattern that spans lines each match."""
        search, by_match = self._regex.search, self.spans_lines
        while start < end and (match := search(text, start, end)):
            first, last = match.span()
            if first >= end:
                return
            yield first, last
            start = max(last, first + 1) if by_match else _line_end(text, last, end)

    def _candidates(self, text: Text, start: int, end: int) -> list[Span] | None:
        """The lines that hold the required text; None if they are many."""
        lines: list[Span] = []
        position = start
        while position < end and (match := self._required.search(text, position, end)):
            if len(lines) == _MOST_CANDIDATES:
                return None
            position = _line_end(text, match.end(), end)
            lines.append((text.rfind(b"\n", start, match.start()) + 1 or start, position))
        return lines

    @property
    def name(self) -> str | None:
        """The pattern if it is a name, which code may define."""
        pattern = self.query.pattern
        return pattern if not self.query.regex and pattern.isidentifier() else None

    def is_name(self, name: str) -> bool:
        """Whether a definition of this name is what the pattern names."""
        if self.query.ignores_case:
            return self.name is not None and name.lower() == self.name.lower()
        return name == self.name


def _line_end(text: Text, position: int, end: int) -> int:
    """The offset behind the end of a line."""
    newline = text.find(b"\n", position, end)
    return end if newline < 0 else newline + 1


def _options(*, never_nl: bool = False, case_sensitive: bool = True) -> Any:
    options = re2.Options()
    options.never_nl, options.case_sensitive = never_nl, case_sensitive
    options.never_capture, options.log_errors = True, False
    return options


def _required(query: TextQuery) -> str | None:
    """A text that each matching line holds; None if none is certain, or RE2 looks for it itself."""
    if query.spans_lines or not (query.regex or query.whole_word):
        return None
    texts = [""]
    if not query.regex:
        texts = ["", query.pattern]
    elif not _SETS_OF_OTHERS.search(query.pattern):
        try:
            tree = parser.parse(query.pattern)
        except (re.error, RecursionError, OverflowError):
            return None
        if not tree.state.flags & (re.IGNORECASE | re.VERBOSE):
            _collect(tree, texts)
    longest = max(texts, key=len)
    begins_so = longest == texts[0] and not query.whole_word
    return longest if len(longest) >= _LEAST_REQUIRED_CHARS and not begins_so else None


def _collect(tree: Any, texts: list[str]) -> None:
    """Add the literal texts of a parsed expression that no match can lack; the last is open."""
    for node, argument in tree:
        if node is nodes.LITERAL:
            texts[-1] += chr(argument)
        elif node is nodes.SUBPATTERN and not argument[1] and not argument[2]:
            _collect(argument[3], texts)
        elif node is not nodes.AT:
            texts.append("")
            if node in (nodes.MAX_REPEAT, nodes.MIN_REPEAT) and argument[0]:
                _collect(argument[2], texts)
                texts.append("")


def _refused(pattern: str, error: Exception) -> InvalidInput:
    reason = str(error.args[0], "utf-8", "replace") if error.args else "invalid"
    for sign, name, hint in _LACKING:
        if re.search(sign, pattern):
            message = f"pattern has {name}, which RE2 lacks: {reason}"
            return InvalidInput.of("pattern", pattern[:200], message, rule="RE2 syntax", hint=hint)
    return InvalidInput.of(
        "pattern",
        pattern[:200],
        f"pattern is no regular expression: {reason}",
        rule="RE2 syntax",
        hint="Leave regex out to search for these characters as they stand.",
    )
