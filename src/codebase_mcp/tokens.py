"""What are the words of this text, and what do they become in the index?

One splitter serves indexing and querying, words and vectors alike, so that both sides always agree.
A *word* is a run of word characters as written (``parseHTTPHeader``, ``max_retries``); its *parts*
are what camelCase, snake_case and digits separate, in lower case; a *term* is what the word index
stores: the stem of each part and of the whole identifier, as a stable number.

``TOKENS_VERSION`` is part of an index's profile: raise it when any output below changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from weakref import WeakKeyDictionary

import numpy as np
import Stemmer
from numpy.typing import NDArray

TOKENS_VERSION = 1

# pgvector's sparsevec has at most this many dimensions, so terms are numbers below it.
TERM_SPACE = 1_000_000_000

# No term: under this number the frequencies count the chunks themselves.
ALL_CHUNKS = -1

# Longer runs are encoded data, not words anybody asks for.
MAX_WORD_CHARS = 64

WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PART_BEYOND_ASCII = re.compile(r"[^\W\d_]+|\d+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{3,}")

# Words of English questions that say nothing about the code they ask for.
STOP_WORDS = frozenset(
    """a about all also an and any are as at be because been being both but by can could did do
    does done each for from had has have how i if in into is it its just like me more most my no
    not of on one only or other our out over so some such than that the their them then there these
    they this those through to under until up us used uses using very was we were what when where
    which while who why will with within without would you your""".split()
)

# Endings that turn a stem into the name of its actor or its act; for file names only, where
# "router", "routing" and "route" name one thing. Longest first.
_HARSH_ENDINGS = (
    "ations", "ation", "ments", "ment", "ables", "able", "ibles", "ible", "ings", "ing", "ions",
    "ion", "izer", "iser", "ers", "ors", "er", "or", "ed", "es", "e", "s", "y",
)  # fmt: skip

_stem_word: Callable[[str], str] = Stemmer.Stemmer("english").stemWord


@lru_cache(maxsize=200_000)
def stem(part: str) -> str:
    """The Snowball (English) stem of one lower-case part."""
    return _stem_word(part)


@lru_cache(maxsize=50_000)
def harsh_stem(part: str) -> str:
    """A shorter stem than `stem`'s, which joins actor and act: router, routing, routes."""
    for ending in _HARSH_ENDINGS:
        if part.endswith(ending) and len(part) - len(ending) >= 3:
            bare = part[: -len(ending)]
            # "mapper" and "mapping" leave a doubled consonant that "map" has not.
            return bare[:-1] if bare[-1] == bare[-2] and bare[-1] not in "aeiousl" else bare
    return part


@lru_cache(maxsize=200_000)
def split_word(word: str) -> tuple[str, ...]:
    """The parts of a word in lower case: ``parseHTTPHeader2`` gives parse, http, header, 2."""
    parts = []
    for part in (_PART if word.isascii() else _PART_BEYOND_ASCII).findall(word):
        if _WIDE.search(part):  # no spaces between words there: pairs of characters stand in
            parts += [part[i : i + 2] for i in range(len(part) - 1)]
        else:
            parts.append(part.lower())
    return tuple(parts)


@lru_cache(maxsize=200_000)
def word_stems(word: str) -> tuple[str, ...]:
    """What the word index keeps of a word: its parts' stems and, of a compound, the whole's."""
    parts = split_word(word)
    stems = [stem(part) for part in parts if len(part) > 1]
    if len(parts) > 1:
        stems.append(stem("".join(parts)))
    return tuple(stems)


@lru_cache(maxsize=400_000)
def term_id(text: str) -> int:
    """A stable number below `TERM_SPACE` for a stem; two stems share one once in 10⁹ pairs."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % TERM_SPACE


def fold(name: str) -> str:
    """A name without regard to case and underscores: form_parser, FormParser → formparser."""
    return name.replace("_", "").casefold()


def words_of(text: str) -> list[str]:
    """The words of a text in order, as written."""
    return WORD.findall(text)


def path_parts(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of a path's stem, and of its directories: ``src/http/url_map.py`` → url, map."""
    *directories, name = path.split("/")
    bare = name.lstrip(".").split(".", 1)[0]
    folders = tuple(part for folder in directories for part in split_word(folder))
    return split_word(bare), folders


class Ragged:
    """A growing list of small integer lists, kept flat so that numpy can gather many at once."""

    def __init__(self) -> None:
        self._flat: list[int] = []
        self._starts: list[int] = [0]
        self._flat_array = np.empty(0, np.int64)
        self._starts_array = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def append(self, items: Iterable[int]) -> None:
        self._flat.extend(items)
        self._starts.append(len(self._flat))

    def gather(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The items of ``rows`` one after the other, and how many each row has."""
        if len(self._starts_array) != len(self._starts):
            self._flat_array = np.asarray(self._flat, np.int64)
            self._starts_array = np.asarray(self._starts, np.int64)
        first = self._starts_array[rows]
        lengths = self._starts_array[rows + 1] - first
        ends = np.cumsum(lengths)
        offsets = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return self._flat_array[np.repeat(first, lengths) + offsets], lengths


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each item occurs in each text, as compressed rows.

    Text ``i`` holds ``items[starts[i]:starts[i + 1]]`` (ascending) with the same slice of
    ``counts``; ``starts`` has one entry more than there are texts.
    """

    starts: NDArray[np.int64]
    items: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


class WordTable:
    """Every word met so far, with what it becomes: looked at once, looked up ever after.

    ``become`` gives the items (terms, or tokens of a model) of one word. What is known of a
    lexicon's words lasts as long as the lexicon. Threads may share a table, but not a lexicon.
    """

    def __init__(self, become: Callable[[str], Iterable[int]]) -> None:
        self._become = become
        self._items: WeakKeyDictionary[Lexicon, Ragged] = WeakKeyDictionary()

    def count(self, bags: WordBags) -> Counts:
        """Count the items of each text from the count of its words."""
        known = self._items.setdefault(bags.lexicon, Ragged())
        for word in bags.lexicon.words_from(len(known)):
            known.append(self._become(word) if len(word) <= MAX_WORD_CHARS else ())
        items, lengths = known.gather(bags.words)
        texts = np.repeat(np.arange(len(bags)), np.diff(bags.starts))
        return _sum_by_text(
            np.repeat(texts, lengths), items, np.repeat(bags.counts, lengths), len(bags)
        )


class Lexicon:
    """Numbers words in the order in which they are met; shared by the tables of one process."""

    def __init__(self) -> None:
        self._numbers = _Numbering()

    def __len__(self) -> int:
        return len(self._numbers)

    def bags(self, texts: Sequence[str]) -> WordBags:
        """Count the words of each text."""
        starts = [0]
        words: list[int] = []
        counts: list[int] = []
        number = self._numbers.__getitem__
        for text in texts:
            bag = Counter(WORD.findall(text))
            words += map(number, bag)
            counts += bag.values()
            starts.append(len(words))
        return WordBags(
            self,
            np.asarray(starts, np.int64),
            np.asarray(words, np.int64),
            np.asarray(counts, np.int64),
        )

    def words_from(self, first: int) -> list[str]:
        """The words numbered ``first`` and up."""
        return self._numbers.in_order[first:]


class _Numbering(dict[str, int]):
    """A dictionary that gives each new key the next number."""

    def __init__(self) -> None:
        super().__init__()
        self.in_order: list[str] = []

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self.in_order)
        self.in_order.append(word)
        return number


@dataclass(frozen=True, slots=True)
class WordBags:
    """The words of some texts and how often each occurs, as compressed rows of a lexicon."""

    lexicon: Lexicon
    starts: NDArray[np.int64]
    words: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


def term_table() -> WordTable:
    """A table that turns words into the terms of the word index."""
    return WordTable(lambda word: [term_id(part) for part in word_stems(word)])


def _sum_by_text(
    texts: NDArray[np.int64], items: NDArray[np.int64], counts: NDArray[np.int64], size: int
) -> Counts:
    """Add up equal items of equal texts; both fit into one sortable number."""
    keys = (texts << 30) | items
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    summed = np.add.reduceat(counts[order], firsts) if len(firsts) else counts[:0]
    keys = keys[firsts]
    starts = np.searchsorted(keys, np.arange(size + 1) << 30)
    return Counts(starts.astype(np.int64), keys & ((1 << 30) - 1), summed)
