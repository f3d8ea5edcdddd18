"""Which part of a question is exact text, to be looked up as it stands? Pure.

What has the text comes before everything else.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codebase_mcp.search.query import without_courtesy

# A text in double quotes that stand where a sentence has them, not as in `print("x")`.
_QUOTED = re.compile(r'(?<![^\s(])"([^"]{2,})"(?![^\s).,;:?!])')

# Names, qualified names, calls without arguments and paths: an ordinary question about a symbol or
# a file. So are words with an apostrophe and words in brackets.
_NAME = re.compile(r"[.~]?[\w$'\u2019]+(?:(?:\.|::|->|#|/|\\)[\w$'\u2019]+)*[!?]?(?:\(\))?")
_AROUND = "\"'`()[]{}<>,.;:?!…*"

# A pattern has at most this many characters, and a task may quote many texts.
MAX_PATTERN_CHARS = 1_000

# The name of an environment variable or an error, which is a text as often as a symbol.
_UPPER_CASE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")

# What is replaced in a message: `%s not found`, `Cannot open {path}`.
_PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[-+0-9.]*[sdifgruvxq]\b|%[@s]|\$?\{\w*\}|\{[\w.]*![rsa]\}")
_ASKS = re.compile(
    r"(?i)(?:how|what|where|which|why|when|who|is|are|do|does|should|find|show|list|explain)\b"
)


@dataclass(frozen=True, slots=True)
class ExactText:
    """Text to look up as it stands: any of ``texts``; ``is_whole`` unless words are around it."""

    texts: tuple[str, ...]
    is_whole: bool

    @property
    def pattern(self) -> tuple[str, bool]:
        """A pattern that matches any of the texts, and whether it is a regular expression."""
        if len(self.texts) == 1:
            return self.texts[0], False
        return "|".join(re.escape(text) for text in self.texts), True


def exact_text(question: str) -> ExactText | None:
    """The text in double quotes; else the question if it is a text and no word of a language."""
    quoted = dict.fromkeys(text for text in _QUOTED.findall(question) if not text.isspace())
    is_whole = not re.search(r"\w", _QUOTED.sub("", question))
    # A word in quotes within a sentence is mostly a word of the question.
    texts = [text for text in quoted if is_whole or not text.isalpha()]
    if fitting := fitting_texts(texts):
        return ExactText(fitting, is_whole)
    text = question.strip()
    is_text = len(text) <= MAX_PATTERN_CHARS and _is_text(text)
    return ExactText((text,), is_whole=True) if is_text else None


def fitting_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts that have room together in a pattern, the first ones before others."""
    fitting, size = [], 0
    for text in texts:
        more = len(re.escape(text)) + 1
        if size + more <= MAX_PATTERN_CHARS:
            fitting.append(text)
            size += more
    return tuple(fitting)


def _is_text(text: str) -> bool:
    if len(text.split()) != 1:
        is_question = _ASKS.match(text) or without_courtesy(text) != text
        return _PLACEHOLDER.search(text) is not None and not is_question
    if _UPPER_CASE.fullmatch(text) or (len(text) > 1 and not re.search(r"\w", text)):
        return True
    bare = text.strip(_AROUND)
    has_sign = re.search(r"[!-/:-@\[-^`{-~]", bare)  # not that of a script without spaces
    return len(bare) > 2 and has_sign is not None and not any(map(_NAME.fullmatch, (text, bare)))


@dataclass(frozen=True, slots=True)
class ExactMatches:
    """Where the exact text of a question is.

    ``lines`` are by text id and chunk ordinal, of the texts that are worth ranking. ``line_count``
    and ``file_count`` are of all files; None if not all files were searched.
    """

    text: ExactText
    lines: Mapping[int, Mapping[int, Sequence[int]]]
    line_count: int | None = None
    file_count: int | None = None

    @property
    def chunk_count(self) -> int:
        """The number of chunks with the text, among those worth ranking."""
        return sum(map(len, self.lines.values()))


LookUp = Callable[[Collection[int]], Awaitable[ExactMatches]]
"""Finds an exact text. Given the ids of the candidate texts, which are searched in any case."""
