"""Stores observations: decisions, results and lessons.

Equal contents are stored once. The terms and vectors of an observation are stored with the version
of the model that made them (``model_of``). After a change of the model they are replaced in
batches (``outdated``, ``renew``); until then an observation is found by its terms alone.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from itertools import chain, islice
from typing import Any, get_args
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import dense_literal, sparse_literal
from codebase_mcp.database.nearest import maintain_vector_index, wants_vector_index
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.models import Model
from codebase_mcp.errors import NotFound
from codebase_mcp.index.prepare import bm25_weights, strongest
from codebase_mcp.records.anchoring import Anchor
from codebase_mcp.records.anchors import anchors_from
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.vocabulary import ObservationType
from codebase_mcp.text.counting import Lexicon, term_table
from codebase_mcp.text.tokens import TOKENS_VERSION

_SQL = load_queries("codebase_mcp.records", "memory.sql")

MAX_TAGS = 20

# Increment when the stored terms or vectors of an observation change.
MEMORY_VERSION = 1

# The length, in terms, of a typical observation: a few sentences.
AVERAGE_TERMS = 40.0

# Sentences are joined to passages of about this length, so that no text has too many.
PASSAGE_CHARS = 120
MAX_PASSAGES = 32
_SENTENCE_END = re.compile(r"(?<=[.;!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")

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
    def from_row(cls, row: Row) -> Observation:
        """From the columns that every statement selects."""
        identity, content, kind, tags, *rest, anchors = row
        return cls(identity, content, kind, *(tuple(tags), *rest, anchors_from(anchors)))


@dataclass(frozen=True, slots=True)
class ObservationText:
    """A text and its tags, before they are stored."""

    content: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """The terms, weights and vectors of a text, in PostgreSQL's text syntax.

    The first vector is that of the whole text with its tags; those of its passages follow.
    """

    text: ObservationText
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
    """The version of terms and vectors; only vectors of the same version can be compared."""
    return f"{MEMORY_VERSION}.{TOKENS_VERSION}-{model.facts.fingerprint}"


def passages(content: str) -> list[str]:
    """The passages of a text, some sentences each; none if the whole text is a single passage."""
    length = max(PASSAGE_CHARS, len(content) // MAX_PASSAGES)
    joined: list[str] = []
    for sentence in filter(str.strip, _SENTENCE_END.split(content)):
        if joined and len(joined[-1]) + len(sentence) < length:
            joined[-1] = f"{joined[-1]} {sentence}"
        else:
            joined.append(sentence)
    return joined if len(joined) > 1 else []


async def prepare(model: Model, texts: Sequence[ObservationText]) -> list[Prepared]:
    """Count the words of some texts and embed them.

    Raises:
        EmbeddingUnavailable: the embedder cannot be reached.
    """
    if not texts:
        return []
    wholes = ["\n".join((text.content, *text.tags)) for text in texts]
    parts = [passages(text.content) for text in texts]
    vectors = await model.embedder.embed_passages([*wholes, *chain.from_iterable(parts)])
    return await asyncio.to_thread(_prepared, model_of(model), texts, parts, wholes, vectors)


def _prepared(
    model: str,
    texts: Sequence[ObservationText],
    parts: Sequence[Sequence[str]],
    wholes: Sequence[str],
    vectors: Iterable[Vectors],
) -> list[Prepared]:
    counts = term_table().count(Lexicon().bags(wholes))
    weights = bm25_weights(counts, AVERAGE_TERMS)
    literals = [dense_literal(vector) for vector in vectors]
    of_parts = iter(literals[len(texts) :])
    prepared = []
    for row, text in enumerate(texts):
        span = slice(counts.starts[row], counts.starts[row + 1])
        terms, of_terms = strongest(counts.items[span], weights[span])
        items = terms.tolist()
        lex = sparse_literal(dict(zip(items, of_terms.tolist(), strict=True)))
        dense = (literals[row], *islice(of_parts, len(parts[row])))
        prepared.append(Prepared(text, model, f"{{{','.join(map(str, items))}}}", lex, dense))
    return prepared


async def store_observation(
    tx: Transaction,
    model: Model,
    prepared: Prepared,
    kind: ObservationType,
    session_id: str | None,
) -> tuple[UUID, bool]:
    """Store a text; returns its id and whether it is new. An existing one gets the tags added."""
    text, identity = prepared.text, uuid4()
    bound = {
        "id": identity,
        "content": text.content,
        "hash": _hash(text.content),
        "type": kind,
        "tags": list(text.tags),
        "session_id": session_id,
        "model": prepared.model,
        "terms": prepared.terms,
        "lex": prepared.lex,
        "dense": list(prepared.dense),
    }
    [(stored, tags)], _ = await tx.fetch_many(
        [(_SQL["store"], bound), (_SQL["store_vectors"], bound)]
    )
    if stored != identity and text.tags:  # tags are part of the vectors; the row stays locked
        tags = list(dict.fromkeys([*tags, *text.tags]))[:MAX_TAGS]
        await tx.execute(_SQL["set_tags"], id=stored, tags=tags)
        [with_all] = await prepare(model, [ObservationText(text.content, tuple(tags))])
        await renew(tx, {stored: with_all}, anyway=True)
    return stored, stored == identity


async def store_prepared(
    tx: Transaction, lines: Sequence[Mapping[str, Any]], model: Model
) -> set[str]:
    """Store exported observations with new vectors; returns the ids of the stored ones.

    Skips observations whose id or content exists already.
    """
    texts = [ObservationText(line["content"], tuple(line["tags"])) for line in lines]
    rows = [
        {
            **line,
            "hash": _hash(prepared.text.content).hex(),
            "model": prepared.model,
            "terms": prepared.terms,
            "lex": prepared.lex,
            "dense": prepared.dense,
        }
        for line, prepared in zip(lines, await prepare(model, texts), strict=True)
    ]
    stored = {row[0] for row in await tx.fetch_all(_SQL["import"], lines=json.dumps(rows))}
    new = {row["id"]: row for row in reversed(rows) if row["id"] in stored}
    await tx.execute(_SQL["import_vectors"], lines=json.dumps(list(new.values())))
    return stored


async def get_observations(
    tx: Transaction, ids: Sequence[UUID]
) -> tuple[list[Observation], list[UUID]]:
    """Observations in the order of the ids, without duplicates; and the ids that do not exist.

    Raises:
        NotFound: none of the ids exists.
    """
    distinct = list(dict.fromkeys(ids))
    observations = await load_observations(tx, distinct)
    existing = {observation.id for observation in observations}
    missing = [identity for identity in distinct if identity not in existing]
    if not observations:
        raise _not_found({"ids": [str(identity) for identity in missing]})
    return observations, missing


async def load_observations(
    tx: Transaction, ids: Sequence[UUID], relevance: Mapping[UUID, float] | None = None
) -> list[Observation]:
    """The observations with these ids, in this order; ids that do not exist are skipped."""
    rows = await tx.fetch_all(_SQL["get"], ids=list(ids)) if ids else []
    by_id = {row[0]: Observation.from_row(row) for row in rows}
    scores = relevance or {}
    return [
        replace(by_id[identity], relevance=scores.get(identity))
        for identity in ids
        if identity in by_id
    ]


async def timeline(
    tx: Transaction, anchor_id: UUID, before: int, after: int, session_id: str | None = None
) -> list[Observation]:
    """An observation and its neighbours in time, oldest first.

    Raises:
        NotFound: there is no such observation.
    """
    observations = await _select(
        tx, "timeline", anchor_id=anchor_id, before=before, after=after, session_id=session_id
    )
    if not observations:
        raise _not_found({"anchor_id": str(anchor_id)})
    return observations


async def newest(
    tx: Transaction,
    limit: int,
    *,
    session_id: str | None = None,
    tags: Sequence[str] | None = None,
) -> list[Observation]:
    """The newest observations, newest first."""
    return await _select(
        tx, "newest", session_id=session_id, tags=list(tags) if tags else None, limit=limit
    )


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
    observations = [Observation.from_row(row) for row in rows]
    return paging.page(observations, total, lambda last: Cursor(last.created_at, last.id))


async def newest_of_each_type(
    tx: Transaction, limit: int, tags: Sequence[str] | None = None
) -> list[Observation]:
    """The newest observations of every type."""
    return await _select(
        tx,
        "newest_of_each_type",
        types=list(get_args(ObservationType)),
        tags=list(tags) if tags else None,
        limit=limit,
    )


async def look_after(tx: Transaction, model: Model) -> Upkeep:
    """The pending maintenance of the observations."""
    [[mixed]], [[vectors]] = await tx.fetch_many(
        [(_SQL["upkeep"], {"model": model_of(model)}), (_SQL["vectors"], {})]
    )
    return Upkeep(mixed, await wants_vector_index(tx, model.facts.dimension, vectors))


async def outdated(tx: Transaction, model: Model) -> dict[UUID, ObservationText]:
    """Some observations that were embedded with another model."""
    most = RENEWED_AT_ONCE if model.is_local else RENEWED_BY_SERVICE
    rows = await tx.fetch_all(_SQL["outdated"], model=model_of(model), limit=most)
    return {identity: ObservationText(content, tuple(tags)) for identity, content, tags in rows}


async def tend_index(tx: Transaction, model: Model) -> None:
    """Build the vector index, if it is still missing or too coarse."""
    await tx.lock("memory index")
    [[vectors]] = await tx.fetch_all(_SQL["vectors"])
    await maintain_vector_index(tx, model.facts.dimension, vectors)


async def renew(
    tx: Transaction, prepared: Mapping[UUID, Prepared], *, anyway: bool = False
) -> None:
    """Replace the terms and vectors of outdated observations, or of all given (``anyway``)."""
    if not prepared:
        return
    model = next(iter(prepared.values())).model
    rows = await tx.fetch_all(_SQL["lock_due"], ids=list(prepared), anyway=anyway, model=model)
    due = {identity: prepared[identity] for (identity,) in rows}
    if not due:
        return
    vectors = [
        (identity, ordinal, dense)
        for identity, each in due.items()
        for ordinal, dense in enumerate(each.dense)
    ]
    owners, ordinals, dense = zip(*vectors, strict=True)
    words = [
        (_SQL["renew_words"], {"id": i, "terms": p.terms, "lex": p.lex, "model": model})
        for i, p in due.items()
    ]
    bound = {
        "ids": list(due),
        "owners": list(owners),
        "ordinals": list(ordinals),
        "dense": list(dense),
    }
    names = ("delete_vectors", "renew_vectors")
    await tx.fetch_many([*words, *((_SQL[name], bound) for name in names)])


async def _select(tx: Transaction, name: str, **params: object) -> list[Observation]:
    """The rows of a statement with optional filters, planned for those that are given."""
    _, rows = await tx.fetch_many([(_SQL["prepare"], {}), (_SQL[name], params)])
    return [Observation.from_row(row) for row in rows]


def _hash(content: str) -> bytes:
    return sha256(content.encode()).digest()


def _not_found(details: Mapping[str, Any]) -> NotFound:
    return NotFound(
        "Observation not found",
        hint="Take ids from the replies of search or timeline.",
        details=details,
    )
