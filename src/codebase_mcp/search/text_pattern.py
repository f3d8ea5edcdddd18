"""Which lines match a pattern? Literals and regular expressions in the syntax of RE2.

RE2 needs time that grows with the length of the text alone, so no pattern can stop the server. Line
ends match nothing but the anchors, unless a pattern may span lines.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from re import _constants as nodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import re2

from codebase_mcp.errors import InvalidInput
from codebase_mcp.search.literal import MAX_PATTERN_CHARS

# How much is searched between two looks at the clock.
_SLICE_BYTES = 1 << 20

# A pattern is tested on the lines that hold a text which it requires. Where more lines of a slice
# hold it than this, the pattern is tested on all lines.
_MOST_LINES = 200

# So many further matches of a line are passed over, which is faster than a new search.
_MOST_FURTHER = 2
_LEAST_REQUIRED_BYTES = 3

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

# The letters beyond ASCII that are another case of an ASCII letter: the long s and Kelvin's sign.
OTHER_CASES = (b"\xc5\xbf", b"\xe2\x84\xaa")

Span = tuple[int, int]


class Spans:
    """Spans of a text, of eight bytes each: a pattern may match a million lines."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._offsets = array("I", chain.from_iterable(spans))

    def append(self, first: int, last: int) -> None:
        self._offsets.append(first)
        self._offsets.append(last)

    def __iter__(self) -> Iterator[Span]:
        offsets = iter(self._offsets)
        return zip(offsets, offsets, strict=True)

    def __len__(self) -> int:
        return len(self._offsets) // 2


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
    """A compiled pattern; ``is_anchored`` if it names the beginning or end of a file.

    Each match holds a text of every set in ``required``, in any case if the pattern ignores it.
    """

    query: TextQuery
    spans_lines: bool
    is_anchored: bool
    required: tuple[frozenset[str], ...]
    _regex: Any = field(repr=False)
    _line_filter: bytes | None = field(repr=False)

    @property
    def _is_literal(self) -> bool:
        """Whether the pattern matches exactly where its line filter stands."""
        query = self.query
        return not (query.regex or query.whole_word) and (
            self._line_filter is not None and len(self._line_filter) == len(query.pattern.encode())
        )

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
        options = _options(never_nl=not query.spans_lines, case_sensitive=not query.ignores_case)
        try:
            regex = re2.compile(f"(?m){source}".encode(), options)
            if query.whole_word:  # only around a valid expression: "a)|(b" would end the group
                word = f"(?m)(?:^|{_NO_WORD})(?:{source})(?:$|{_NO_WORD})"
                regex = re2.compile(word.encode(), options)
        except re2.error as error:
            raise _refused(pattern, error) from None
        required = _required(query)
        return cls(
            query,
            query.spans_lines,
            query.regex and re.search(r"\\[Az]", pattern) is not None,
            required,
            regex,
            _line_filter(query, required),
        )

    def is_in(self, text: bytes) -> bool:
        """Whether anything in a text matches."""
        return self._regex.search(text) is not None

    def spans(self, text: bytes, check: Callable[[], None] = lambda: None) -> Iterator[Span]:
        """The first match of each line.

        ``check`` is called now and then, and may raise. A match that spans lines counts once.
        """
        size = len(text)
        if self.spans_lines or self.is_anchored:
            yield from self._matches(text, 0, size)
            return
        required, folded = self._line_filter, text
        if required is not None and self.query.ignores_case:
            folded = text.lower()
            if any(letter in text for letter in OTHER_CASES):
                required = None
        start = 0
        while start < size:
            check()
            stop = _line_end(text, min(start + _SLICE_BYTES, size), size)
            if required is None:
                yield from self._matches(text, start, stop)
            elif self._is_literal:
                yield from _occurrences(folded, required, start, stop)
            else:
                yield from self._in_lines_with(folded, required, text, start, stop)
            start = stop

    def _matches(self, text: bytes, start: int, end: int) -> Iterator[Span]:
        """The first match of each line; of a pattern that spans lines each match."""
        by_match, further = self.spans_lines, 0
        while start < end:
            for match in self._regex.finditer(text, start, end):
                first, last = match.span()
                if first >= end:
                    return
                if first >= start:
                    yield first, last
                    start = max(last, first + 1) if by_match else _line_end(text, last, end)
                    further = 0
                elif further == _MOST_FURTHER:  # begin anew in the next line
                    break
                else:
                    further += 1
            else:
                return

    def _in_lines_with(
        self, folded: bytes, required: bytes, text: bytes, start: int, end: int
    ) -> Iterator[Span]:
        """The first match of each line that holds the required text."""
        occurrences = list(islice(_occurrences(folded, required, start, end), _MOST_LINES + 1))
        if len(occurrences) > _MOST_LINES:
            yield from self._matches(text, start, end)
            return
        for first, last in occurrences:
            line = text.rfind(b"\n", start, first) + 1 or start
            if match := self._regex.search(text, line, _line_end(text, last, end)):
                yield match.span()

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


def _occurrences(text: bytes, part: bytes, start: int, end: int) -> Iterator[Span]:
    """The first occurrence in each line."""
    while (first := text.find(part, start, end)) >= 0:
        yield first, first + len(part)
        start = _line_end(text, first + len(part), end)


def _line_end(text: bytes, position: int, end: int) -> int:
    """The offset behind the end of a line."""
    newline = text.find(b"\n", position, end)
    return end if newline < 0 else newline + 1


def _options(*, never_nl: bool = False, case_sensitive: bool = True) -> Any:
    options = re2.Options()
    options.never_nl, options.case_sensitive = never_nl, case_sensitive
    options.never_capture, options.log_errors = True, False
    return options


def _line_filter(query: TextQuery, required: Sequence[Collection[str]]) -> bytes | None:
    """The longest text that each matching line holds, in lower case if case is ignored."""
    texts = [text for alternatives in required if len(alternatives) == 1 for text in alternatives]
    if not query.regex and (query.pattern.isascii() or not query.ignores_case):
        texts = [query.pattern]
    longest = max(texts, key=len, default="").encode()
    return (longest.lower() if query.ignores_case else longest) or None


def _required(query: TextQuery) -> tuple[frozenset[str], ...]:
    """Sets of texts: each match holds a text of every set, in any case if case is ignored."""
    sets: list[frozenset[str]] = []
    if not query.regex:
        sets = [frozenset([query.pattern])]
    elif not _SETS_OF_OTHERS.search(query.pattern):
        try:
            tree = parser.parse(query.pattern)
        except (re.error, RecursionError, OverflowError):
            return ()
        if not tree.state.flags & (re.IGNORECASE | re.VERBOSE):
            sets = _collect(tree)
    if query.ignores_case:  # letters beyond ASCII have cases of other lengths
        sets = [
            frozenset([max(re.findall(r"[\0-\x7f]*", text), key=len) for text in texts])
            for texts in sets
        ]
    return tuple(texts for texts in sets if _shortest(texts) >= _LEAST_REQUIRED_BYTES)


def _collect(tree: Any) -> list[frozenset[str]]:
    """Sets of literal texts of a parsed expression: no match lacks all texts of a set."""
    texts, choices = [""], list[frozenset[str]]()
    for node, argument in _flat(tree):
        if node is nodes.LITERAL:
            texts[-1] += chr(argument)
        elif node is not nodes.AT:
            texts.append("")
            if node in (nodes.MAX_REPEAT, nodes.MIN_REPEAT) and argument[0]:
                choices += _collect(argument[2])
            elif node is nodes.BRANCH:
                branches = [_collect(branch) for branch in argument[1]]
                if all(branches):
                    choices.append(frozenset().union(*(max(b, key=_shortest) for b in branches)))
    return [*(frozenset([text]) for text in texts if text), *choices]


def _flat(tree: Any) -> Iterator[tuple[Any, Any]]:
    """The nodes of an expression, with those of its plain groups."""
    for node, argument in tree:
        if node is nodes.SUBPATTERN and not argument[1] and not argument[2]:
            yield from _flat(argument[3])
        else:
            yield node, argument


def _shortest(texts: Collection[str]) -> int:
    """The number of bytes of the shortest text."""
    return min(len(text.encode()) for text in texts)


def _refused(pattern: str, error: Exception) -> InvalidInput:
    reason = str(error.args[0], "utf-8", "replace") if error.args else "invalid"
    reason = reason.partition(": (?m)")[0]  # what precedes the pattern when it is compiled
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
