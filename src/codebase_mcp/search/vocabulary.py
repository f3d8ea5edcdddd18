"""Which words does a code base use, which are similar, and which are misspelt? Pure.

The words are the parts of the names of symbols, files and directories. A word that is a token of
the model is compared by meaning. A word that the model splits into pieces is a typing error, an
abbreviation, or rare. By meaning it would be near to every word that shares a piece, so it is
compared by its letters first.

A typing error omits, adds or replaces a letter, or swaps two neighbours. A word that is in no
chunk, and is no English word either, is compared with all spellings at one edit from it. The index
has words only as numbers, so a statement counts all these spellings, some hundreds. If the words
themselves are available, spellings at two edits are compared too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import chain, islice
from operator import or_
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.embedding.embedder import Passages, Vectors
from codebase_mcp.embedding.profile import Scale
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.search.query import Query
from codebase_mcp.text.counting import Lexicon
from codebase_mcp.text.tokens import (
    MAX_WORD_CHARS,
    STOP_WORDS,
    path_parts,
    split_word,
    stem,
    term_id,
    words_of,
)

# The number of the most frequent words that are compared by meaning. Most projects have fewer. A
# vector takes half a kilobyte, and the rarest names of a large project are seldom words.
MAX_VECTORS = 5_000
_LEAST_CHARS = 3

# The number of similar words that are suggested for a word.
NEAR_WORDS = 5

# The least cosine of similar words, on the built-in model's scale. Half of a hundred pairs of
# synonyms reach it, and 0.01 % of pairs of unrelated words. The vector of a word in pieces is less
# exact, so it must be nearer.
LEAST_COSINE = 0.4
LEAST_COSINE_IN_PIECES = 0.45
_MOST_NEAREST = 30

# The least mean length of a word's pieces: a word that the model splits into single letters, such
# as a word in a foreign script, has no useful vector.
_LEAST_PIECE_CHARS = 2

# An abbreviation is a prefix of a word. The least length of a suggested abbreviation, the least
# length of a word that counts as an abbreviation, and the number of longer words suggested for it.
_LEAST_ABBREVIATION = 4
_LEAST_PREFIX = 3
_MOST_LONGER = 3


@dataclass(frozen=True, slots=True)
class NearWords:
    """The words of a code base that are similar to a word of a question, the most similar first.

    ``spelled`` differ from it by a typing error; ``others`` are near in meaning or begin alike.
    """

    word: str
    spelled: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """All similar words, the most likely first."""
        return (*self.spelled, *self.others)


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words of a code base, the most frequent first, and the vectors of the first of them.

    ``letters`` is the set of letters of each word, as bits, which excludes most words from the
    comparison of spellings.
    """

    words: tuple[str, ...]
    positions: dict[str, int]
    lengths: NDArray[np.int16]
    letters: NDArray[np.uint64]
    vectors: NDArray[np.float16]

    @classmethod
    def of(cls, names: Iterable[str], paths: Iterable[str], model: StaticEmbedder) -> Vocabulary:
        """The words of these names of symbols, each given once, and of these paths of files."""
        parts = [path_parts(path) for path in paths]
        counts = Counter(chain.from_iterable(map(split_word, names)))
        counts.update(chain.from_iterable(names_of for names_of, _ in parts))
        counts.update({folder for _, folders in parts for folder in folders})
        words = tuple(word for word, _ in counts.most_common() if _is_word(word))
        with_vectors = words[:MAX_VECTORS]
        return cls(
            words,
            {word: position for position, word in enumerate(words)},
            np.fromiter(map(len, words), np.int16, len(words)),
            np.fromiter(map(_letters, words), np.uint64, len(words)),
            model.encode_passages(Passages(with_vectors, Lexicon().bags(with_vectors))).astype(
                np.float16
            ),
        )

    def spelled_like(self, word: str) -> list[str]:
        """The words within two edits of a word, ordered by edits and then by frequency."""
        allowed = max_edits(word)
        if allowed == 0:
            return []
        other_letters = np.bitwise_count(self.letters ^ np.uint64(_letters(word)))
        alike = (np.abs(self.lengths - len(word)) <= allowed) & (other_letters <= 2 * allowed)
        similar = []
        for position in np.flatnonzero(alike).tolist():
            similar_word = self.words[position]
            # The first letter is hardly ever wrong.
            if similar_word[0] == word[0]:
                similar.append((edit_distance(word, similar_word), position))
        return [self.words[at] for edits, at in sorted(similar) if 0 < edits <= allowed]

    def beginning_like(self, word: str) -> list[str]:
        """The abbreviations of a word, and the words that it abbreviates."""
        ends = range(len(word) - 1, _LEAST_ABBREVIATION - 1, -1)
        shorter = [word[:end] for end in ends if word[:end] in self.positions]
        if len(word) < _LEAST_PREFIX:
            return shorter
        longer = (w for w in self.words if w.startswith(word) and w != word)
        return [*shorter, *islice(longer, _MOST_LONGER)]

    def meaning_like(self, vector: Vectors, least: float, scale: Scale) -> list[str]:
        """The words with at least this cosine, on the built-in model's scale; nearest first."""
        cosines = self.vectors.astype(np.float32) @ vector
        nearest = np.argsort(-cosines)[:_MOST_NEAREST].tolist()
        return [self.words[i] for i in nearest if scale.apply(float(cosines[i])) >= least]

    def is_misspelt(self, word: str, model: StaticEmbedder) -> bool:
        """Whether a word is probably a typing error for a more frequent word of this code."""
        if model.knows(word):
            return False
        position = self.positions[word]
        commoner = (w for w in self.spelled_like(word) if self.positions[w] < position)
        return any(edit_distance(word, w) == 1 and stem(word) != stem(w) for w in commoner)


def near_words(
    vocabulary: Vocabulary, words: Mapping[str, bool], model: StaticEmbedder, scale: Scale
) -> tuple[NearWords, ...]:
    """The words of the code base that are similar to given words; without words that have none.

    ``words`` says of each whether the code base lacks it: only then it may be a typing error.
    """
    similar = (
        _near(vocabulary, word, model, scale, is_missing=is_missing)
        for word, is_missing in words.items()
        if _is_word(word)
    )
    return tuple(near for near in similar if near.all)


def _near(
    vocabulary: Vocabulary, word: str, model: StaticEmbedder, scale: Scale, *, is_missing: bool
) -> NearWords:
    stems = {stem(word)}
    by_meaning = _near_in_meaning(vocabulary, word, model, scale)

    def distinct(words: Iterable[str], most: int) -> tuple[str, ...]:
        correct = (w for w in words if not vocabulary.is_misspelt(w, model))
        return tuple(islice(_new(correct, set(stems)), most))

    if not is_missing or model.knows(word):
        return NearWords(word, (), distinct(by_meaning, NEAR_WORDS))
    spelled = distinct(vocabulary.spelled_like(word), NEAR_WORDS)
    begun = [] if spelled else vocabulary.beginning_like(word)
    stems.update(map(stem, spelled))
    return NearWords(word, spelled, distinct([*begun, *by_meaning], NEAR_WORDS - len(spelled)))


def _near_in_meaning(
    vocabulary: Vocabulary, word: str, model: StaticEmbedder, scale: Scale
) -> list[str]:
    """The words near in meaning; for a word in pieces only those without a common piece."""
    pieces = model.token_ids(word)
    if not 0 < len(pieces) * _LEAST_PIECE_CHARS <= len(word):
        return []
    vector = model.encode_query(word)
    if model.knows(word):
        return vocabulary.meaning_like(vector, LEAST_COSINE, scale)
    near = vocabulary.meaning_like(vector, LEAST_COSINE_IN_PIECES, scale)
    return [w for w in near if set(pieces).isdisjoint(model.token_ids(w))]


def _new(words: Iterable[str], stems: set[str]) -> Iterator[str]:
    """The words with new stems, which are added to ``stems``."""
    for word in words:
        if stem(word) not in stems:
            stems.add(stem(word))
            yield word


def _is_word(text: str) -> bool:
    return _LEAST_CHARS <= len(text) <= MAX_WORD_CHARS and not text.isdecimal()


def _letters(word: str) -> int:
    """The letters of a word as a set of bits."""
    return reduce(or_, (1 << (ord(letter) & 63) for letter in word), 0)


# The least lengths of words that are corrected by one edit and by two edits: shorter words have too
# many neighbours.
ONE_EDIT_FROM = 5
TWO_EDITS_FROM = 7

# A spelling in a single chunk may be a typing error itself.
MIN_CHUNKS = 2

_PLAIN = re.compile(r"[A-Za-z]+")


def doubtful_words(
    query: Query, frequencies: Mapping[int, int], is_word: Callable[[str], bool]
) -> list[str]:
    """The words, in lower case, that are in no chunk and not ``is_word``."""
    words = dict.fromkeys(word.lower() for word in words_of(query.plain) if _is_plain(word))
    return [
        word
        for word in words
        if len(word) >= ONE_EDIT_FROM
        and word not in STOP_WORDS
        and not frequencies.get(term_id(stem(word)))
        and not is_word(word)
        and not is_word(stem(word))
    ]


def spellings(word: str) -> dict[int, str]:
    """The words at one edit from a word, by the number of their stem; the shortest of each stem.

    The edits are Damerau's four ("A technique for computer detection and correction of spelling
    errors", 1964), after the first letter, which is hardly ever wrong.
    """
    by_stem: dict[int, str] = {}
    for spelling in sorted(_one_edit_away(word), key=lambda spelling: (len(spelling), spelling)):
        by_stem.setdefault(term_id(stem(spelling)), spelling)
    return by_stem


def likeliest(word: str, frequencies: Mapping[int, int]) -> str | None:
    """The most frequent spelling, None if all are rare.

    ``frequencies`` gives the number of chunks with each stem of the word's `spellings`.
    """
    counted = ((frequencies.get(term, 0), spelling) for term, spelling in spellings(word).items())
    chunks, spelling = max(counted, default=(0, ""))
    return spelling if chunks >= MIN_CHUNKS else None


def replace_words(text: str, replacements: Mapping[str, str]) -> str:
    """A text with some words, given in lower case, replaced; capitals are kept."""
    if not replacements:
        return text
    words = "|".join(sorted(map(re.escape, replacements), key=len, reverse=True))
    return re.sub(
        words,
        lambda match: _with_case_of(match[0], replacements[match[0].lower()]),
        text,
        flags=re.IGNORECASE,
    )


def max_edits(word: str) -> int:
    """The number of edits by which a word of this length may be corrected."""
    return (len(word) >= ONE_EDIT_FROM) + (len(word) >= TWO_EDITS_FROM)


def edit_distance(first: str, second: str) -> int:
    """The optimal string alignment distance: omitted, added, replaced and swapped letters.

    It takes len(first) * len(second) steps.
    """
    before: list[int] = []
    above = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        row = [i]
        for j, compared in enumerate(second, 1):
            least = min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != compared))
            if i > 1 and j > 1 and letter == second[j - 2] and compared == first[i - 2]:
                least = min(least, before[j - 2] + 1)
            row.append(least)
        before, above = above, row
    return above[-1]


def _with_case_of(before: str, word: str) -> str:
    if before.isupper():
        return word.upper()
    return word.capitalize() if before[0].isupper() else word


def _is_plain(word: str) -> bool:
    return _PLAIN.fullmatch(word) is not None and len(split_word(word)) == 1


def _one_edit_away(word: str) -> set[str]:
    cuts = [(word[:at], word[at:]) for at in range(1, len(word) + 1)]
    missing = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1}
    replaced = {
        head + letter + tail[1:] for head, tail in cuts if tail for letter in ascii_lowercase
    }
    added = {head + letter + tail for head, tail in cuts for letter in ascii_lowercase}
    return (missing | swapped | replaced | added) - {word}
