"""Searches observations, and packs those that are worth their tokens into a prompt.

Two candidate lists come from the database: by words (BM25 over the observations with the rarest
terms) and by meaning (nearest vectors). Every statement applies the filters itself.
``search/relevance.py`` combines the scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import dense_literal, sparse_literal
from codebase_mcp.database.nearest import EXACT_VECTORS, probes
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.embedding.embedder import Vectors, as_sent
from codebase_mcp.embedding.models import Model, Models
from codebase_mcp.embedding.profile import Scale
from codebase_mcp.records.memory import (
    Observation,
    load_observations,
    model_of,
    newest,
    newest_of_each_type,
)
from codebase_mcp.search.query import (
    RARE_CHUNKS,
    Query,
    inverse_frequencies,
    parse_query,
    rarest_terms,
    without_courtesy,
)
from codebase_mcp.search.relevance import FUSED, Match, Weighing, nearness, rank
from codebase_mcp.text.tokens import ALL_CHUNKS

_SQL = load_queries("codebase_mcp.records", "memory_search.sql")

# The document frequency of a term is counted up to this limit.
COUNTED = 3_000

# How many candidates a prompt is packed from: answers to its question, and the newest per type.
CANDIDATES = 100

# How many candidates are ranked: the best by terms, and those with the nearest vectors.
BY_WORDS = 80
NEAREST_VECTORS = 120

# Up to this many observations are compared exactly; each has several vectors.
FEW_OBSERVATIONS = EXACT_VECTORS // 4


@dataclass(frozen=True, slots=True)
class MemoryFilters:
    """Filters for observations: all the tags, and every field that is not None."""

    tags: tuple[str, ...] = ()
    type: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """Statistics for choosing statements and for scoring.

    ``compared`` is the number of observations that pass the filters, or a lower bound. With ``few``
    all of them can be compared; with ``mixed`` some have vectors of another model; ``narrow`` says
    that there are filters. ``vectors`` is an estimate. ``frequencies`` are the numbers of
    observations with each term of the question.
    """

    compared: int
    few: bool
    mixed: bool
    narrow: bool
    total: int
    vectors: int
    frequencies: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Question:
    """A query as terms and as a vector, with the scale of its model's cosines."""

    query: Query
    vector: Vectors
    model: Model
    scale: Scale


async def ask(models: Models, text: str) -> Question:
    """Parse and embed a question; call it before a transaction begins, as embedding takes long.

    Raises:
        EmbeddingUnavailable: the embedder cannot be reached.
    """
    model = await models.configured()
    question = without_courtesy(await as_sent(model.embedder, text))
    vector = await model.embedder.embed_query(question)
    return Question(parse_query(text), vector, model, await models.scale_of(model))


async def search_observations(
    tx: Transaction,
    question: Question,
    filters: MemoryFilters,
    *,
    limit: int,
    weighing: Weighing = FUSED,
) -> list[Observation]:
    """The observations relevant to a question, best first, with their relevance."""
    terms = [term.id for term in question.query.terms]
    parameters = {
        "terms": terms,
        "vector": dense_literal(question.vector),
        "model": model_of(question.model),
        "tags": list(filters.tags) or None,
        "type": filters.type,
        "session_id": filters.session_id,
    }
    scope = await _load_scope(tx, parameters, narrow=filters != MemoryFilters())
    idf = inverse_frequencies(terms, scope.frequencies)
    matches = await _find_matches(tx, question, scope, parameters | {"query": sparse_literal(idf)})
    ranked = rank(question.query, idf, matches, scope.compared, weighing)[:limit]
    relevance = {match.id: match.relevance for match in ranked}
    return await load_observations(tx, list(relevance), relevance)


async def worth_injecting(
    tx: Transaction,
    *,
    question: Question | None,
    tags: tuple[str, ...],
    session_id: str | None,
) -> list[Observation]:
    """The candidates for a prompt: answers to the question, and the newest of a session.

    Without a question the newest of each type. Answers come last: `pack` uses the last of several
    equal observations, and only answers have a relevance.
    """
    own = (
        [] if session_id is None else await newest(tx, CANDIDATES, session_id=session_id, tags=tags)
    )
    if question is None:
        return [*own, *await newest_of_each_type(tx, CANDIDATES, tags)]
    return [*own, *await search_observations(tx, question, MemoryFilters(tags), limit=CANDIDATES)]


async def _load_scope(tx: Transaction, parameters: Mapping[str, Any], *, narrow: bool) -> _Scope:
    _, [[counted, mixed, passing]], [[estimated, vectors]], frequencies = await tx.fetch_many(
        [
            (_SQL["prepare"], {}),
            (_SQL["facts"], {**parameters, "narrow": narrow, "most": FEW_OBSERVATIONS + 1}),
            (_SQL["estimates"], {}),
            (_SQL["frequencies"], {**parameters, "most": COUNTED}),
        ]
    )
    total = counted
    if counted > FEW_OBSERVATIONS:  # the estimate may be old, or not there yet
        total = max(counted, estimated, *(count for _, count in frequencies))
    compared = passing if narrow else total
    return _Scope(
        compared=compared,
        few=compared <= FEW_OBSERVATIONS,
        mixed=mixed,
        narrow=narrow,
        total=total,
        vectors=max(vectors, 0),
        frequencies={ALL_CHUNKS: total, **dict(frequencies)},
    )


async def _find_matches(
    tx: Transaction, question: Question, scope: _Scope, parameters: Mapping[str, Any]
) -> list[Match[UUID]]:
    _, by_words, by_meaning = await tx.fetch_many(
        [
            (_SQL["probe"], {"probes": probes(scope.vectors)}),
            _words_statement(question.query, scope, parameters),
            _meaning_statement(len(question.vector), scope, parameters),
        ]
    )
    ids: list[UUID] = [identity for (identity,) in {*by_words, *by_meaning}]
    rows = await tx.fetch_all(_SQL["evidence"], **parameters, ids=ids)
    scale = question.scale.apply
    return [
        Match(
            identity,
            words,
            nearness(
                None if whole is None else scale(whole),
                None if passage is None else scale(passage),
            ),
        )
        for identity, words, whole, passage in rows
    ]


def _words_statement(
    query: Query, scope: _Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    bound = {**parameters, "limit": BY_WORDS}
    if scope.few and (scope.narrow or scope.total <= RARE_CHUNKS):
        return _SQL["words"], {**bound, "picking": parameters["terms"]}
    rare, together = rarest_terms(query, scope.frequencies)
    if together:
        return _SQL["common_words"], {**bound, "picking": rare, "bound": RARE_CHUNKS}
    return _SQL["words"], {**bound, "picking": rare}


def _meaning_statement(
    dimension: int, scope: _Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    bound = {**parameters, "limit": NEAREST_VECTORS}
    is_whole = not (scope.narrow or scope.mixed)
    if not scope.few:
        name = "meaning_indexed" if is_whole else "meaning_indexed_filtered"
        return write_numbers(_SQL[name], dimension=dimension), bound
    return _SQL["meaning" if is_whole else "meaning_filtered"], bound


BYTES_PER_TOKEN = 4
TOKEN_METHOD = "utf8_bytes/4"

# The relevance to the question counts most; type and age count less, and equally.
RELEVANCE_WEIGHT = 3.0
TYPE_WORTH: Mapping[str, float] = {
    "Decision": 1.0,
    "Pattern": 0.8,
    "Insight": 0.6,
    "Summary": 0.4,
    "Execution": 0.2,
}
HALF_LIFE_DAYS = 14.0

HEADING = "## Project memory"


@dataclass(frozen=True, slots=True)
class Packed:
    """A text for a prompt, its observations, and how many candidates did not fit."""

    context: str
    ids: list[UUID]
    estimated_tokens: int
    omitted: int


def pack(
    candidates: Iterable[Observation], session_id: str | None, max_tokens: int, now: datetime
) -> Packed:
    """The most valuable candidates that fit, uncut; those of the session come first."""
    distinct = {candidate.id: candidate for candidate in candidates}.values()
    ordered = sorted(
        distinct,
        key=lambda o: (session_id is None or o.session_id != session_id, -value(o, now), o.id),
    )
    parts, ids = [HEADING], []
    size = len(HEADING.encode())
    for candidate in ordered:
        part = _entry(candidate)
        grown = size + len(part.encode())
        if _tokens(grown) <= max_tokens:
            parts.append(part)
            ids.append(candidate.id)
            size = grown
    context = "".join(parts) if ids else ""
    return Packed(context, ids, estimate_tokens(context), len(ordered) - len(ids))


def value(observation: Observation, now: datetime) -> float:
    """The value of an observation in a prompt: by relevance, type and age."""
    age_days = max((now - observation.stored_at).total_seconds(), 0.0) / 86_400
    return (
        RELEVANCE_WEIGHT * (observation.relevance or 0.0)
        + TYPE_WORTH.get(observation.type, 0.0)
        + math.exp2(-age_days / HALF_LIFE_DAYS)
    )


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its bytes in UTF-8, rounded up."""
    return _tokens(len(text.encode()))


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def _entry(observation: Observation) -> str:
    about = [observation.type, observation.stored_at.date().isoformat()]
    if observation.tags:
        about.append("tags: " + ", ".join(observation.tags))
    changed = [
        anchor.symbol or anchor.file or anchor.commit or ""
        for anchor in observation.anchors
        if anchor.state == "needs_review"
    ]
    if changed:
        about.append("may be out of date, the code changed: " + ", ".join(changed))
    return f"\n\n### {' · '.join(about)}\n\n{observation.content}"
