"""Which files could answer this question? Four lists from the database, joined by text.

Words (BM25 over the chunks that the rarest terms pick), meaning (nearest vectors), file names and
definitions. Filters are part of every statement, never applied after a cut.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.model import FileKind
from codebase_mcp.search.query import Query, name_stems
from codebase_mcp.search.ranking import Candidate, Definition, Evidence
from codebase_mcp.tokens import TERM_SPACE, term_id

_SQL = load_queries("codebase_mcp.search", "search.sql")

# Scoring a chunk costs about a microsecond; so many may be picked by the rare terms of a query.
RARE_CHUNKS = 3_000
WORD_CHUNKS = 1_000
MEANING_CHUNKS = 150
NAMED_FILES = 200
DEFINITIONS = 50

# The row of term_frequency that counts the chunks themselves.
ALL_CHUNKS = -1


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

    id: int
    repository_id: UUID
    root: str
    name: str
    median_depth: float
    files_pending: int
    files_failed: int
    skipped: str
    indexed_at: datetime | None
    profile: str
    model: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the lists found. ``frequency`` is each query stem's inverse document frequency."""

    candidates: list[Candidate]
    frequency: dict[str, float]
    words_cut: bool


async def load_scope(
    tx: Transaction, query: Query, repository_id: UUID | None
) -> tuple[tuple[ScopedSnapshot, ...], dict[int, int]]:
    """The snapshots to search, and in how many chunks each term of the query occurs."""
    terms = [ALL_CHUNKS, *(term.id for term in query.terms)]
    snapshots, frequencies = await tx.fetch_many(
        [
            (_SQL["scope"], {"repository_id": repository_id}),
            (_SQL["frequencies"], {"terms": terms}),
        ]
    )
    return tuple(ScopedSnapshot(*row) for row in snapshots), dict(frequencies)


async def find_candidates(
    tx: Transaction,
    query: Query,
    vector: Vectors,
    frequencies: Mapping[int, int],
    snapshots: Sequence[ScopedSnapshot],
    filters: Filters,
) -> Found:
    """The files that one of the four lists finds, with the evidence in their texts."""
    idf = inverse_frequencies(query, frequencies)
    asked = sparse_literal(idf)
    scope = _scope(snapshots, filters)
    words, meaning, named, symbols = await tx.fetch_many(
        [
            _words_statement(query, frequencies, asked, scope, narrow=filters.narrow),
            (
                _SQL["meaning_in_scope" if filters.narrow else "meaning"],
                {"vector": _dense_literal(vector), "limit": MEANING_CHUNKS, **scope},
            ),
            (
                _SQL["names"],
                {
                    "name_terms": [term_id(word) for word in name_stems(query)],
                    "limit": NAMED_FILES,
                    **scope,
                },
            ),
            (
                _SQL["symbols"],
                {"names": [name.folded for name in query.names], "limit": DEFINITIONS},
            ),
        ]
    )
    evidence: dict[int, Evidence] = {blob_id: Evidence() for (blob_id,) in named}
    for blob_id, ordinal, score in words:
        evidence.setdefault(blob_id, Evidence()).words[ordinal] = score
    for blob_id, ordinal, cosine in meaning:
        evidence.setdefault(blob_id, Evidence()).meaning[ordinal] = cosine
    for blob_id, *definition in symbols:
        evidence.setdefault(blob_id, Evidence()).definitions.append(Definition(*definition))
    files = await tx.fetch_all(_SQL["files"], query=asked, blobs=list(evidence), **scope)
    candidates = []
    for snapshot_id, path, blob_id, language, kind, comments in files:
        of_text = evidence[blob_id]
        of_text.comments = max(comments, 0.0)
        candidates.append(
            Candidate(snapshot_id, path, blob_id, language, FileKind(kind), of_text)
        )
    by_stem = {term.text: idf[term.id] for term in query.terms}
    return Found(candidates, by_stem, len(words) == WORD_CHUNKS)


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
    rare, picked = [], 0
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
    query: Query,
    frequencies: Mapping[int, int],
    asked: str,
    scope: Mapping[str, Any],
    *,
    narrow: bool,
) -> tuple[Any, dict[str, Any]]:
    rare, together = rarest_terms(query, frequencies)
    parameters = {"query": asked, "rare": rare, "limit": WORD_CHUNKS, **scope}
    if narrow:
        return _SQL["words_in_scope"], parameters
    if together:
        return _SQL["common_words"], {**parameters, "bound": RARE_CHUNKS}
    return _SQL["words"], parameters


def _scope(snapshots: Sequence[ScopedSnapshot], filters: Filters) -> dict[str, Any]:
    return {
        "snapshots": [snapshot.id for snapshot in snapshots],
        "extensions": list(filters.extensions) if filters.extensions else None,
        "languages": list(filters.languages) if filters.languages else None,
        "directory": directory_pattern(filters.directory) if filters.directory else None,
    }


def _dense_literal(vector: Vectors) -> str:
    return "[" + ",".join(f"{x:.4f}" for x in vector.tolist()) + "]"
