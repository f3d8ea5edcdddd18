"""Which definition of a file answers, and which of its lines? Pure: lines and names in, order out.

An index holds chunks; a reader wants the function, method, class or section that holds the place.
The strongest chunks of a file fall into *parts*: the lines there that belong to one definition and
to none inside it, or to none at all. A part is scored by its words, its meaning and its name; the
weights come from a softmax regression over the everyday questions (``docs/search-quality.md``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from codebase_mcp.embedding.embedder import Passages, Vectors
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.search.comments import description_start
from codebase_mcp.text.counting import Lexicon, WordBags, term_table

# How much each piece of evidence says that a part is the one that was meant.
WORDS = 0.45
EXPANSION = 2.7
MEANING = 1.85
NAME = 1.55
BEST_CHUNK = 1.75
CHUNKS = 0.95
SIZE = 1.55
KIND: Mapping[str, float] = {"function": 0.75, "method": 0.75, "macro": 0.75, "text": -0.65}

# A part with this many lines is as likely to be the answer as any longer one.
_SIZE_LINES = 12

# A part's vector is turned this much towards its name's.
_NAME_SHARE = 0.35

# How many of the highest-weighted expansion terms are taken as the whole expansion.
_EXPANSION_TERMS = 3

# A line that says less of what is asked (of its words, of their expansion, in meaning) is no match.
LEAST_MATCH = 0.3

# Words that are remembered (some 20 MB) before it is begun anew.
_MOST_WORDS = 100_000

# A field or a constant is no place to read, unless it takes some lines of its own at the top.
_FIELDS = frozenset({"constant", "variable", "property", "key", "type"})
_FIELD_LINES = 3


@dataclass(frozen=True, slots=True)
class Enclosing:
    """A definition of a file (lines 1-based, inclusive), with its qualified name."""

    qualified: str
    kind: str
    start_line: int
    end_line: int
    depth: int

    @property
    def is_field(self) -> bool:
        """Whether it is a value that a reader would read with what is around it."""
        is_short = self.end_line - self.start_line + 1 < _FIELD_LINES
        return self.kind in _FIELDS and (is_short or self.depth > 0)


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of a text that belong together: ``own`` are those that no inner definition has.

    ``start_line`` and ``end_line`` are those of the whole definition, or of the chunk where the
    lines belong to none; ``strength`` is that of its chunks, ``best`` of its strongest one, as
    shares of the file's best.
    """

    start_line: int
    end_line: int
    symbol: str | None
    kind: str
    own: tuple[int, ...]
    strength: float
    best: float


class WordCounter:
    """Counts the words of lines, and remembers what each word becomes from search to search."""

    def __init__(self) -> None:
        self._lexicon, self._table = Lexicon(), term_table()

    def count(self, texts: Sequence[str]) -> tuple[WordBags, list[list[int]]]:
        """The words of each text, and its terms."""
        if len(self._lexicon) > _MOST_WORDS:
            self._lexicon, self._table = Lexicon(), term_table()
        bags = self._lexicon.bags(texts)
        counts = self._table.count(bags)
        items, starts = counts.items.tolist(), counts.starts.tolist()
        return bags, [items[first:last] for first, last in pairwise(starts)]


@dataclass(frozen=True)  # without slots, as it keeps its totals
class Weights:
    """What lines are held against: the query's terms and its expansion's, by how telling they are.

    ``vector`` is the query's by ``embedder``, None where the index has another model.
    """

    words: WordCounter
    spoken: Mapping[int, float]
    expansion: Mapping[int, float]
    embedder: StaticEmbedder
    vector: Vectors | None

    def of(self, terms: Iterable[int]) -> tuple[float, float]:
        """How much of the query's own words, and of its expansion, some terms hold: 0 to 1."""
        held = set(terms)
        spoken = sum(weight for term, weight in self.spoken.items() if term in held)
        expanded = sum(weight for term, weight in self.expansion.items() if term in held)
        all_spoken, all_expansion = self._totals
        return spoken / all_spoken, min(expanded / all_expansion, 1.0)

    @cached_property
    def _totals(self) -> tuple[float, float]:
        """What counts as all of the query's own words, and as all of its expansion."""
        most = sum(sorted(self.expansion.values(), reverse=True)[:_EXPANSION_TERMS])
        return sum(self.spoken.values()) or 1.0, most or 1.0


def parts_of(
    chunks: Iterable[tuple[int, int, float]],
    definitions: Iterable[Enclosing],
    lines: Sequence[str],
) -> list[Part]:
    """The parts that some chunks (first line, last line, strength) fall into."""
    inside = sorted(
        (
            replace(one, start_line=description_start(lines, one.start_line))
            for one in definitions
            if not one.is_field
        ),
        key=lambda one: (one.depth, one.start_line - one.end_line),
    )
    own: dict[tuple[Enclosing | None, int], list[tuple[int, float]]] = {}
    for first, last, strength in chunks:
        holder: list[Enclosing | None] = [None] * (last - first + 1)
        for definition in inside:
            for line in range(
                max(definition.start_line, first), min(definition.end_line, last) + 1
            ):
                holder[line - first] = definition
        for place, one in enumerate(holder):
            if place + first <= len(lines) and lines[place + first - 1].strip():
                key = (one, 0) if one is not None else (None, first)
                own.setdefault(key, []).append((place + first, strength))
    return [_part(one, held, len(lines)) for (one, _), held in own.items()]


def _part(one: Enclosing | None, held: Sequence[tuple[int, float]], last: int) -> Part:
    numbers = tuple(sorted(number for number, _ in held))
    strengths = [strength for _, strength in held]
    return Part(
        numbers[0] if one is None else one.start_line,
        numbers[-1] if one is None else min(one.end_line, last),
        None if one is None else one.qualified,
        "text" if one is None else one.kind,
        numbers,
        sum(strengths) / len(strengths),
        max(strengths),
    )


def score_parts(
    parts: Sequence[Part], lines_of: Sequence[Sequence[str]], weights: Weights
) -> list[float]:
    """How much speaks for each part; ``lines_of`` are the lines of each one's file."""
    texts = [
        "".join(lines[number - 1] for number in part.own)
        for part, lines in zip(parts, lines_of, strict=True)
    ]
    names = [part.symbol or "" for part in parts]
    bags, terms = weights.words.count([*texts, *names])
    meaning = _meaning(bags, weights, [*texts, *names])
    scores = []
    for place, part in enumerate(parts):
        spoken, expansion = weights.of(terms[place])
        scores.append(
            WORDS * spoken
            + EXPANSION * expansion
            + meaning[place]
            + BEST_CHUNK * part.best
            + CHUNKS * part.strength
            + SIZE * math.log(min(len(part.own), _SIZE_LINES))
            + KIND.get(part.kind, 0.0)
        )
    return scores


def _meaning(bags: WordBags, weights: Weights, texts: Sequence[str]) -> list[float]:
    """What the vectors of texts, followed by those of their names, say for each text."""
    half = len(texts) // 2
    if weights.vector is None:
        return [0.0] * half
    vectors = weights.embedder.encode_passages(Passages(texts, bags))
    bodies, names = vectors[:half], vectors[half:]
    turned = bodies + _NAME_SHARE * names
    lengths = np.maximum(np.linalg.norm(turned, axis=1), 1e-9)
    near = (turned @ weights.vector) / lengths
    found: list[float] = (MEANING * near + NAME * (names @ weights.vector)).tolist()
    return found


def matching_lines(part: Part, lines: Sequence[str], weights: Weights) -> tuple[int, ...]:
    """The lines of a part, those that say most of what is asked first."""
    texts = [lines[number - 1] for number in part.own]
    bags, terms = weights.words.count(texts)
    near: Vectors = np.zeros(len(texts), np.float32)
    if weights.vector is not None:
        near = weights.embedder.encode_passages(Passages(texts, bags)) @ weights.vector
    scores = []
    for place in range(len(texts)):
        spoken, expansion = weights.of(terms[place])
        scores.append(spoken + expansion + max(float(near[place]), 0.0))
    order = sorted(range(len(texts)), key=lambda place: (-scores[place], place))
    return tuple(part.own[place] for place in order if scores[place] >= LEAST_MATCH)
