"""Which files could answer this question? Four lists, joined by text.

Words (BM25 over the chunks that the rarest terms pick), meaning (nearest vectors), file names and
definitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from operator import itemgetter

from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.embedding.scale import BUILTIN_SCALE
from codebase_mcp.model import FileKind
from codebase_mcp.search.evidence import (
    Candidate,
    Definition,
    TextEvidence,
    discounted_sum,
)
from codebase_mcp.search.fusion import Place, fuse
from codebase_mcp.search.lists import WORD_CHUNKS, ListSource
from codebase_mcp.search.query import Query
from codebase_mcp.search.scope import Asked, Scope
from codebase_mcp.search.terms import inverse_frequencies

# So many texts go on to ranking: the best by words, the best by meaning, and all that the lists of
# names and definitions found. A trial found 99.4 % of the targets among the first 50 by words.
RANKED_BY_WORDS = 60
RANKED_BY_MEANING = 40
RANKED_BY_KINDRED = 20

# A text that is not among so many times as many by its best chunk hardly gets there by all of them.
_LOOKED_AT = 3


@dataclass(frozen=True, slots=True)
class Found:
    """What the lists found.

    ``frequency`` is each query stem's inverse document frequency, ``unknown`` the share of its
    spoken ones that no chunk holds, ``least_meaning`` the cosine of the last chunk in the list of
    meaning.
    """

    candidates: list[Candidate]
    frequency: dict[str, float]
    unknown: float
    least_meaning: float
    words_cut: bool


async def find_candidates(
    source: ListSource, query: Query, asked_of: Sequence[Asked], scope: Scope
) -> Found:
    """The files that one of the four lists finds, with the evidence in their texts.

    Each model in scope has a list of meaning of its own; where the stronger one is among them, both
    say of every chunk that either found how near it is.
    """
    idf = inverse_frequencies((term.id for term in query.terms), scope.frequencies)
    lists = await source.find(query, idf, asked_of)
    meant = await _meant(source, asked_of, lists.meanings, scope.second)
    texts = _evidence(lists.words, meant, lists.symbols, lists.named)
    candidates = []
    for row in await source.files(texts, idf):
        snapshot_id, path, blob_id, language, kind, chunk_count, comments = row
        of_text = texts[blob_id]
        of_text.chunk_count = chunk_count
        of_text.comments = max(comments, 0.0)
        of_text.is_only_holder = lists.holders == [blob_id]
        candidates.append(Candidate(snapshot_id, path, blob_id, language, FileKind(kind), of_text))
    by_stem = {term.text: idf[term.id] for term in query.terms}
    least = meant[-1][0] if meant else 0.0
    spoken = [term for term in query.terms if term.spoken]
    unknown = sum(not scope.frequencies.get(term.id) for term in spoken) / (len(spoken) or 1)
    return Found(candidates, by_stem, unknown, least, len(lists.words) == WORD_CHUNKS)


async def _meant(
    source: ListSource,
    asked_of: Sequence[Asked],
    meanings: Sequence[Sequence[Row]],
    second: Profile | None,
) -> list[tuple[float, int, int]]:
    """What the lists of meaning found, the nearest first, on one scale."""
    by_tier: tuple[dict[Place, float], dict[Place, float]] = ({}, {})
    tier_of = [asked.profile == second for asked in asked_of]
    for asked, is_second, found in zip(asked_of, tier_of, meanings, strict=True):
        for place, cosine in _cosines(asked, found):
            known = by_tier[is_second]
            known[place] = max(cosine, known.get(place, cosine))
    if any(tier_of):
        missing = [by_tier[not is_second].keys() - by_tier[is_second] for is_second in tier_of]
        found_too = await source.cosines(list(zip(asked_of, missing, strict=True)))
        for asked, is_second, found in zip(asked_of, tier_of, found_too, strict=True):
            by_tier[is_second].update(_cosines(asked, found))
    fused = fuse(*by_tier)
    meant = [(cosine, blob_id, ordinal) for (blob_id, ordinal), cosine in fused.items()]
    meant.sort(key=itemgetter(0), reverse=True)
    return meant


def _cosines(asked: Asked, found: Iterable[Row]) -> Iterator[tuple[Place, float]]:
    """How near chunks are, on the built-in model's scale."""
    scale = asked.profile.scale
    if scale == BUILTIN_SCALE:
        return (((blob_id, ordinal), -distance) for blob_id, ordinal, distance in found)
    return (((blob_id, ordinal), scale.apply(-distance)) for blob_id, ordinal, distance in found)


def _evidence(
    words: Iterable[Row],
    meant: Iterable[tuple[float, int, int]],
    symbols: Iterable[Row],
    named: set[int],
) -> dict[int, TextEvidence]:
    """What the lists found in the texts that are worth ranking."""
    by_words, by_kindred = _by_text(words, 2), _by_text(words, 3)
    by_meaning: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for cosine, blob_id, ordinal in meant:
        by_meaning[blob_id].setdefault(ordinal, cosine)
    defined: defaultdict[int, list[Definition]] = defaultdict(list)
    for blob_id, *definition in symbols:
        defined[blob_id].append(Definition(*definition))
    chosen = named | defined.keys()
    chosen.update(_fullest(by_words, RANKED_BY_WORDS))
    chosen.update(_fullest(by_kindred, RANKED_BY_KINDRED))
    chosen.update(islice(by_meaning, RANKED_BY_MEANING))  # they come nearest first
    return {
        blob_id: TextEvidence(
            by_words.get(blob_id, {}),
            by_meaning.get(blob_id, {}),
            by_kindred.get(blob_id, {}),
            defined.get(blob_id, ()),
        )
        for blob_id in chosen
    }


def _by_text(chunks: Iterable[Row], column: int) -> dict[int, dict[int, float]]:
    """The chunks by the text they belong to, the best first; distances of 0 say nothing."""
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    telling = [row for row in chunks if row[column] < 0]
    telling.sort(key=itemgetter(column))
    for row in telling:
        found[row[0]][row[1]] = -row[column]
    return found


def _fullest(by_text: Mapping[int, Mapping[int, float]], most: int) -> list[int]:
    """The texts that say most with all their chunks, of those that say much with the best one."""
    if len(by_text) <= most:
        return list(by_text)
    looked_at = islice(by_text.items(), _LOOKED_AT * most)
    bodies = [(discounted_sum(chunks), blob_id) for blob_id, chunks in looked_at]
    return [blob_id for _, blob_id in nlargest(most, bodies)]
