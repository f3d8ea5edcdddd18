"""What does this question ask for? Pure: text in, the words and names to look for out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

from codebase_mcp.text.tokens import (
    MAX_WORD_CHARS,
    STOP_WORDS,
    aggressive_stem,
    fold,
    split_word,
    stem,
    term_id,
    word_stems,
    words_of,
)

# Polite openings of a question; at the start of a sentence they say nothing about the code.
_POLITE_OPENING = re.compile(
    r"""^\s*
    (?:(?:please|hi|hey|hello|ok|okay|sorry)\b[\s,]*)*
    (?:(?:can|could|would|will)\s+you\s+(?:please\s+|mind\s+)?)?
    (?:help(?:ing)?\s+me\s+(?:to\s+)?(?:(?:find|locate|see|understand)\s+)?)?
    (?:i(?:'m|\s+am|'d|\s+would)?\s+(?:want|need|like|trying|looking)\s+(?:to\s+|for\s+)?)?
    (?:(?:find|show|locate|get|give|tell|explain|see|know|list|understand)(?:t?ing)?\s+
       (?=(?:me|us|to|the|all|where|how|what|which|code|any)\b)(?:(?:to\s+)?(?:me|us)\s+)?(?:about\s+)?
      |(?:search|look)(?:ing)?\s+(?:for|at|up)\s+)?
    (?:(?:where|what|which|how)\s+(?:(?:is|are|does|do|can|in|would|could)\s+(?:(?:i|we)\s+find\s+)?)?)?
    (?:(?:all|the|a|an|any|some|this|that)\s+)*
    (?:(?:code|function|method|class|place|file|part|logic|implementation|snippet|module)s?\s+
       (?:(?:that|which|who|where|to|for|we|it|is|are|does|do|handles?|implements?|responsible|used
          |deals?|with)
          \s+)+)?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_POLITE_CLOSING = re.compile(
    r"[\s,.!?]*\b(?:please|thanks?(?:\s+you)?(?:\s+(?:very\s+much|so\s+much|a\s+lot|in\s+advance))?)"
    r"[\s.!?]*$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A stem to look for in the text of chunks; ``id`` is its number in the index.

    A ``spoken`` term is a word of the query itself; the others are neighbours written together.
    """

    text: str
    id: int
    spoken: bool


@dataclass(frozen=True, slots=True)
class QueryName:
    """A name that may be defined somewhere; ``strength`` says how surely the query means it."""

    written: str
    folded: str
    strength: float


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed question.

    ``plain`` is the text without polite phrases, for its vector. ``terms`` are for the list of
    words and BM25. ``parts`` are the parts of its words in order, without stop words, for file
    names; ``positions`` gives each part's position in its sentence. ``names`` are for the symbol
    table. ``expected`` are the stems of the identifiers that the query names beside other words:
    guesses at what the code calls it.
    """

    text: str
    plain: str
    terms: tuple[QueryTerm, ...]
    parts: tuple[str, ...]
    positions: tuple[int, ...]
    names: tuple[QueryName, ...]
    expected: frozenset[str]
    is_symbol: bool

    @property
    def whole(self) -> int | None:
        """The term of the one word that the query is; None where it is more."""
        spoken = [term for term in self.terms if term.spoken]
        is_one = len(self.text.split()) == 1 and len(self.names) == 1
        return spoken[-1].id if is_one and spoken else None


# Strength of a name that is the whole query, that looks like an identifier, that is a plain word.
WHOLE_QUERY = 1.5
IDENTIFIER = 1.0
PLAIN_WORD = 0.3


@lru_cache(maxsize=1_000)
def parse_query(text: str) -> Query:
    """Parse a question; no text is invalid."""
    plain = [without_opening(part) for part in _SENTENCE_END.split(without_closing(text))]
    sentences = [
        [word for word in words_of(sentence) if len(word) <= MAX_WORD_CHARS] for sentence in plain
    ]
    content_of = [[word for word in s if word.lower() not in STOP_WORDS] for s in sentences]
    if not any(content_of):
        content_of = sentences
    words = [word for sentence in sentences for word in sentence]
    content = [word for sentence in content_of for word in sentence]
    spoken = dict.fromkeys(s for word in content for s in word_stems(word))
    joined = dict.fromkeys(s for s in _joined_stems(content) if s not in spoken)
    terms = tuple(QueryTerm(s, term_id(s), s in spoken) for s in [*spoken, *joined])
    parts_of = [[part for word in sentence for part in split_word(word)] for sentence in content_of]
    parts = tuple(part for sentence in parts_of for part in sentence)
    positions = tuple(position for sentence in parts_of for position in range(len(sentence)))
    identifiers = [word for word in words if looks_like_identifier(word)]
    is_one_word = len(text.split()) == 1
    expected = () if is_one_word else chain.from_iterable(map(word_stems, identifiers))
    return Query(
        text,
        " ".join(plain),
        terms,
        parts,
        positions,
        _query_names(content),
        frozenset(expected),
        is_symbol=is_one_word and bool(identifiers),
    )


def looks_like_identifier(word: str) -> bool:
    """Whether a word looks like an identifier: parse_url, parseUrl, HTTPServer, utf8."""
    return "_" in word.strip("_") or len(split_word(word)) > 1


def name_stems(query: Query) -> tuple[str, ...]:
    """The harsh stems of the query's parts, in order, for comparing with file names."""
    return tuple(aggressive_stem(part) for part in query.parts)


def without_courtesy(text: str) -> str:
    """A question without polite phrases at its start and end, unless there is nothing else."""
    return without_opening(without_closing(text))


def without_opening(text: str) -> str:
    """A sentence without a polite opening, unless there is nothing else."""
    rest = _POLITE_OPENING.sub("", text, count=1)
    return rest if words_of(rest) else text


def without_closing(text: str) -> str:
    """A text without the thanks at its end, unless there is nothing else."""
    rest = _POLITE_CLOSING.sub("", text)
    return rest if words_of(rest) else text


def _joined_stems(words: list[str]) -> list[str]:
    """Neighbours written together, as code would: "form parser" → formparser."""
    return [
        stem((first + second).lower())
        for first, second in pairwise(words)
        if first.isalpha() and second.isalpha()
    ]


def _query_names(words: list[str]) -> tuple[QueryName, ...]:
    names: dict[str, QueryName] = {}
    if len(words) > 1:
        _add_name(names, "".join(words), WHOLE_QUERY if len(words) < 5 else IDENTIFIER)
    identifiers = dict.fromkeys(word for word in words if looks_like_identifier(word))
    if len(words) > 1 and identifiers:
        # Several are guesses at the name of the same thing, and words beside them describe it.
        for word in identifiers:
            _add_name(names, word, IDENTIFIER / len(identifiers))
        return tuple(names.values())
    for word in words:
        _add_name(names, word, WHOLE_QUERY if len(words) == 1 else PLAIN_WORD)
    for first, second in pairwise(words):
        _add_name(names, first + second, IDENTIFIER)
    return tuple(names.values())


def _add_name(names: dict[str, QueryName], written: str, strength: float) -> None:
    folded = fold(written)
    if folded and (folded not in names or names[folded].strength < strength):
        names[folded] = QueryName(written, folded, strength)
