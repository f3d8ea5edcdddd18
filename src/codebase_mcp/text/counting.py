"""How often does each word occur in each of these texts, and each term or token of the words?

Vectorised with numpy over many texts. A text is split into *runs* of bytes that are ASCII word
characters or outside ASCII. A run of ASCII alone is a word; the words in any further run are
extracted once. A run is identified by a 64-bit hash, so known runs need no string. Among 400,000
runs the chance of a collision is below 10⁻⁸ (birthday bound, n² / 2⁶⁵).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.text.tokens import MAX_WORD_CHARS, WORD, word_terms

Numbers = NDArray[np.int64]
_Hashes = NDArray[np.uint64]
_Flags = NDArray[np.bool_]


def _word_bytes() -> _Flags:
    flags = np.zeros(256, np.bool_)
    flags[[byte for byte in range(128) if WORD.match(chr(byte))]] = True
    flags[128:] = True  # a byte of a character outside ASCII
    return flags


_IS_WORD = _word_bytes()
# Masks that keep the first n of eight bytes, read as a little-endian number.
_FIRST_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
# From the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
# generators", 2014).
_MIX_FACTOR, _MIX_SHIFT = np.uint64(0xBF58476D1CE4E5B9), np.uint64(29)

# Longer runs are rare: those outside ASCII are handled singly, those of ASCII are not words.
_HASHED_BYTES = 64


# The numbers of a text and an item (run, term or token) are packed into a sortable number.
_ITEM_BITS = 30


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each item occurs in each text, in compressed sparse rows (CSR).

    Text ``i`` has ``items[starts[i]:starts[i + 1]]`` (ascending) with the same slice of ``counts``;
    the last entry of ``starts`` is the end of the last text.
    """

    starts: Numbers
    items: Numbers
    counts: Numbers

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True)
class WordBags:
    """Bags of words: the runs of some texts as numbers of a lexicon, with their counts."""

    lexicon: Lexicon
    runs: Counts

    def __len__(self) -> int:
        return len(self.runs)


class Lexicon:
    """Numbers runs in order of first occurrence. The word tables of a process share it."""

    def __init__(self) -> None:
        self._in_order: list[str] = []
        self._hashes = np.empty(0, np.uint64)  # ascending
        self._numbers = np.empty(0, np.int64)  # the run of the hash at the same index
        self._long: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._in_order)

    def bags(self, texts: Sequence[str]) -> WordBags:
        """Count the runs of each text."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)
        # Padded, as hashing reads eight bytes at once.
        data = b"\n".join([*encoded, bytes(8)])
        starts, lengths = _runs(data)
        is_short = lengths <= _HASHED_BYTES
        short = starts[is_short]
        numbers = self._numbered(data, short, lengths[is_short])
        if len(short) < len(starts):
            is_long = ~is_short
            at, of_long = self._numbered_long(data, starts[is_long], lengths[is_long])
            short, numbers = np.append(short, at), np.append(numbers, of_long)
        keys = (np.searchsorted(ends, short, "right") << _ITEM_BITS) | numbers
        keys.sort()
        firsts = _firsts(keys)
        counts = np.diff(firsts, append=len(keys))
        return WordBags(self, _by_text(keys[firsts], counts, len(texts)))

    def words_from(self, first: int) -> list[Sequence[str]]:
        """The words of each run from number ``first`` on."""
        return [
            (run,) if run.isascii() else [w for w in WORD.findall(run) if len(w) <= MAX_WORD_CHARS]
            for run in self._in_order[first:]
        ]

    def _numbered(self, data: bytes, starts: Numbers, lengths: Numbers) -> Numbers:
        """The number of each run; new runs are added."""
        hashes = _hashed(data, starts, lengths)
        order = np.argsort(hashes)
        firsts = _firsts(hashes[order])
        distinct = hashes[order[firsts]]
        places = np.searchsorted(self._hashes, distinct)
        is_new = np.ones(len(distinct), np.bool_)
        inside = places < len(self._hashes)
        is_new[inside] = self._hashes[places[inside]] != distinct[inside]
        numbers = np.empty(len(distinct), np.int64)
        numbers[~is_new] = self._numbers[places[~is_new]]
        at = order[firsts[is_new]]
        numbers[is_new] = np.arange(len(self), len(self) + len(at))
        if len(at):
            self._in_order += _texts_at(data, starts[at], lengths[at])
            self._hashes = np.insert(self._hashes, places[is_new], distinct[is_new])
            self._numbers = np.insert(self._numbers, places[is_new], numbers[is_new])
        of_runs = np.empty(len(hashes), np.int64)
        of_runs[order] = np.repeat(numbers, np.diff(firsts, append=len(hashes)))
        return of_runs

    def _numbered_long(
        self, data: bytes, starts: Numbers, lengths: Numbers
    ) -> tuple[Numbers, Numbers]:
        """The start and number of each long run that may contain words."""
        kept, numbers = [], []
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            run = data[start : start + length]
            if run.isascii():
                continue
            number = self._long.setdefault(run, len(self))
            if number == len(self):
                self._in_order.append(run.decode("utf-8", "surrogatepass"))
            kept.append(start)
            numbers.append(number)
        return np.asarray(kept, np.int64), np.asarray(numbers, np.int64)


class WordTable:
    """The items of every word seen so far; each word is converted once.

    ``items_of`` converts a word to its items: terms, or tokens of a model. The items are kept as
    long as the lexicon of the words. Threads may share a table, but not a lexicon.
    """

    def __init__(self, items_of: Callable[[str], Iterable[int]]) -> None:
        self._items_of = items_of
        self._items: WeakKeyDictionary[Lexicon, Ragged] = WeakKeyDictionary()

    def count(self, bags: WordBags) -> Counts:
        """Count the items of each text from the counts of its runs."""
        converted = self._items.setdefault(bags.lexicon, Ragged())
        new = bags.lexicon.words_from(len(converted))
        converted.extend([list(chain.from_iterable(map(self._items_of, words))) for words in new])
        runs = bags.runs
        items, lengths = converted.gather(runs.items)
        texts = np.repeat(np.arange(len(runs)) << _ITEM_BITS, np.diff(runs.starts))
        keys = np.repeat(texts, lengths) | items
        order = np.argsort(keys)
        keys, counts = keys[order], np.repeat(runs.counts, lengths)[order]
        firsts = _firsts(keys)
        summed = np.add.reduceat(counts, firsts) if len(firsts) else counts
        return _by_text(keys[firsts], summed, len(runs))


class Ragged:
    """A growing list of short integer lists in a flat array, so that numpy can gather many."""

    def __init__(self) -> None:
        self._flat = np.empty(0, np.int64)
        self._starts = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def extend(self, lists: Sequence[Sequence[int]]) -> None:
        """Append some lists."""
        if not lists:
            return
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        items = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
        self._flat = np.append(self._flat, items)
        self._starts = np.append(self._starts, self._starts[-1] + np.cumsum(lengths))

    def gather(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """The concatenated items of some rows, and the length of each row."""
        first = self._starts[rows]
        lengths = self._starts[rows + 1] - first
        ends = np.cumsum(lengths)
        shifts = np.repeat(first - ends + lengths, lengths)
        return self._flat[shifts + np.arange(len(shifts))], lengths


def term_table() -> WordTable:
    """A table that converts words to terms of the word index."""
    return WordTable(word_terms)


def _runs(data: bytes) -> tuple[Numbers, Numbers]:
    """The start and length of each run in some bytes; the last byte is not part of a run."""
    is_word = _IS_WORD[np.frombuffer(data, np.uint8)]
    edges = np.flatnonzero(is_word[1:] != is_word[:-1]) + 1
    if is_word[0]:
        edges = np.append(0, edges)
    return edges[::2], edges[1::2] - edges[::2]


def _hashed(data: bytes, starts: Numbers, lengths: Numbers) -> _Hashes:
    """A hash of each run, without collisions among runs of up to eight bytes."""
    eights: _Hashes = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    hashes = _mixed(eights[starts] & _FIRST_BYTES[np.minimum(lengths, 8)])
    longer, done = np.flatnonzero(lengths > 8), 8
    while len(longer):
        left = lengths[longer] - done
        more = eights[starts[longer] + done] & _FIRST_BYTES[np.minimum(left, 8)]
        hashes[longer] = _mixed(hashes[longer] ^ more)
        longer, done = longer[left > 8], done + 8
    return hashes


def _mixed(hashes: _Hashes) -> _Hashes:
    for _ in range(2):
        hashes = hashes * _MIX_FACTOR
        hashes ^= hashes >> _MIX_SHIFT
    return hashes


def _texts_at(data: bytes, starts: Numbers, lengths: Numbers) -> list[str]:
    ends = (starts + lengths).tolist()
    return [
        data[start:end].decode("utf-8", "surrogatepass")
        for start, end in zip(starts.tolist(), ends, strict=True)
    ]


def _by_text(keys: Numbers, counts: Numbers, size: int) -> Counts:
    """The counts of ``size`` texts, from ascending packed keys of a text and an item."""
    starts = np.searchsorted(keys, np.arange(size + 1) << _ITEM_BITS)
    return Counts(starts, keys & ((1 << _ITEM_BITS) - 1), counts)


def _firsts(ascending: NDArray[np.int64] | _Hashes) -> Numbers:
    """The first index of each distinct value."""
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)
