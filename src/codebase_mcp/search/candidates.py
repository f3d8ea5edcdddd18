"""Which files could answer this question? Four lists from the database, joined by text.

Words (BM25 over the chunks that the rarest terms pick), meaning (nearest vectors), file names and
definitions. Filters are part of every statement, never applied after a cut.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from itertools import accumulate, islice, pairwise
from operator import itemgetter
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.nearest import sealed_times
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.database.vectors import sized
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.embedding.scale import BUILTIN_SCALE
from codebase_mcp.model import FileKind
from codebase_mcp.search.directories import directory_bounds, directory_pattern
from codebase_mcp.search.fusion import Place, fuse
from codebase_mcp.search.query import Query, name_stems
from codebase_mcp.search.ranking import Candidate, Definition, Evidence, body_of
from codebase_mcp.tokens import ALL_CHUNKS, TERM_SPACE, term_id

_SQL = load_queries("codebase_mcp.search", "search.sql")

# Scoring a chunk costs about a microsecond; so many may be picked by the rare terms of a query.
RARE_CHUNKS = 2_000
LENT_CHUNKS = 500
WORD_CHUNKS = 1_000
MEANING_CHUNKS = 150
FILES_PER_NAME = 6
DEFINITIONS = 12

# A word in more chunks is not looked for in one text alone.
HOLDING_CHUNKS = 100

# So many texts go on to ranking: the best by words, the best by meaning, and all that the lists of
# names and definitions found. A trial found 99.4 % of the targets among the first 50 by words.
RANKED_BY_WORDS = 60
RANKED_BY_MEANING = 40
RANKED_BY_KINDRED = 20

# A text that is not among so many times as many by its best chunk hardly gets there by all of them.
_LOOKED_AT = 3

# So few texts are named one by one where filters leave no more. Of more, so many as pass are found
# by going through the nearest in order.
FEW_TEXTS = 1_000

# How many the vector index looks at closely: of 42,710 chunks 98.0 % of the 10 nearest are found,
# and 98.4 % with 500, which takes half as long again. Where filters let few of them pass, it goes
# on, but not without end.
_SEARCHED = {"searched": "300", "most": "50000"}


@dataclass(frozen=True, slots=True)
class Filters:
    """What a file must be to be searched; None where anything goes.

    ``directory`` is relative to the repository's root and may hold ``*`` and ``**``; extensions
    and languages are in lower case, extensions without a dot.
    """

    repository_id: UUID | None = None
    extensions: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    directory: str | None = None

    @property
    def narrow(self) -> bool:
        """Whether they leave any file out."""
        return self != Filters()


@dataclass(frozen=True, slots=True)
class ScopedSnapshot:
    """A snapshot that a search looks at, with the state of its index."""

    profile: Profile
    id: int
    repository_id: UUID
    root: str
    name: str
    median_depth: float
    files_pending: int
    files_failed: int
    skipped: str
    indexed_at: datetime | None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> ScopedSnapshot:
        """From the columns of the statement ``scope``."""
        return cls(Profile.from_row(row[9:]), *row[:9])


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as a vector of one model."""

    profile: Profile
    vector: Vectors


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


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to search: the snapshots, what the filters leave of them, how rare the terms are.

    ``second`` is the stronger model's profile, where the project has one and it is wanted.
    ``texts`` are the blobs that pass the filters, None where there are no filters or too many pass;
    ``hidden`` the blobs that are stored but not searched; both as arrays in text form.
    ``frequencies`` says in how many chunks of the project each term of the query, or lent to it,
    occurs; ``lent`` what each lent one is worth; ``sealed`` up to which time each profile's vectors
    are in its index.
    """

    snapshots: tuple[ScopedSnapshot, ...]
    filters: Filters
    texts: str | None
    hidden: str
    frequencies: Mapping[int, int]
    lent: Mapping[int, float]
    sealed: Mapping[int, int]
    second: Profile | None = None

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """With what the snapshots were made: one profile, unless models were changed meanwhile."""
        return tuple({s.profile.id: s.profile for s in self.snapshots}.values())

    def parameters(self) -> dict[str, Any]:
        """The filters as parameters of the statements."""
        return {
            "snapshots": array_literal(snapshot.id for snapshot in self.snapshots),
            "hidden": self.hidden,
            "narrow": self.filters.narrow,
            **_filter_parameters(self.filters),
        }


async def load_scope(
    tx: Transaction,
    query: Query,
    lent: Mapping[int, float],
    filters: Filters,
    *,
    both_tiers: bool = False,
) -> Scope:
    """The snapshots to search, and the statistics that choosing and scoring need."""
    terms = array_literal(counted_terms(query, lent))
    repository = {"repository_id": filters.repository_id}
    statements: list[tuple[Any, dict[str, Any]]] = [
        (_SQL["scope"], repository),
        (_SQL["frequencies"], {"terms": terms}),
    ]
    if filters.narrow:
        # Its plan depends on the filters, so it comes before the others' are settled.
        parameters = repository | _filter_parameters(filters) | {"most": FEW_TEXTS + 1}
        statements.append((_SQL["scope_texts"], parameters))
    if both_tiers:
        statements.append((_SQL["second_tier"], {}))
    statements.append((_SQL["prepare"], _SEARCHED))
    snapshots, frequencies, *left, [prepared] = await tx.fetch_many(statements)
    second = [Profile.from_row(row) for row in left.pop()] if both_tiers else []
    texts = None
    if left and len(left[0]) <= FEW_TEXTS:
        texts = array_literal({blob_id for (blob_id,) in left[0]})
    known = tuple(ScopedSnapshot.from_row(row) for row in snapshots)
    return Scope(
        known,
        filters,
        texts,
        array_literal(prepared[-1]),
        dict(frequencies),
        lent,
        sealed_times(prepared[-2]),
        second[0] if second else None,
    )


def counted_terms(query: Query, lent: Mapping[int, float]) -> list[int]:
    """The terms whose frequencies a search needs."""
    return [ALL_CHUNKS, *(term.id for term in query.terms), *lent]


async def load_frequencies(tx: Transaction, terms: Iterable[int]) -> dict[int, int]:
    """In how many chunks of the project each of these terms occurs, if in any."""
    return dict(await tx.fetch_all(_SQL["frequencies"], terms=array_literal(terms)))


async def find_candidates(
    tx: Transaction, query: Query, asked_of: Sequence[Asked], scope: Scope
) -> Found:
    """The files that one of the four lists finds, with the evidence in their texts.

    Each model in scope has a list of meaning of its own; where the stronger one is among them, both
    say of every chunk that either found how near it is.
    """
    idf = inverse_frequencies((term.id for term in query.terms), scope.frequencies)
    asked = sparse_literal(idf)
    parameters = scope.parameters()
    words, named, symbols, *others = await tx.fetch_many(
        [
            _words_statement(query, asked, scope, parameters),
            (
                _SQL["names"],
                {"groups": _name_groups(query), "limit": FILES_PER_NAME, **parameters},
            ),
            (
                _SQL["symbols"],
                {
                    "names": [name.folded for name in query.names],
                    "limit": DEFINITIONS,
                    **parameters,
                },
            ),
            *_holders_statement(query, scope),
            *(_meaning_statement(asked_by, scope, parameters) for asked_by in asked_of),
        ]
    )
    holders = others.pop(0) if len(others) > len(asked_of) else []
    meant = await _meant(tx, asked_of, others, scope.second)
    texts = _evidence(words, meant, symbols, {blob for (blob,) in named})
    parameters["blobs"] = array_literal(texts)
    files = await tx.fetch_all(_SQL["files"], query=asked, **parameters)
    candidates = []
    for snapshot_id, path, blob_id, language, kind, chunk_count, comments in files:
        of_text = texts[blob_id]
        of_text.chunk_count = chunk_count
        of_text.comments = max(comments, 0.0)
        of_text.is_only_holder = holders == [(blob_id,)]
        candidates.append(Candidate(snapshot_id, path, blob_id, language, FileKind(kind), of_text))
    by_stem = {term.text: idf[term.id] for term in query.terms}
    least = meant[-1][0] if meant else 0.0
    spoken = [term for term in query.terms if term.spoken]
    unknown = sum(not scope.frequencies.get(term.id) for term in spoken) / (len(spoken) or 1)
    return Found(candidates, by_stem, unknown, least, len(words) == WORD_CHUNKS)


def _holders_statement(query: Query, scope: Scope) -> list[tuple[Any, dict[str, Any]]]:
    """Which texts hold the query's only word, if it is so rare that one alone may."""
    term = query.whole
    if not term or not 0 < scope.frequencies.get(term, 0) <= HOLDING_CHUNKS:
        return []
    return [(_SQL["holders"], {"term": term, "hidden": scope.hidden})]


async def _meant(
    tx: Transaction,
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
        found_too = await tx.fetch_many(
            [_cosine_statement(of, places) for of, places in zip(asked_of, missing, strict=True)]
        )
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


def _cosine_statement(asked: Asked, places: Iterable[Place]) -> tuple[Any, dict[str, Any]]:
    wanted = list(places)
    bound = {
        "vector": dense_literal(asked.vector),
        "blobs": array_literal(blob_id for blob_id, _ in wanted),
        "ordinals": array_literal(ordinal for _, ordinal in wanted),
    }
    return sized(_SQL["cosines"], len(asked.vector), asked.profile.id), bound


def _evidence(
    words: Iterable[Row],
    meant: Iterable[tuple[float, int, int]],
    symbols: Iterable[Row],
    named: set[int],
) -> dict[int, Evidence]:
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
        blob_id: Evidence(
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
    bodies = [(body_of(chunks), blob_id) for blob_id, chunks in looked_at]
    return [blob_id for _, blob_id in nlargest(most, bodies)]


def inverse_frequencies(terms: Iterable[int], frequencies: Mapping[int, int]) -> dict[int, float]:
    """BM25's inverse document frequency of each term, ln(1 + (N - n + ½) / (n + ½))."""
    total = frequencies.get(ALL_CHUNKS, 0)
    counts = {term: frequencies.get(term, 0) for term in terms}
    return {term: math.log1p((total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def rarest_terms(query: Query, frequencies: Mapping[int, int]) -> tuple[list[int], bool]:
    """The terms that pick chunks to score, and whether a chunk must hold all of them.

    As many of the rarest as pick a bounded number together. Where even the rarest is common, the
    two rarest, both of them.
    """
    present = _by_rarity((term.id for term in query.terms), frequencies)
    if present and frequencies[present[0]] > RARE_CHUNKS:
        return present[:2], True
    return _picking(present, frequencies, RARE_CHUNKS, at_least=1), False


def lent_terms(lent: Iterable[int], frequencies: Mapping[int, int]) -> list[int]:
    """The terms lent to a query that pick chunks too: the rarest, none where all are common."""
    return _picking(_by_rarity(lent, frequencies), frequencies, LENT_CHUNKS, at_least=0)


def _by_rarity(terms: Iterable[int], frequencies: Mapping[int, int]) -> list[int]:
    return sorted((t for t in terms if frequencies.get(t)), key=frequencies.__getitem__)


def _picking(
    terms: Sequence[int], frequencies: Mapping[int, int], most: int, *, at_least: int
) -> list[int]:
    """As many of the first terms as pick so many chunks together."""
    totals = accumulate(frequencies[term] for term in terms)
    count = sum(1 for total in totals if total <= most)
    return list(terms[: max(count, at_least)])


def array_literal(numbers: Iterable[int]) -> str:
    """An array as text: some times faster than letting the driver write it."""
    return "{" + ",".join(map(str, numbers)) + "}"


def sparse_literal(weights: Mapping[int, float]) -> str:
    """A sparsevec as text; its positions are 1-based there."""
    inner = ",".join(f"{term + 1}:{weight:.5f}" for term, weight in sorted(weights.items()))
    return f"{{{inner}}}/{TERM_SPACE}"


def dense_literal(vector: Vectors) -> str:
    """A halfvec as text."""
    return "[" + ",".join(f"{x:.4f}" for x in vector.tolist()) + "]"


def _words_statement(
    query: Query, asked: str, scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    rare, together = rarest_terms(query, scope.frequencies)
    lent = lent_terms(scope.lent, scope.frequencies)
    idf = inverse_frequencies(scope.lent, scope.frequencies)
    bound = {
        "query": asked,
        "kindred": sparse_literal({term: scope.lent[term] * idf[term] for term in idf}),
        "rare": array_literal(rare if together else {*rare, *lent}),
        "limit": WORD_CHUNKS,
    }
    if scope.texts is not None:
        return _SQL["words_in_texts"], {**bound, "texts": scope.texts}
    name = "common_words" if together else "words"
    if together:
        bound |= {"lent": array_literal(lent), "bound": RARE_CHUNKS + LENT_CHUNKS}
    if scope.filters.narrow:
        return _SQL[f"{name}_filtered"], {**bound, **parameters}
    return _SQL[name], {**bound, "hidden": scope.hidden}


def _meaning_statement(
    asked: Asked, scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    profile = asked.profile
    bound = {"vector": dense_literal(asked.vector), "limit": MEANING_CHUNKS}
    sealed = scope.sealed.get(profile.id)
    name = "meaning" if sealed is None else "meaning_sealed"
    if scope.texts is not None:
        name, bound = "meaning_in_texts", {**bound, "texts": scope.texts}
    elif scope.filters.narrow:
        name, bound = f"{name}_filtered", {**bound, **parameters}
    else:
        bound["hidden"] = scope.hidden
    return sized(_SQL[name], len(asked.vector), profile.id, sealed or 0), bound


def _name_groups(query: Query) -> list[str]:
    """Each word of the query and each two neighbours, as arrays of terms in text form."""
    terms = [term_id(stem) for stem in name_stems(query)]
    singles = [f"{{{term}}}" for term in dict.fromkeys(terms)]
    return singles + [f"{{{a},{b}}}" for a, b in pairwise(terms)]


def _filter_parameters(filters: Filters) -> dict[str, Any]:
    return {
        "extensions": list(filters.extensions) if filters.extensions else None,
        "languages": list(filters.languages) if filters.languages else None,
        "directory": directory_pattern(filters.directory) if filters.directory else None,
        **directory_bounds(filters.directory),
    }
