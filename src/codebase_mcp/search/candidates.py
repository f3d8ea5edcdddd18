"""Which files could answer this question? Four lists, joined by text.

Words (BM25 over the chunks that the rarest terms select), meaning (nearest vectors), file names and
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
from codebase_mcp.search.evidence import Candidate, Definition, TextEvidence, discounted_sum
from codebase_mcp.search.fusion import ChunkKey, fuse
from codebase_mcp.search.lists import ListSource
from codebase_mcp.search.query import Query, inverse_frequencies
from codebase_mcp.search.scope import QueryVector, Scope
from codebase_mcp.text.tokens import word_stems

# How many texts of each list are ranked, beside all that the lists of names and definitions found.
# In a trial 99.4 % of the targets were among the first 50 by words.
RANKED_BY_WORDS = 60
RANKED_BY_MEANING = 40
RANKED_BY_EXPANSION = 20

# Where fewer chunks than this hold a word of the query, the nearest in meaning match as well. A
# chunk that has nothing to do with a query seldom has a higher cosine than the second number.
NEAR_CHUNKS = 10
LEAST_NEAR = 0.3

# The texts with the best sums are looked for among this many times as many with the best chunks:
# others hardly get there.
_PRESELECTED = 3


@dataclass(frozen=True, slots=True)
class FoundCandidates:
    """What the lists found.

    ``frequency`` is each query stem's inverse document frequency, ``unknown`` the share of the
    query's own words that no chunk holds, ``least_meaning`` the cosine of the last chunk in the
    list of meaning. ``expansion_coverage`` says how much of the query's expansion terms the best
    chunk by them holds. ``total`` is the number of matching chunks; beyond `COUNT_LIMIT` it only
    says that there are more. Whether a chunk matches depends on no other chunk, so narrower filters
    never leave more.
    """

    candidates: list[Candidate]
    frequency: dict[str, float]
    unknown: float
    least_meaning: float
    expansion_coverage: float
    total: int


async def find_candidates(
    source: ListSource, query: Query, vectors: Sequence[QueryVector], scope: Scope
) -> FoundCandidates:
    """The files that one of the four lists finds, with the evidence in their texts.

    Each model in scope has its own list of meaning. With a secondary model among them, every chunk
    that one model finds is compared by the other one too.
    """
    idf = inverse_frequencies((term.id for term in query.terms), scope.frequencies)
    lists = await source.find(query, idf, vectors)
    nearest = await _nearest_chunks(source, vectors, lists.meanings, scope.secondary)
    texts = _evidence(lists.words, nearest, lists.definitions, lists.named_texts)
    least = nearest[-1][0] if nearest else 0.0
    if query.expected:
        for blob_id, name in await source.defined_names(texts, query.expected):
            texts[blob_id].defined_stems |= query.expected.intersection(word_stems(name))
    candidates = []
    place = {snapshot.id: number for number, snapshot in enumerate(scope.snapshots)}
    files = await source.files(texts, idf)
    for row in sorted(files, key=lambda row: (row[1], place.get(row[0], 0))):
        snapshot_id, path, blob_id, language, kind, chunk_count, comments = row
        of_text = texts[blob_id]
        of_text.chunk_count = chunk_count
        of_text.comments = max(comments, 0.0)
        of_text.least_meaning = least
        of_text.is_only_holder = lists.holders == [blob_id]
        candidates.append(Candidate(snapshot_id, path, blob_id, language, FileKind(kind), of_text))
    by_stem = {term.text: idf[term.id] for term in query.terms}
    spoken = [term for term in query.terms if term.spoken]
    unknown = sum(not scope.frequencies.get(term.id) for term in spoken) / (len(spoken) or 1)
    return FoundCandidates(
        candidates,
        by_stem,
        unknown,
        least,
        expansion_coverage=_expansion_coverage(lists.words, scope),
        total=max(lists.holding_count, _near_count(nearest)) if candidates else 0,
    )


def _near_count(nearest: Sequence[tuple[float, int, int]]) -> int:
    """How many chunks, `NEAR_CHUNKS` at most, are near in meaning; the nearest come first."""
    return sum(cosine >= LEAST_NEAR for cosine, _, _ in nearest[:NEAR_CHUNKS])


def _expansion_coverage(words: Iterable[Row], scope: Scope) -> float:
    """The best chunk's score by expansion terms, as a share of their weights."""
    best = -min((expansion for *_, expansion in words), default=0.0)
    return best / (sum(scope.expansion_weights().values()) or 1.0)


async def _nearest_chunks(
    source: ListSource,
    vectors: Sequence[QueryVector],
    meanings: Sequence[Sequence[Row]],
    secondary: Profile | None,
) -> list[tuple[float, int, int]]:
    """Cosine, blob id and ordinal of what the lists of meaning found, nearest first, one scale."""
    primary_cosines: dict[ChunkKey, float] = {}
    secondary_cosines: dict[ChunkKey, float] = {}
    cosines_of = [
        secondary_cosines if vector.profile == secondary else primary_cosines for vector in vectors
    ]
    for vector, known, found in zip(vectors, cosines_of, meanings, strict=True):
        for chunk, cosine in scaled_cosines(vector, found):
            known[chunk] = max(cosine, known.get(chunk, cosine))
    if any(vector.profile == secondary for vector in vectors):
        every = primary_cosines.keys() | secondary_cosines.keys()
        missing = [every - known.keys() for known in cosines_of]
        compared = await source.cosines(list(zip(vectors, missing, strict=True)))
        for vector, known, found in zip(vectors, cosines_of, compared, strict=True):
            known.update(scaled_cosines(vector, found))
    fused = fuse(primary_cosines, secondary_cosines)
    nearest = [(cosine, blob_id, ordinal) for (blob_id, ordinal), cosine in fused.items()]
    nearest.sort(key=lambda chunk: (-chunk[0], *chunk[1:]))
    return nearest


def scaled_cosines(vector: QueryVector, found: Iterable[Row]) -> Iterator[tuple[ChunkKey, float]]:
    """The cosines of chunks, on the built-in model's scale."""
    scale = vector.profile.scale
    if scale == BUILTIN_SCALE:
        return (((blob_id, ordinal), -distance) for blob_id, ordinal, distance in found)
    return (((blob_id, ordinal), scale.apply(-distance)) for blob_id, ordinal, distance in found)


def _evidence(
    words: Iterable[Row],
    nearest: Iterable[tuple[float, int, int]],
    definitions: Iterable[tuple[int, Definition]],
    named_texts: set[int],
) -> dict[int, TextEvidence]:
    """What the lists found in the texts that are worth ranking."""
    by_words, by_expansion = _by_text(words, 2), _by_text(words, 3)
    by_meaning: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for cosine, blob_id, ordinal in nearest:
        by_meaning[blob_id].setdefault(ordinal, cosine)
    defined: defaultdict[int, list[Definition]] = defaultdict(list)
    for blob_id, definition in definitions:
        defined[blob_id].append(definition)
    chosen = named_texts | defined.keys()
    chosen.update(_best_texts(by_words, RANKED_BY_WORDS))
    chosen.update(_best_texts(by_expansion, RANKED_BY_EXPANSION))
    chosen.update(islice(by_meaning, RANKED_BY_MEANING))  # they come nearest first
    return {
        blob_id: TextEvidence(
            by_words.get(blob_id, {}),
            by_meaning.get(blob_id, {}),
            by_expansion.get(blob_id, {}),
            defined.get(blob_id, ()),
        )
        for blob_id in chosen
    }


def _by_text(chunks: Iterable[Row], column: int) -> dict[int, dict[int, float]]:
    """The scores of chunks by text and ordinal, best first, without those of 0.

    ``column`` holds a distance: a score, negated.
    """
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    scored = [row for row in chunks if row[column] < 0]
    scored.sort(key=itemgetter(column, 0, 1))
    for row in scored:
        found[row[0]][row[1]] = -row[column]
    return found


def _best_texts(by_text: Mapping[int, Mapping[int, float]], most: int) -> list[int]:
    """The texts with the best sums over their chunks; ``by_text`` has the best chunks first."""
    if len(by_text) <= most:
        return list(by_text)
    preselected = islice(by_text.items(), _PRESELECTED * most)
    sums = [(discounted_sum(chunks), blob_id) for blob_id, chunks in preselected]
    return [blob_id for _, blob_id in nlargest(most, sums)]
