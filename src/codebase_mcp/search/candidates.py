"""Which files could answer this question? Four lists from the database, joined by text.

Words (BM25 over the chunks that the rarest terms pick), meaning (nearest vectors), file names and
definitions. Filters are part of every statement, never applied after a cut.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.vectors import EXACT_VECTORS, probes, sized
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.model import FileKind
from codebase_mcp.search.query import Query, name_stems
from codebase_mcp.search.ranking import Candidate, Definition, Evidence
from codebase_mcp.tokens import ALL_CHUNKS, TERM_SPACE, term_id

_SQL = load_queries("codebase_mcp.search", "search.sql")

# Scoring a chunk costs about a microsecond; so many may be picked by the rare terms of a query.
RARE_CHUNKS = 2_000
WORD_CHUNKS = 1_000
MEANING_CHUNKS = 150
FILES_PER_NAME = 6
DEFINITIONS = 12

# So many texts go on to ranking: the best by words, the best by meaning, and all that the lists of
# names and definitions found. A trial found 99.4 % of the targets among the first 50 by words.
RANKED_BY_WORDS = 60
RANKED_BY_MEANING = 25

# So few texts are named one by one where filters leave no more.
FEW_TEXTS = 2_000


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
    """What the lists found. ``frequency`` is each query stem's inverse document frequency."""

    candidates: list[Candidate]
    frequency: dict[str, float]
    words_cut: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to search: the snapshots, what the filters leave of them, how rare the terms are.

    ``texts`` are the blobs that pass the filters, None where there are no filters or too many pass.
    ``frequencies`` says in how many chunks of the project each term of the query occurs.
    """

    snapshots: tuple[ScopedSnapshot, ...]
    filters: Filters
    texts: list[int] | None
    frequencies: Mapping[int, int]

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """With what the snapshots were made: one profile, unless models were changed meanwhile."""
        return tuple({s.profile.id: s.profile for s in self.snapshots}.values())

    def parameters(self) -> dict[str, Any]:
        """The filters as parameters of the statements."""
        return {
            "snapshots": [snapshot.id for snapshot in self.snapshots],
            **_filter_parameters(self.filters),
        }


async def load_scope(tx: Transaction, query: Query, filters: Filters) -> Scope:
    """The snapshots to search, and the statistics that choosing and scoring need."""
    terms = [ALL_CHUNKS, *(term.id for term in query.terms)]
    repository = {"repository_id": filters.repository_id}
    statements: list[tuple[Any, dict[str, Any]]] = [
        (_SQL["scope"], repository),
        (_SQL["frequencies"], {"terms": terms}),
    ]
    if filters.narrow:
        parameters = repository | _filter_parameters(filters) | {"most": FEW_TEXTS}
        statements.append((_SQL["scope_texts"], parameters))
    snapshots, frequencies, *left = await tx.fetch_many(statements)
    texts: list[int] | None = None
    if left:
        chunks, passing = left[0][0]
        texts = passing if chunks <= EXACT_VECTORS else None
    known = tuple(ScopedSnapshot.from_row(row) for row in snapshots)
    return Scope(known, filters, texts, dict(frequencies))


async def find_candidates(
    tx: Transaction, query: Query, asked_of: Sequence[Asked], scope: Scope
) -> Found:
    """The files that one of the four lists finds, with the evidence in their texts.

    Each model in scope has a list of meaning of its own.
    """
    idf = inverse_frequencies(query, scope.frequencies)
    asked = sparse_literal(idf)
    parameters = scope.parameters()
    _, words, named, symbols, *meanings = await tx.fetch_many(
        [
            (_SQL["prepare"], {"probes": probes(scope.frequencies.get(ALL_CHUNKS, 0))}),
            _words_statement(query, asked, scope, parameters),
            (
                _SQL["names"],
                {"groups": _name_groups(query), "limit": FILES_PER_NAME, **parameters},
            ),
            (
                _SQL["symbols"],
                {"names": [name.folded for name in query.names], "limit": DEFINITIONS},
            ),
            *(_meaning_statement(asked_by, scope, parameters) for asked_by in asked_of),
        ]
    )
    evidence: defaultdict[int, Evidence] = defaultdict(Evidence)
    for blob_id, ordinal, distance in words:
        evidence[blob_id].add_words(ordinal, -distance)
    meant = [
        (of_model.profile.scale.apply(-distance), blob_id, ordinal)
        for of_model, found in zip(asked_of, meanings, strict=True)
        for blob_id, ordinal, distance in found
    ]
    # The vector index goes on to further lists in an order that is only nearly right.
    for cosine, blob_id, ordinal in sorted(meant, key=itemgetter(0), reverse=True):
        evidence[blob_id].meaning.setdefault(ordinal, cosine)
    for blob_id, *definition in symbols:
        evidence[blob_id].definitions.append(Definition(*definition))
    chosen = _chosen(evidence, {blob_id for (blob_id,) in named})
    files = await tx.fetch_all(_SQL["files"], query=asked, blobs=list(chosen), **parameters)
    candidates = []
    for snapshot_id, path, blob_id, language, kind, comments in files:
        of_text = chosen[blob_id]
        of_text.comments = max(comments, 0.0)
        candidates.append(Candidate(snapshot_id, path, blob_id, language, FileKind(kind), of_text))
    by_stem = {term.text: idf[term.id] for term in query.terms}
    return Found(candidates, by_stem, len(words) == WORD_CHUNKS)


def _chosen(evidence: Mapping[int, Evidence], named: set[int]) -> dict[int, Evidence]:
    """The evidence that is worth ranking."""
    by_words = sorted(((e.body, b) for b, e in evidence.items() if e.words), reverse=True)
    by_meaning = sorted(
        ((e.best_meaning, b) for b, e in evidence.items() if e.meaning), reverse=True
    )
    chosen = named | {b for b, e in evidence.items() if e.definitions}
    chosen.update(b for _, b in by_words[:RANKED_BY_WORDS])
    chosen.update(b for _, b in by_meaning[:RANKED_BY_MEANING])
    return {blob_id: evidence.get(blob_id) or Evidence() for blob_id in chosen}


def inverse_frequencies(query: Query, frequencies: Mapping[int, int]) -> dict[int, float]:
    """BM25's inverse document frequency of each query term, ln(1 + (N - n + ½) / (n + ½))."""
    total = frequencies.get(ALL_CHUNKS, 0)
    counts = {term.id: frequencies.get(term.id, 0) for term in query.terms}
    return {term: math.log1p((total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def rarest_terms(query: Query, frequencies: Mapping[int, int]) -> tuple[list[int], bool]:
    """The terms that pick chunks to score, and whether a chunk must hold all of them.

    As many of the rarest as pick a bounded number together. Where even the rarest is common, the
    two rarest, both of them.
    """
    present = sorted(
        (term.id for term in query.terms if frequencies.get(term.id)), key=frequencies.__getitem__
    )
    if present and frequencies[present[0]] > RARE_CHUNKS:
        return present[:2], True
    rare: list[int] = []
    picked = 0
    for term in present:
        picked += frequencies[term]
        if rare and picked > RARE_CHUNKS:
            break
        rare.append(term)
    return rare, False


def sparse_literal(weights: Mapping[int, float]) -> str:
    """A sparsevec as text; its positions are 1-based there."""
    inner = ",".join(f"{term + 1}:{weight:.5f}" for term, weight in sorted(weights.items()))
    return f"{{{inner}}}/{TERM_SPACE}"


def dense_literal(vector: Vectors) -> str:
    """A halfvec as text."""
    return "[" + ",".join(f"{x:.4f}" for x in vector.tolist()) + "]"


def directory_pattern(directory: str) -> str:
    """A regular expression for paths at or below a directory; ``*`` and ``**`` as in a shell."""
    out = []
    for piece in re.split(r"(\*\*/|\*\*|\*)", directory.strip("/")):
        match piece:
            case "**/":
                out.append("(?:.*/)?")
            case "**":
                out.append(".*")
            case "*":
                out.append("[^/]*")
            case _:
                out.append(re.escape(piece))
    return f"^{''.join(out)}(?:/|$)"


def _words_statement(
    query: Query, asked: str, scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    rare, together = rarest_terms(query, scope.frequencies)
    bound = {"query": asked, "rare": rare, "limit": WORD_CHUNKS}
    if scope.texts is not None:
        return _SQL["words_in_texts"], {**bound, "texts": scope.texts}
    if scope.filters.narrow:
        return _SQL["words_filtered"], {**bound, **parameters}
    if together:
        return _SQL["common_words"], {**bound, "bound": RARE_CHUNKS}
    return _SQL["words"], bound


def _meaning_statement(
    asked: Asked, scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    bound = {"vector": dense_literal(asked.vector), "limit": MEANING_CHUNKS}
    name = "meaning"
    if scope.texts is not None:
        name, bound = "meaning_in_texts", {**bound, "texts": scope.texts}
    elif scope.filters.narrow:
        name, bound = "meaning_filtered", {**bound, **parameters}
    return sized(_SQL[name], len(asked.vector), asked.profile.id), bound


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
    }
