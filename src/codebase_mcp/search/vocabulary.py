"""Which words does this code base use, and which of them are near to this one? Pure.

The words are the parts of what the code names: symbols, files, directories. A word that the model
knows is compared by meaning. One that it has to put together from pieces is a slip of the keyboard,
an abbreviation, or rare: by meaning it would be near to whatever shares a piece, so it is compared
by its letters first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.counting import Lexicon
from codebase_mcp.embedding.embedder import Passages, Vectors
from codebase_mcp.embedding.scale import Scale
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.search.spelling import slips_allowed, slips_between
from codebase_mcp.tokens import MAX_WORD_CHARS, path_parts, split_word, stem

# Most projects have fewer words. Beyond, only the most frequent ones are near in meaning to any:
# vectors take half a kilobyte each, and what is named once in a large project is seldom a word.
MOST_MEANT = 5_000
_LEAST_CHARS = 3

# So many near words are offered for each.
NEAR_WORDS = 5

# Less alike in meaning than this, on the built-in model's scale, and a word is no other word for
# it. Of a hundred pairs of words that mean much the same, half are as near; of pairs that have
# nothing to do with each other, one in 10,000. What the model puts together from pieces is vague.
LEAST_ALIKE = 0.4
LEAST_ALIKE_IN_PIECES = 0.45
_LOOKED_AT = 30

# A word that is read letter by letter, as those of other scripts are, says nothing to the model.
_LEAST_PIECE = 2

# An abbreviation begins as the word does, and is at least so long; so is what one may stand for.
_LEAST_SHORT = 4
_LEAST_BEGUN = 3
_MOST_BEGUN = 3


@dataclass(frozen=True, slots=True)
class NearWords:
    """The words of a code base that are near to one that was asked for.

    ``spelled`` are those that a slip of the keyboard tells from it, the others are near in meaning
    or begin as it does; the nearest first.
    """

    word: str
    spelled: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """All of them, the likeliest first."""
        return (*self.spelled, *self.others)


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words of a code base, the most frequent first, and the vectors of the first of them.

    ``letters`` is a set of bits for each word, by which most of the words that are spelled
    otherwise are seen at once.
    """

    words: tuple[str, ...]
    places: dict[str, int]
    lengths: NDArray[np.int16]
    letters: NDArray[np.uint64]
    vectors: NDArray[np.float16]

    @classmethod
    def of(cls, names: Iterable[str], paths: Iterable[str], model: StaticEmbedder) -> Vocabulary:
        """The words of these names of symbols, each given once, and of these paths of files."""
        places = [path_parts(path) for path in paths]
        counts = Counter(chain.from_iterable(map(split_word, names)))
        counts.update(chain.from_iterable(named for named, _ in places))
        counts.update({folder for _, folders in places for folder in folders})
        fit = (word for word, _ in counts.most_common() if _is_word(word))
        words = tuple(fit)
        meant = words[:MOST_MEANT]
        return cls(
            words,
            {word: place for place, word in enumerate(words)},
            np.fromiter(map(len, words), np.int16, len(words)),
            np.fromiter(map(_letters, words), np.uint64, len(words)),
            model.encode_passages(Passages(meant, Lexicon().bags(meant))).astype(np.float16),
        )

    def spelled_like(self, word: str) -> list[str]:
        """The words that a slip or two tell from this one: the fewer the nearer, then by use."""
        allowed = slips_allowed(word)
        if allowed == 0:
            return []
        other_letters = np.bitwise_count(self.letters ^ np.uint64(_letters(word)))
        alike = (np.abs(self.lengths - len(word)) <= allowed) & (other_letters <= 2 * allowed)
        found = []
        for place in np.flatnonzero(alike).tolist():
            other = self.words[place]
            # Hardly anybody slips at the first letter.
            if other[0] == word[0] and 0 < (slips := slips_between(word, other)) <= allowed:
                found.append((slips, place))
        return [self.words[place] for _, place in sorted(found)]

    def beginning_like(self, word: str) -> list[str]:
        """The words that this one abbreviates, and those that abbreviate it."""
        ends = range(len(word) - 1, _LEAST_SHORT - 1, -1)
        shorter = [word[:end] for end in ends if word[:end] in self.places]
        if len(word) < _LEAST_BEGUN:
            return shorter
        longer = (other for other in self.words if other.startswith(word) and other != word)
        return [*shorter, *islice(longer, _MOST_BEGUN)]

    def meaning_like(self, vector: Vectors, least: float, scale: Scale) -> list[str]:
        """The words at least so near in meaning, the nearest first; on the built-in scale."""
        cosines = self.vectors.astype(np.float32) @ vector
        nearest = np.argsort(-cosines)[:_LOOKED_AT].tolist()
        return [self.words[i] for i in nearest if scale.apply(float(cosines[i])) >= least]

    def is_slip(self, word: str, model: StaticEmbedder) -> bool:
        """Whether a word is probably a commoner one of this code misspelled."""
        if model.knows(word):
            return False
        place = self.places[word]
        commoner = (one for one in self.spelled_like(word) if self.places[one] < place)
        return any(slips_between(word, one) == 1 and stem(word) != stem(one) for one in commoner)


def near_words(
    vocabulary: Vocabulary, words: Mapping[str, bool], model: StaticEmbedder, scale: Scale
) -> tuple[NearWords, ...]:
    """What the code base has instead of each of these words, if anything is near enough.

    ``words`` says of each whether the code base lacks it: only then it may be a slip.
    """
    found = (
        _near(vocabulary, word, model, scale, is_missing=is_missing)
        for word, is_missing in words.items()
        if _is_word(word)
    )
    return tuple(near for near in found if near.all)


def _near(
    vocabulary: Vocabulary, word: str, model: StaticEmbedder, scale: Scale, *, is_missing: bool
) -> NearWords:
    known = {stem(word)}
    meant = _meant(vocabulary, word, model, scale)

    def distinct(words: Iterable[str], most: int) -> tuple[str, ...]:
        right = (one for one in words if not vocabulary.is_slip(one, model))
        return _distinct(right, known, most)

    if not is_missing or model.knows(word):
        return NearWords(word, (), distinct(meant, NEAR_WORDS))
    spelled = distinct(vocabulary.spelled_like(word), NEAR_WORDS)
    begun = [] if spelled else vocabulary.beginning_like(word)
    known.update(map(stem, spelled))
    return NearWords(word, spelled, distinct([*begun, *meant], NEAR_WORDS - len(spelled)))


def _meant(vocabulary: Vocabulary, word: str, model: StaticEmbedder, scale: Scale) -> list[str]:
    """The words near in meaning; those that share a piece with one in pieces are near by that."""
    pieces = model.token_ids(word)
    if not 0 < len(pieces) * _LEAST_PIECE <= len(word):
        return []
    vector = model.encode_query(word)
    if model.knows(word):
        return vocabulary.meaning_like(vector, LEAST_ALIKE, scale)
    meant = vocabulary.meaning_like(vector, LEAST_ALIKE_IN_PIECES, scale)
    return [other for other in meant if set(pieces).isdisjoint(model.token_ids(other))]


def _distinct(words: Iterable[str], known: Iterable[str], most: int) -> tuple[str, ...]:
    """The first words that are no form of a known one, nor of each other."""
    return tuple(islice(_new(words, set(known)), most))


def _new(words: Iterable[str], stems: set[str]) -> Iterator[str]:
    for word in words:
        if stem(word) not in stems:
            stems.add(stem(word))
            yield word


def _is_word(text: str) -> bool:
    return _LEAST_CHARS <= len(text) <= MAX_WORD_CHARS and not text.isdecimal()


def _letters(word: str) -> int:
    """The letters of a word as a set of bits."""
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) & 63)
    return bits
