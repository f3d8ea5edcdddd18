"""Which words and names does a question look for? Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, pairwise

from codebase_mcp.text.tokens import (
    ALL_CHUNKS,
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

    A ``spoken`` term is a word of the query; further terms are neighbours written together.
    """

    text: str
    id: int
    spoken: bool


@dataclass(frozen=True, slots=True)
class QueryName:
    """A name that a definition may have; ``strength`` says how likely the query means it."""

    written: str
    folded: str
    strength: float


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed question.

    ``plain`` is the text without polite phrases, for its vector. ``terms`` are for the list of
    words and BM25. ``parts`` are the parts of its words in order, without stop words, for file
    names; ``positions`` gives each part's position in its sentence. ``names`` are for the symbol
    table. ``expected`` are the stems of identifiers in a query of several words: guesses at names
    in the code.
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
        """The term of a query of a single word; None if the query has more words."""
        spoken = [term for term in self.terms if term.spoken]
        is_single = len(self.text.split()) == 1 and len(self.names) == 1
        return spoken[-1].id if is_single and spoken else None


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
        text=text,
        plain=" ".join(plain),
        terms=terms,
        parts=parts,
        positions=positions,
        names=_query_names(content),
        expected=frozenset(expected),
        is_symbol=is_one_word and bool(identifiers),
    )


def looks_like_identifier(word: str) -> bool:
    """Whether a word looks like an identifier: parse_url, parseUrl, HTTPServer, utf8."""
    return "_" in word.strip("_") or len(split_word(word)) > 1


def name_stems(query: Query) -> tuple[str, ...]:
    """The aggressive stems of the query's parts, in order, for comparing with file names."""
    return tuple(aggressive_stem(part) for part in query.parts)


def without_courtesy(text: str) -> str:
    """A question without polite phrases at its start and end, unless it would be empty."""
    return without_opening(without_closing(text))


def without_opening(text: str) -> str:
    """A sentence without a polite opening, unless it would be empty."""
    rest = _POLITE_OPENING.sub("", text, count=1)
    return rest if words_of(rest) else text


def without_closing(text: str) -> str:
    """A text without the thanks at its end, unless it would be empty."""
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
        # Several identifiers are guesses at the same name, and further words describe it.
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


# The numbers of chunks that the rare terms of a query, and its expansion terms, may select. Scoring
# a chunk takes about a microsecond.
RARE_CHUNKS = 2_000
EXPANSION_CHUNKS = 500

# The number of chunks that are scored if every term is common.
COMMON_CHUNKS = 10_000

# A word in more chunks than this is in several texts.
HOLDING_CHUNKS = 100


def inverse_frequencies(terms: Iterable[int], frequencies: Mapping[int, int]) -> dict[int, float]:
    """BM25's inverse document frequency of each term, ln(1 + (N - n + ½) / (n + ½))."""
    total = frequencies.get(ALL_CHUNKS, 0)
    counts = {term: frequencies.get(term, 0) for term in terms}
    return {term: math.log1p((total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def matching_terms(query: Query) -> list[int]:
    """The terms that make a chunk with any of them a match: for a symbol, that symbol."""
    if query.is_symbol and query.whole is not None:
        return [query.whole]
    return [term.id for term in query.terms]


def rare_only_term(query: Query, frequencies: Mapping[int, int]) -> int | None:
    """The term of the query's only word, if it is rare enough to be in a single text."""
    term = query.whole
    return term if term and 0 < frequencies.get(term, 0) <= HOLDING_CHUNKS else None


def rarest_terms(query: Query, frequencies: Mapping[int, int]) -> tuple[list[int], bool]:
    """The terms that select the chunks to score, and whether a chunk must have all of them.

    As many of the rarest terms as select at most `RARE_CHUNKS` chunks together. If even the rarest
    term is in more chunks, the two rarest, of which a chunk must have both.
    """
    present = _by_rarity((term.id for term in query.terms), frequencies)
    if present and frequencies[present[0]] > RARE_CHUNKS:
        return present[:2], True
    return _first_terms(present, frequencies, RARE_CHUNKS, at_least=1), False


def rarest_expansion_terms(expansion: Iterable[int], frequencies: Mapping[int, int]) -> list[int]:
    """The expansion terms that select chunks too: the rarest, none if all are common."""
    present = _by_rarity(expansion, frequencies)
    return _first_terms(present, frequencies, EXPANSION_CHUNKS, at_least=0)


def _by_rarity(terms: Iterable[int], frequencies: Mapping[int, int]) -> list[int]:
    return sorted((t for t in terms if frequencies.get(t)), key=frequencies.__getitem__)


def _first_terms(
    terms: Sequence[int], frequencies: Mapping[int, int], max_chunks: int, *, at_least: int
) -> list[int]:
    """The first terms that are in at most ``max_chunks`` chunks together."""
    totals = accumulate(frequencies[term] for term in terms)
    count = sum(1 for total in totals if total <= max_chunks)
    return list(terms[: max(count, at_least)])
