"""Which definition of a file answers, and which of its lines?

An index has chunks, but a reader wants the whole function, method, class or section. The strongest
chunks of a file are divided into *parts*: the lines of a definition without those of definitions
inside it, or lines outside of all definitions. A part is scored by its words, meaning and name; the
weights come from a softmax regression over the everyday questions (``docs/search-quality.md``).
A hit is the definition of the best part, and names further good definitions of the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, takewhile

import numpy as np

from codebase_mcp.database.connection import Transaction
from codebase_mcp.embedding.embedder import Passages, Vectors
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.model import ITEM, Chunk
from codebase_mcp.search.hits import (
    Enclosing,
    Hit,
    LineRange,
    ScoredFile,
    StoredText,
    chunk_strengths,
    hit_at,
    load_texts,
)
from codebase_mcp.telemetry.stopwatch import step
from codebase_mcp.text.counting import Lexicon, WordBags, term_table
from codebase_mcp.values import grouped

# The weights of the evidence for a part.
WORDS = 0.45
EXPANSION = 2.7
MEANING = 1.85
NAME = 1.55
BEST_CHUNK = 1.75
CHUNKS = 0.95
SIZE = 1.55
KIND: Mapping[str, float] = {"function": 0.75, "method": 0.75, "macro": 0.75, "text": -0.65}

# A part with the exact text of the query is better than any without it.
EXACT = 20.0

# Up to this number of lines, longer parts are more likely to be the answer.
_SIZE_LINES = 12

# A part's vector is turned this much towards its name's.
_NAME_SHARE = 0.35

# This many expansion terms, those with the highest weights, count as the whole expansion.
_EXPANSION_TERMS = 3

# The least score of a matching line, by the query's words, their expansion and their meaning.
LEAST_MATCH = 0.3

# The cache of words is emptied when it has this many (some 20 MB).
_MOST_WORDS = 100_000


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of a definition, or of a chunk outside of definitions.

    ``own`` are the line numbers without those of inner definitions. ``strength`` is the mean
    strength of its chunks and ``best`` the highest, as shares of the strongest chunk of the file.
    """

    start_line: int
    end_line: int
    symbol: str | None
    kind: str
    own: tuple[int, ...]
    strength: float
    best: float


class WordCounter:
    """Counts the words of lines; caches the terms of each word from search to search."""

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


@dataclass(frozen=True)  # without slots, as it caches its totals
class Weights:
    """The weights of the query's terms and of its expansion terms, to score lines.

    ``vector`` is the query's vector by ``embedder``, None if the model of the index is missing.
    """

    words: WordCounter
    spoken: Mapping[int, float]
    expansion: Mapping[int, float]
    embedder: StaticEmbedder
    vector: Vectors | None

    def of(self, terms: Iterable[int]) -> tuple[float, float]:
        """The shares of the query's own words and of its expansion in some terms: 0 to 1."""
        held = set(terms)
        spoken = sum(weight for term, weight in self.spoken.items() if term in held)
        expanded = sum(weight for term, weight in self.expansion.items() if term in held)
        all_spoken, all_expansion = self._totals
        return spoken / all_spoken, min(expanded / all_expansion, 1.0)

    @cached_property
    def _totals(self) -> tuple[float, float]:
        """The weight of all of the query's own words, and of the whole expansion."""
        most = sum(sorted(self.expansion.values(), reverse=True)[:_EXPANSION_TERMS])
        return sum(self.spoken.values()) or 1.0, most or 1.0


def parts_of(
    chunks: Iterable[tuple[int, int, float]],
    definitions: Iterable[Enclosing],
    lines: Sequence[str],
) -> list[Part]:
    """Divide some chunks (first line, last line, strength) into parts."""
    inside = sorted(
        (
            replace(definition, start_line=description_start(lines, definition.start_line))
            for definition in definitions
            if not definition.is_field
        ),
        key=lambda definition: (definition.depth, definition.start_line - definition.end_line),
    )
    own: dict[tuple[Enclosing | None, int], list[tuple[int, float]]] = {}
    for first, last, strength in chunks:
        holder: list[Enclosing | None] = [None] * (last - first + 1)
        for definition in inside:
            for line in range(
                max(definition.start_line, first), min(definition.end_line, last) + 1
            ):
                holder[line - first] = definition
        for number, innermost in enumerate(holder, first):
            if number <= len(lines) and lines[number - 1].strip():
                key = (innermost, 0 if innermost else first)
                own.setdefault(key, []).append((number, strength))
    return [_part(definition, held, len(lines)) for (definition, _), held in own.items()]


def _part(definition: Enclosing | None, held: Sequence[tuple[int, float]], last: int) -> Part:
    numbers = tuple(sorted(number for number, _ in held))
    strengths = [strength for _, strength in held]
    shown = definition or Enclosing(None, "text", numbers[0], numbers[-1], 0)
    return Part(
        start_line=shown.start_line,
        end_line=min(shown.end_line, last),
        symbol=shown.qualified,
        kind=shown.kind,
        own=numbers,
        strength=sum(strengths) / len(strengths),
        best=max(strengths),
    )


def score_parts(
    parts: Sequence[Part], lines_of: Sequence[Sequence[str]], weights: Weights
) -> list[float]:
    """The score of each part; ``lines_of`` has the lines of its file."""
    texts = [
        "".join(lines[number - 1] for number in part.own)
        for part, lines in zip(parts, lines_of, strict=True)
    ]
    names = [part.symbol or "" for part in parts]
    bags, terms = weights.words.count([*texts, *names])
    meaning = _meaning(bags, weights, [*texts, *names])
    scores = []
    for part, part_terms, part_meaning in zip(parts, terms, meaning, strict=False):
        spoken, expansion = weights.of(part_terms)
        scores.append(
            WORDS * spoken
            + EXPANSION * expansion
            + part_meaning
            + BEST_CHUNK * part.best
            + CHUNKS * part.strength
            + SIZE * math.log(min(len(part.own), _SIZE_LINES))
            + KIND.get(part.kind, 0.0)
        )
    return scores


def _meaning(bags: WordBags, weights: Weights, texts: Sequence[str]) -> list[float]:
    """The scores by meaning of some texts; ``texts`` has the names of the texts after them."""
    half = len(texts) // 2
    if weights.vector is None:
        return [0.0] * half
    vectors = weights.embedder.encode_passages(Passages(texts, bags))
    bodies, names = vectors[:half], vectors[half:]
    turned = bodies + _NAME_SHARE * names
    lengths = np.maximum(np.linalg.norm(turned, axis=1), 1e-9)
    near = (turned @ weights.vector) / lengths
    scores: list[float] = (MEANING * near + NAME * (names @ weights.vector)).tolist()
    return scores


def matching_lines(
    parts: Sequence[Part], lines_of: Sequence[Sequence[str]], weights: Weights
) -> list[tuple[int, ...]]:
    """The line numbers of each part that match the query, best first.

    ``lines_of`` has the lines of its file. All are counted at once, which takes half the time.
    """
    pairs = list(zip(parts, lines_of, strict=True))
    texts = [lines[number - 1] for part, lines in pairs for number in part.own]
    bags, terms = weights.words.count(texts)
    vector = weights.vector
    if vector is not None:
        vectors = weights.embedder.encode_passages(Passages(texts, bags))
    matching, first = [], 0
    for part in parts:
        own = slice(first, first := first + len(part.own))
        near = [0.0] * len(part.own) if vector is None else (vectors[own] @ vector).tolist()
        scored = []
        for number, line_terms, cosine in zip(part.own, terms[own], near, strict=True):
            spoken, expansion = weights.of(line_terms)
            scored.append((-(spoken + expansion + max(cosine, 0.0)), number))
        matching.append(tuple(n for score, n in sorted(scored) if -score >= LEAST_MATCH))
    return matching


# A line of a comment, a decorator or an attribute, but not a preprocessor directive.
_DESCRIBES = re.compile(
    r"""\s*(?://|/\*|\*|--|;|%|@\w|\[[\w.]+(?:\(.*\))?\]\s*$
    |\#(?!\s*(?:include|define|undef|if|ifdef|ifndef|elif|else|endif|pragma|error|warning|line)\b))""",
    re.VERBOSE,
)
_BLOCK_END = re.compile(r".*\*/\s*$")

# Longer comments are not descriptions, but licences or code that was commented out.
_MOST_LINES = 60


def description_start(lines: Sequence[str], first_line: int) -> int:
    """The line (1-based) at which the comments and decorators above ``first_line`` begin."""
    start = first_line - 1
    stop = max(start - _MOST_LINES, 0)
    while start > stop:
        if _DESCRIBES.match(lines[start - 1]):
            start -= 1
        elif _BLOCK_END.match(lines[start - 1]):
            opening = _opening(lines, start - 1, stop)
            if opening is None:
                break
            start = opening
        else:
            break
    return start + 1


def description_lines(lines: Sequence[str]) -> int:
    """The number of comment lines at the beginning; 0 if all lines are comments."""
    end = next((index for index, line in enumerate(lines) if _BLOCK_END.match(line)), None)
    if lines and lines[0].lstrip().startswith("/*") and end is not None:
        return end + 1 + description_lines(lines[end + 1 :])
    count = sum(1 for _ in takewhile(_DESCRIBES.match, lines))
    return count if count < len(lines) else 0


def _opening(lines: Sequence[str], end: int, stop: int) -> int | None:
    """The line at which a block comment begins, if nothing is before it in that line."""
    for index in range(end, stop - 1, -1):
        text = lines[index].lstrip()
        if text.startswith("/*"):
            return index
        if "/*" in text:
            return None
    return None


# The number of chunks of a file that are divided into parts: in 95 % of right files, these include
# the answer.
CHUNKS_READ = 6

_MORE_PLACES = 5

# An item is shown instead of its definition if it has this share of the words that this has.
ITEM_SHARE = 0.6

# Parts of these kinds are not named as the context of a hit: the file's path says as much.
_LOOSE = frozenset({"text", "section", "module", "key"})

# Matching lines are computed for this many files; replies show no lines of further files.
FILES_WITH_LINES = 5


def strongest_chunks(file: ScoredFile) -> list[int]:
    """The ordinals of the chunks of a file that are divided into parts, the strongest first."""
    strengths = chunk_strengths(file.ranked)
    return sorted(strengths, key=lambda ordinal: (-strengths[ordinal], ordinal))[:CHUNKS_READ]


def distinct_files(files: Sequence[ScoredFile]) -> list[list[ScoredFile]]:
    """The files grouped by text, in the order of their scores."""
    best_first = sorted(files, key=lambda file: -file.similarity)
    return list(grouped((file.ranked.candidate.blob_id, file) for file in best_first).values())


async def definition_hits(
    tx: Transaction,
    copies: Sequence[Sequence[ScoredFile]],
    weights: Weights,
    context_lines: int,
    *,
    explain: bool,
) -> list[Hit]:
    """The best definition of each text as a hit. Ends the transaction.

    ``copies`` are the files with the same text.
    """
    keys = [(f.ranked.candidate.blob_id, n) for f, *_ in copies for n in strongest_chunks(f)]
    with step("texts"):
        texts = await load_texts(tx, keys, with_definitions=True)
    with step("hits"):
        return make_definition_hits(
            copies, texts, weights, context_lines=context_lines, explain=explain
        )


def make_definition_hits(
    copies: Sequence[Sequence[ScoredFile]],
    texts: Mapping[int, StoredText],
    weights: Weights,
    *,
    context_lines: int,
    explain: bool,
) -> list[Hit]:
    """A hit for each text; ``copies`` are the files with the same text."""
    read = [texts[files[0].ranked.candidate.blob_id] for files in copies]
    parts_in = [_parts(files[0], text) for files, text in zip(copies, read, strict=True)]
    every = [part for parts in parts_in for part in parts]
    lines_of = [text.lines for text, parts in zip(read, parts_in, strict=True) for _ in parts]
    scores = iter(score_parts(every, lines_of, weights))
    hits, bests = [], []
    for files, text, parts in zip(copies, read, parts_in, strict=True):
        exact = frozenset(files[0].exact_lines)
        scored = sorted(
            ((next(scores) + EXACT * (not exact.isdisjoint(part.own)), part) for part in parts),
            key=lambda pair: (-pair[0], pair[1].start_line),
        )
        if (item := _item_in(scored[0][1], text, exact, weights)) is not None:
            scored.insert(0, (scored[0][0], item))
        hits.append(_hit(files, text, scored, context_lines, explain=explain))
        bests.append(scored[0][1])
    shown = bests[:FILES_WITH_LINES]
    matching = matching_lines(shown, [text.lines for text in read[: len(shown)]], weights)
    matching += [()] * len(bests[FILES_WITH_LINES:])
    return [
        replace(hit, matching_lines=tuple(dict.fromkeys((*_exact_lines(files, best), *lines))))
        for hit, files, best, lines in zip(hits, copies, bests, matching, strict=True)
    ]


def _exact_lines(files: Sequence[ScoredFile], part: Part) -> list[int]:
    """The lines of a part that have the exact text of the query."""
    exact = files[0].exact_lines
    return [line for line in part.own if line in exact]


def _parts(file: ScoredFile, text: StoredText) -> list[Part]:
    strengths = chunk_strengths(file.ranked)
    top = max(strengths.values()) or 1.0
    chunks = [
        (chunk.start_line, chunk.end_line, strengths[ordinal] / top)
        for ordinal, chunk in text.chunks.items()
    ]
    return parts_of(chunks, text.definitions, text.lines)


def _item_in(part: Part, text: StoredText, exact: Set[int], weights: Weights) -> Part | None:
    """The item of a part that is shown instead of it, as it alone has what the query asks for.

    It has all lines with the exact text, or, with its name, nearly all words of the query that the
    part has, which fewer than half of the items have.
    """
    items = [
        (item, [n for n in part.own if item.start_line <= n <= item.end_line])
        for item in text.definitions
        if item.kind == ITEM
        and part.start_line <= item.start_line
        and item.end_line <= part.end_line
    ]
    items = [(item, own) for item, own in items if own]
    if not items:
        return None
    named = [(part.symbol or "", part.own), *((item.qualified or "", own) for item, own in items)]
    bodies = ["\n".join([name, *(text.lines[n - 1] for n in own)]) for name, own in named]
    whole, *shares = (weights.of(terms)[0] for terms in weights.words.count(bodies)[1])
    if matching := exact & set(part.own):
        fitting = [item for item, own in items if matching <= set(own)]
    elif (most := max(shares)) > 0 and most >= ITEM_SHARE * whole:
        fitting = [item for (item, _), share in zip(items, shares, strict=True) if share == most]
        fitting = fitting if 2 * len(fitting) < len(items) else []
    else:
        fitting = []
    if not fitting:
        return None
    item = min(fitting, key=lambda item: (item.end_line - item.start_line, item.start_line))
    own = tuple(n for n in range(item.start_line, item.end_line + 1) if text.lines[n - 1].strip())
    return Part(
        item.start_line, item.end_line, item.qualified, item.kind, own, part.strength, part.best
    )


def _hit(
    files: Sequence[ScoredFile],
    text: StoredText,
    scored: Sequence[tuple[float, Part]],
    context_lines: int,
    *,
    explain: bool,
) -> Hit:
    first = files[0]
    best_score, best = scored[0]
    further: list[LineRange] = []
    beside = [best]
    for score, part in scored[1:]:
        is_around = _is_around(part, best)
        if len(further) < _MORE_PLACES and (is_around or not _overlaps(part, beside)):
            share = math.exp((score - best_score) / 2)
            part_score = round(first.similarity * share, 4)
            further.append(LineRange(part.start_line, part.end_line, part.symbol, part_score))
            beside += [] if is_around else [part]
    whole = Chunk(best.start_line, best.end_line, best.symbol, best.kind)
    score = round(first.similarity, 4)
    return hit_at(
        whole, files, text.lines, context_lines, score=score, more=further, explain=explain
    )


def _is_around(part: Part, best: Part) -> bool:
    """Whether a part is a definition around the best part, as a class around its method."""
    holds = part.start_line <= best.start_line and best.end_line <= part.end_line
    return holds and part.kind not in _LOOSE


def _overlaps(part: Part, parts: Sequence[Part]) -> bool:
    return any(part.start_line <= p.end_line and p.start_line <= part.end_line for p in parts)
