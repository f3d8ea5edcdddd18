"""Which files could answer this question? Four lists, joined by text.

Words (BM25 over the chunks that the rarest terms select), meaning (nearest vectors), file names and
definitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.profile import BUILTIN_SCALE
from codebase_mcp.model import FileKind
from codebase_mcp.search.lists import (
    CHUNK_DECAY,
    CHUNKS_COUNTED,
    CandidateFile,
    ChunkKey,
    Lists,
    ListSource,
    ScoredChunks,
    TextEvidence,
)
from codebase_mcp.search.literal import ExactMatches, LookUp
from codebase_mcp.search.scope import QueryVector
from codebase_mcp.text.tokens import word_stems
from codebase_mcp.values import grouped

# The number of texts of each list that are ranked, beside all texts of the lists of names and
# definitions. In a trial 99.4 % of the targets were among the first 50 by words.
RANKED_BY_WORDS = 60
RANKED_BY_MEANING = 40
RANKED_BY_EXPANSION = 20

# How much of the cosine the secondary model decides.
SECONDARY_SHARE = 0.5

# If fewer chunks than this have a word of the query, the nearest chunks in meaning match as well. A
# chunk that is unrelated to the query seldom has a higher cosine than the second number.
NEAR_CHUNKS = 10
LEAST_NEAR = 0.3

# The texts with the best sums are selected from this many times as many texts with the best chunks:
# any further text hardly ever has a good sum.
_PRESELECTED = 3

# How much each chunk of a text counts, the best first, as in `discounted_sum`.
_DECAYS = CHUNK_DECAY ** np.arange(CHUNKS_COUNTED)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidate files of a query, and how well its words fit this code.

    ``frequency`` is the inverse document frequency of each stem, ``unknown`` the share of the
    query's own words that no chunk has, ``least_meaning`` the cosine of the last chunk in the list
    of meaning, None if no model is available. ``expansion_coverage`` is the share of the query's
    expansion terms, by weight, in the chunk with most of them. ``total`` is the number of matching
    chunks; beyond `COUNT_LIMIT` it is a lower bound. No chunk matches because of another chunk, so
    narrower filters never raise the total. ``exact`` says where the query's exact text is.
    """

    files: list[CandidateFile]
    frequency: dict[str, float]
    unknown: float
    least_meaning: float | None
    expansion_coverage: float
    total: int
    exact: ExactMatches | None = None


async def find_candidates(
    source: ListSource, vectors: Sequence[QueryVector], look_up: LookUp | None = None
) -> Candidates:
    """The files in any of the four lists, with the evidence in their texts.

    ``look_up`` finds the query's exact text, if it has any; the texts with it are candidates too.

    Each model in scope has its own list of meaning. With a secondary model among them, the chunks
    of either list are compared by both models.
    """
    query, scope = source.query, source.scope
    lists = await source.find(vectors)
    nearest = await _nearest_chunks(source, vectors, lists.meanings)
    least = nearest[-1][0] if nearest else 0.0
    texts = _evidence(lists, nearest)
    exact = None if look_up is None else await look_up(texts)
    for blob_id, lines in exact.lines.items() if exact else ():
        texts.setdefault(blob_id, TextEvidence()).exact = lines
    if query.expected:
        for blob_id, name in await source.defined_names(texts, query.expected):
            texts[blob_id].defined_stems |= query.expected.intersection(word_stems(name))
    files = []
    order = {snapshot.id: number for number, snapshot in enumerate(scope.snapshots)}
    only_holder = lists.holders[0] if len(lists.holders) == 1 else None
    rows = await source.files(texts)
    for row in sorted(rows, key=lambda row: (row[1], order.get(row[0], 0))):
        snapshot_id, path, blob_id, language, kind, chunk_count, comments = row
        text = texts[blob_id]
        text.chunk_count = chunk_count
        text.comments = max(comments, 0.0)
        text.least_meaning = least
        text.is_only_holder = blob_id == only_holder
        files.append(CandidateFile(snapshot_id, path, blob_id, language, FileKind(kind), text))
    spoken = [term for term in query.terms if term.spoken]
    best_expansion = float(max(lists.words.expansion, default=0.0))
    near_count = sum(cosine >= LEAST_NEAR for cosine, _, _ in nearest[:NEAR_CHUNKS])
    return Candidates(
        files=files,
        frequency={term.text: source.idf[term.id] for term in query.terms},
        unknown=sum(not scope.frequencies.get(term.id) for term in spoken) / (len(spoken) or 1),
        least_meaning=least if vectors else None,
        expansion_coverage=best_expansion / (sum(source.expansion.values()) or 1.0),
        total=max(lists.holding_count, near_count, exact.chunk_count if exact else 0)
        if files
        else 0,
        exact=exact,
    )


async def _nearest_chunks(
    source: ListSource, vectors: Sequence[QueryVector], meanings: Sequence[Sequence[Row]]
) -> list[tuple[float, int, int]]:
    """Cosine, blob id and ordinal of the chunks in the lists of meaning, nearest first."""
    secondary = source.scope.secondary
    primary_cosines: dict[ChunkKey, float] = {}
    secondary_cosines: dict[ChunkKey, float] = {}
    cosines_of = [
        secondary_cosines if vector.profile == secondary else primary_cosines for vector in vectors
    ]
    for vector, cosines, rows in zip(vectors, cosines_of, meanings, strict=True):
        for chunk, cosine in scaled_cosines(vector, rows):
            cosines[chunk] = max(cosine, cosines.get(chunk, cosine))
    if any(vector.profile == secondary for vector in vectors):
        every = primary_cosines.keys() | secondary_cosines.keys()
        missing = [every - cosines.keys() for cosines in cosines_of]
        compared = await source.cosines(list(zip(vectors, missing, strict=True)))
        for vector, cosines, rows in zip(vectors, cosines_of, compared, strict=True):
            cosines.update(scaled_cosines(vector, rows))
    fused = fuse(primary_cosines, secondary_cosines)
    nearest = [(cosine, blob_id, ordinal) for (blob_id, ordinal), cosine in fused.items()]
    nearest.sort(key=lambda chunk: (-chunk[0], *chunk[1:]))
    return nearest


def scaled_cosines(vector: QueryVector, rows: Iterable[Row]) -> Iterator[tuple[ChunkKey, float]]:
    """The cosines of chunks, on the built-in model's scale."""
    scale = vector.profile.scale
    if scale == BUILTIN_SCALE:
        return (((blob_id, ordinal), -distance) for blob_id, ordinal, distance in rows)
    return (((blob_id, ordinal), scale.apply(-distance)) for blob_id, ordinal, distance in rows)


def _evidence(lists: Lists, nearest: Iterable[tuple[float, int, int]]) -> dict[int, TextEvidence]:
    """The evidence in the texts that are worth ranking; ``nearest`` has the nearest chunk first."""
    by_words = _ByText(lists.words, lists.words.own)
    by_expansion = _ByText(lists.words, lists.words.expansion)
    by_meaning: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for cosine, blob_id, ordinal in nearest:
        by_meaning[blob_id].setdefault(ordinal, cosine)
    definitions = grouped(lists.definitions)
    ranked = lists.named_texts | definitions.keys()
    ranked.update(by_words.best(RANKED_BY_WORDS))
    ranked.update(by_expansion.best(RANKED_BY_EXPANSION))
    ranked.update(islice(by_meaning, RANKED_BY_MEANING))
    return {
        blob_id: TextEvidence(
            words=by_words[blob_id],
            meaning=by_meaning.get(blob_id, {}),
            expansion=by_expansion[blob_id],
            definitions=definitions.get(blob_id, ()),
        )
        for blob_id in ranked
    }


class _ByText:
    """The scores above 0 of some chunks, by text and ordinal, each text's best first."""

    def __init__(self, chunks: ScoredChunks, scores: NDArray[np.float64]) -> None:
        found = np.flatnonzero(scores > 0)  # in the order of text and ordinal
        order = found[np.lexsort((-scores[found], chunks.blob_ids[found]))]
        self._texts, self._counts = np.unique(chunks.blob_ids[order], return_counts=True)
        self._scores, ends = scores[order], np.cumsum(self._counts)
        self._firsts = ends - self._counts
        self._places = {text: place for place, text in enumerate(self._texts.tolist())}
        self._ends = [0, *ends.tolist()]
        self._columns = chunks.ordinals[order].tolist(), self._scores.tolist()

    def __getitem__(self, blob_id: int) -> dict[int, float]:
        """The scores of a text's chunks by ordinal."""
        place = self._places.get(blob_id)
        if place is None:
            return {}
        chunks = slice(self._ends[place], self._ends[place + 1])
        ordinals, scores = self._columns
        return dict(zip(ordinals[chunks], scores[chunks], strict=True))

    def best(self, most: int) -> list[int]:
        """The texts with the best sums over their chunks."""
        text_of = np.repeat(np.arange(len(self._texts)), self._counts)
        places = np.arange(len(text_of)) - self._firsts[text_of]
        counted = np.flatnonzero(places < CHUNKS_COUNTED)
        discounted = self._scores[counted] * _DECAYS[places[counted]]
        sums = np.bincount(text_of[counted], discounted, len(self._texts))
        preselected = np.lexsort((self._texts, -self._scores[self._firsts]))[: _PRESELECTED * most]
        best = np.lexsort((self._texts[preselected], sums[preselected]))[-most:]
        ids: list[int] = self._texts[preselected[best]].tolist()
        return ids


def fuse(
    primary: Mapping[ChunkKey, float], secondary: Mapping[ChunkKey, float]
) -> dict[ChunkKey, float]:
    """The cosine of every chunk that either model has compared with the query.

    Both cosines are on the built-in model's scale. A chunk that the secondary model has not
    embedded yet keeps the primary model's cosine, which neither favours it nor holds it back.
    """
    fused = {**secondary, **primary}
    for chunk, cosine in secondary.items():
        if chunk in primary:
            fused[chunk] = (1 - SECONDARY_SHARE) * primary[chunk] + SECONDARY_SHARE * cosine
    return fused
