"""Which definition of a file answers, and which of its lines? Pure: lines and names in, order out.

An index holds chunks; a reader wants the function, method, class or section that holds the place.
The strongest chunks of a file fall into *parts*: the lines there that belong to one definition and
to none inside it, or to none at all. A part is scored by its words, its meaning and its name; the
weights come from a softmax regression over the everyday questions (``docs/search-quality.md``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, takewhile

import numpy as np

from codebase_mcp.embedding.embedder import Passages, Vectors
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.search.hits import (
    Hit,
    LineRange,
    Location,
    ScoredFile,
    StoredChunk,
    chunk_strengths,
    hit_at,
)
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


# A line of a comment, a decorator or an attribute; a preprocessor directive is neither.
_DESCRIBES = re.compile(
    r"""\s*(?://|/\*|\*|--|;|%|@\w|\[[\w.]+(?:\(.*\))?\]\s*$
    |\#(?!\s*(?:include|define|undef|if|ifdef|ifndef|elif|else|endif|pragma|error|warning|line)\b))""",
    re.VERBOSE,
)
_BLOCK_END = re.compile(r".*\*/\s*$")

# A longer text is more than a description: a licence, or code that was commented out.
_MOST_LINES = 60


def description_start(lines: Sequence[str], first_line: int) -> int:
    """The line (1-based) where the description of the definition at ``first_line`` begins."""
    place = first_line - 1
    stop = max(place - _MOST_LINES, 0)
    while place > stop:
        if _DESCRIBES.match(lines[place - 1]):
            place -= 1
        elif _BLOCK_END.match(lines[place - 1]):
            opening = _opening(lines, place - 1, stop)
            if opening is None:
                break
            place = opening
        else:
            break
    return place + 1


def description_lines(lines: Sequence[str]) -> int:
    """How many of the first lines describe what follows; 0 where all lines do."""
    end = next((at for at, line in enumerate(lines) if _BLOCK_END.match(line)), None)
    if lines and lines[0].lstrip().startswith("/*") and end is not None:
        return end + 1 + description_lines(lines[end + 1 :])
    count = sum(1 for _ in takewhile(_DESCRIBES.match, lines))
    return count if count < len(lines) else 0


def _opening(lines: Sequence[str], end: int, stop: int) -> int | None:
    """Where the block comment begins that ends at a place: a line with nothing before it."""
    for place in range(end, stop - 1, -1):
        text = lines[place].lstrip()
        if text.startswith("/*"):
            return place
        if "/*" in text:
            return None
    return None


# How many chunks of a file are split into definitions: in 95 % of right files, these include the
# right place.
CHUNKS_READ = 6

_MORE_PLACES = 5

# What holds a method, but tells no more of it than the file does.
_LOOSE = frozenset({"text", "section", "module", "key"})

# Of the first files lines are put in order; of the others a name and a range will do.
FILES_WITH_LINES = 5


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text's lines, their ends kept, with the chunks and definitions that were loaded of it."""

    lines: list[str]
    chunks: Mapping[int, StoredChunk]
    definitions: tuple[Enclosing, ...]


def strongest_chunks(file: ScoredFile) -> list[int]:
    """The chunks of a file that are taken apart, by number, the strongest first."""
    strengths = chunk_strengths(file.ranked)
    return sorted(strengths, key=lambda ordinal: (-strengths[ordinal], ordinal))[:CHUNKS_READ]


def distinct_files(files: Sequence[ScoredFile]) -> list[list[ScoredFile]]:
    """The files that hold the same text together, in the order of their scores."""
    by_text: dict[int, list[ScoredFile]] = {}
    for file in sorted(files, key=lambda one: -one.similarity):
        by_text.setdefault(file.ranked.candidate.blob_id, []).append(file)
    return list(by_text.values())


def make_definition_hits(
    copies: Sequence[Sequence[ScoredFile]],
    texts: Mapping[int, ReadText],
    weights: Weights,
    *,
    context_lines: int,
    explain: bool,
) -> list[Hit]:
    """A hit for each text, which several files may hold."""
    read = [texts[files[0].ranked.candidate.blob_id] for files in copies]
    parts_in = [_parts(files[0], text) for files, text in zip(copies, read, strict=True)]
    every = [part for parts in parts_in for part in parts]
    lines_of = [text.lines for text, parts in zip(read, parts_in, strict=True) for _ in parts]
    scores = iter(score_parts(every, lines_of, weights))
    hits = []
    for place, (files, text, parts) in enumerate(zip(copies, read, parts_in, strict=True)):
        scored = sorted(
            ((next(scores), part) for part in parts),
            key=lambda found: (-found[0], found[1].start_line),
        )
        hit = _hit(files, text, scored, context_lines, explain=explain)
        if place < FILES_WITH_LINES:
            hit = replace(hit, matching_lines=matching_lines(scored[0][1], text.lines, weights))
        hits.append(hit)
    return hits


def _parts(file: ScoredFile, text: ReadText) -> list[Part]:
    strengths = chunk_strengths(file.ranked)
    top = max(strengths.values()) or 1.0
    chunks = [
        (chunk.start_line, chunk.end_line, strengths[ordinal] / top)
        for ordinal, chunk in text.chunks.items()
    ]
    return parts_of(chunks, text.definitions, text.lines)


def _hit(
    files: Sequence[ScoredFile],
    text: ReadText,
    scored: Sequence[tuple[float, Part]],
    context_lines: int,
    *,
    explain: bool,
) -> Hit:
    first = files[0]
    best_score, best = scored[0]
    places: list[LineRange] = []
    beside = [best]
    for score, part in scored[1:]:
        is_around = _is_around(part, best)
        if len(places) < _MORE_PLACES and (is_around or not _overlaps(part, beside)):
            share = math.exp((score - best_score) / 2)
            score_there = round(first.similarity * share, 4)
            places.append(LineRange(part.start_line, part.end_line, part.symbol, score_there))
            beside += [] if is_around else [part]
    whole = StoredChunk(best.start_line, best.end_line, best.symbol, best.kind)
    return replace(
        hit_at(whole, first, text.lines, context_lines, explain=explain),
        more_in_file=tuple(places),
        also_at=tuple(
            Location(
                copy.repository_id,
                copy.ranked.candidate.path,
                best.start_line,
                best.end_line,
                copy.view,
            )
            for copy in files[1:]
        ),
    )


def _is_around(part: Part, best: Part) -> bool:
    """Whether it is a definition that holds the best one, as a class holds its method."""
    holds = part.start_line <= best.start_line and best.end_line <= part.end_line
    return holds and part.kind not in _LOOSE


def _overlaps(part: Part, others: Sequence[Part]) -> bool:
    return any(
        part.start_line <= other.end_line and other.start_line <= part.end_line for other in others
    )
