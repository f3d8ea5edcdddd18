"""Stores observations: decisions, results and lessons.

The same content is one observation. Words and meaning of each are kept beside it, made by one model
(``model_of``); where another model made them they are made anew, some at a time (``outdated``,
``renew``), and until then such an observation is found by its words alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import Any, get_args
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.vectors import maintain_vector_index, wants_vector_index
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.models import Model
from codebase_mcp.errors import NotFound
from codebase_mcp.index.prepare import bm25_weights, strongest
from codebase_mcp.records.anchors import Anchor, anchors_of
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.recall import passages
from codebase_mcp.records.vocabulary import ObservationType
from codebase_mcp.text.counting import Lexicon, term_table
from codebase_mcp.text.tokens import TOKENS_VERSION

_SQL = load_queries("codebase_mcp.records", "memory.sql")

MAX_TAGS = 20

# Increment when the stored terms or vectors of an observation change.
MEMORY_VERSION = 1

# The length, in terms, of a typical observation: a few sentences.
AVERAGE_TERMS = 40.0

# How many are re-embedded at once: tens of milliseconds with the built-in model. A service takes
# longer, while the caller waits.
RENEWED_AT_ONCE = 500
RENEWED_BY_SERVICE = 20


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation, and when it was first and last stored."""

    id: UUID
    content: str
    type: ObservationType
    tags: tuple[str, ...]
    session_id: str | None
    created_at: datetime
    stored_at: datetime
    anchors: tuple[Anchor, ...] = ()
    relevance: float | None = None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Observation:
        """From the columns that every statement selects."""
        identity, content, kind, tags, *rest = row
        return cls(identity, content, kind, tuple(tags), *rest)


@dataclass(frozen=True, slots=True)
class ObservationText:
    """A text and its tags, before they are stored."""

    content: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """The terms, weights and vectors of a text, in PostgreSQL's text syntax.

    The first vector is that of the whole with its tags, the others are those of its passages.
    """

    said: ObservationText
    model: str
    terms: str
    lex: str
    dense: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Pending maintenance of a project's observations."""

    renew: bool
    index: bool


def model_of(model: Model) -> str:
    """What observations are found by depends on this; others' vectors cannot be compared."""
    return f"{MEMORY_VERSION}.{TOKENS_VERSION}-{model.facts.fingerprint}"


async def prepare(model: Model, said: Sequence[ObservationText]) -> list[Prepared]:
    """Count the words of some texts and embed them.

    Raises:
        EmbeddingUnavailable: the embedder is away.
    """
    texts = ["\n".join((one.content, *one.tags)) for one in said]
    parts = [passages(one.content) for one in said]
    flat = [passage for several in parts for passage in several]
    if not texts:
        return []
    vectors = await model.embedder.embed_passages([*texts, *flat])
    return await asyncio.to_thread(_prepared, model_of(model), said, parts, texts, vectors)


def _prepared(
    model: str,
    said: Sequence[ObservationText],
    parts: Sequence[Sequence[str]],
    texts: Sequence[str],
    vectors: Iterable[Vectors],
) -> list[Prepared]:
    counts = term_table().count(Lexicon().bags(texts))
    weights = bm25_weights(counts, AVERAGE_TERMS)
    literals = [dense_literal(vector) for vector in vectors]
    wholes, of_parts = literals[: len(said)], iter(literals[len(said) :])
    prepared = []
    for row, one in enumerate(said):
        span = slice(counts.starts[row], counts.starts[row + 1])
        terms, of_terms = strongest(counts.items[span], weights[span])
        items = terms.tolist()
        lex = sparse_literal(dict(zip(items, of_terms.tolist(), strict=True)))
        dense = (wholes[row], *islice(of_parts, len(parts[row])))
        prepared.append(Prepared(one, model, f"{{{','.join(map(str, items))}}}", lex, dense))
    return prepared


async def store_observation(
    tx: Transaction,
    model: Model,
    prepared: Prepared,
    kind: ObservationType,
    session_id: str | None,
) -> tuple[UUID, bool]:
    """Store a text; returns its id and whether it is new. An existing one gets the tags added."""
    said, identity = prepared.said, uuid4()
    row = await tx.fetch_one(
        _SQL["store"],
        id=identity,
        content=said.content,
        hash=_hash(said.content),
        type=kind,
        tags=list(said.tags),
        session_id=session_id,
        model=prepared.model,
        terms=prepared.terms,
        lex=prepared.lex,
        dense=list(prepared.dense),
        most_tags=MAX_TAGS,
    )
    assert row is not None
    stored, tags = row
    if stored != identity and said.tags:  # it is found by its tags too; the row stays locked
        [with_all] = await prepare(model, [ObservationText(said.content, tuple(tags))])
        await _write_anew(tx, {stored: with_all}, anyway=True)
    return stored, stored == identity


async def store_prepared(
    tx: Transaction, lines: Sequence[Mapping[str, Any]], model: Model
) -> set[str]:
    """Store exported observations as they are, vectors made here; the ids of those that were new.

    Left out is what is there already, by id or by content.
    """
    said = [ObservationText(line["content"], tuple(line["tags"])) for line in lines]
    made = [
        {
            **line,
            "hash": _hash(one.said.content).hex(),
            "model": one.model,
            "terms": one.terms,
            "lex": one.lex,
            "dense": one.dense,
        }
        for line, one in zip(lines, await prepare(model, said), strict=True)
    ]
    return {row[0] for row in await tx.fetch_all(_SQL["import"], lines=json.dumps(made))}


async def get_observations(
    tx: Transaction, ids: Sequence[UUID]
) -> tuple[list[Observation], list[UUID]]:
    """Observations in the order asked, each once; and the ids that are unknown.

    Raises:
        NotFound: all of them are.
    """
    wanted = list(dict.fromkeys(ids))
    found = await load_observations(tx, wanted)
    known = {observation.id for observation in found}
    missing = [identity for identity in wanted if identity not in known]
    if not found:
        raise _not_found({"ids": [str(identity) for identity in missing]})
    return found, missing


async def load_observations(
    tx: Transaction, ids: Sequence[UUID], relevance: Mapping[UUID, float] | None = None
) -> list[Observation]:
    """The existing ones of some observations, in this order."""
    if not ids:
        return []
    rows = await tx.fetch_all(_SQL["get"], ids=list(ids))
    by_id = {row[0]: Observation.from_row(row) for row in rows}
    found = [by_id[identity] for identity in ids if identity in by_id]
    scored = [replace(o, relevance=relevance[o.id]) for o in found] if relevance else found
    return await _with_anchors(tx, scored)


async def timeline(
    tx: Transaction, anchor_id: UUID, before: int, after: int, session_id: str | None = None
) -> list[Observation]:
    """An observation and its neighbours in time, oldest first.

    Raises:
        NotFound: there is no such observation.
    """
    rows = await _planned(
        tx, "timeline", anchor_id=anchor_id, before=before, after=after, session_id=session_id
    )
    if not rows:
        raise _not_found({"anchor_id": str(anchor_id)})
    return await _with_anchors(tx, [Observation.from_row(row) for row in rows])


async def newest(
    tx: Transaction,
    limit: int,
    *,
    session_id: str | None = None,
    tags: Sequence[str] | None = None,
) -> list[Observation]:
    """The newest observations, newest first."""
    rows = await _planned(
        tx, "newest", session_id=session_id, tags=list(tags) if tags else None, limit=limit
    )
    return await _with_anchors(tx, [Observation.from_row(row) for row in rows])


async def page_of_observations(
    tx: Transaction,
    paging: Paging,
    *,
    session_id: str | None = None,
    kind: ObservationType | None = None,
) -> Page[Observation]:
    """A page of the observations of a session and type, newest first."""
    params = {**paging.parameters(), "session_id": session_id, "type": kind}
    _, rows, [[total]] = await tx.fetch_many(
        [(_SQL["prepare"], {}), (_SQL["page"], params), (_SQL["total"], params)]
    )
    found = await _with_anchors(tx, [Observation.from_row(row) for row in rows])
    return paging.page(found, total, lambda one: Cursor(one.created_at, one.id))


async def newest_of_each_type(
    tx: Transaction, limit: int, tags: Sequence[str] | None = None
) -> list[Observation]:
    """The newest observations of every type."""
    rows = await _planned(
        tx,
        "newest_of_each_type",
        types=list(get_args(ObservationType)),
        tags=list(tags) if tags else None,
        limit=limit,
    )
    return await _with_anchors(tx, [Observation.from_row(row) for row in rows])


async def look_after(tx: Transaction, model: Model) -> Upkeep:
    """The pending maintenance of the observations."""
    row = await tx.fetch_one(_SQL["upkeep"], model=model_of(model))
    assert row is not None
    mixed, vectors = row
    wants = await wants_vector_index(tx, model.facts.dimension, vectors)
    return Upkeep(mixed, wants)


async def outdated(tx: Transaction, model: Model) -> dict[UUID, ObservationText]:
    """Some observations that were embedded with another model."""
    most = RENEWED_BY_SERVICE if model.local is None else RENEWED_AT_ONCE
    rows = await tx.fetch_all(_SQL["outdated"], model=model_of(model), limit=most)
    return {identity: ObservationText(content, tuple(tags)) for identity, content, tags in rows}


async def renew(tx: Transaction, prepared: Mapping[UUID, Prepared]) -> None:
    """Re-embed outdated observations with this model."""
    await _write_anew(tx, prepared, anyway=False)


async def tend_index(tx: Transaction, model: Model) -> None:
    """Build the vector index, if it is still missing or too coarse."""
    await tx.lock("memory index")
    row = await tx.fetch_one(_SQL["upkeep"], model=model_of(model))
    assert row is not None
    await maintain_vector_index(tx, model.facts.dimension, row[1])


async def _write_anew(tx: Transaction, prepared: Mapping[UUID, Prepared], *, anyway: bool) -> None:
    if prepared:
        made = list(prepared.values())
        vectors = [
            (identity, ordinal, dense)
            for identity, one in prepared.items()
            for ordinal, dense in enumerate(one.dense)
        ]
        owners, ordinals, dense = zip(*vectors, strict=True)
        await tx.execute(
            _SQL["renew"],
            ids=list(prepared),
            terms=[one.terms for one in made],
            lex=[one.lex for one in made],
            owners=list(owners),
            ordinals=list(ordinals),
            dense=list(dense),
            model=made[0].model,
            anyway=anyway,
        )


async def _planned(tx: Transaction, name: str, **params: object) -> list[tuple[Any, ...]]:
    """The rows of a statement with optional filters, planned for those that are given."""
    _, rows = await tx.fetch_many([(_SQL["prepare"], {}), (_SQL[name], params)])
    return rows


async def _with_anchors(tx: Transaction, found: Sequence[Observation]) -> list[Observation]:
    anchors = await anchors_of(tx, [observation.id for observation in found])
    return [replace(one, anchors=anchors[one.id]) for one in found]


def _hash(content: str) -> bytes:
    return sha256(content.encode()).digest()


def _not_found(details: Mapping[str, Any]) -> NotFound:
    return NotFound(
        "Observation not found",
        hint="Take ids from the replies of search or timeline.",
        details=details,
    )
