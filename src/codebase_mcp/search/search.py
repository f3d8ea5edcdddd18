"""Which places answer this question best?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.embedder import Embedder, profile_mismatch
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.search.candidates import (
    Filters,
    Found,
    ScopedSnapshot,
    find_candidates,
    load_scope,
)
from codebase_mcp.search.confidence import FLOOR, proof_of, similarity
from codebase_mcp.search.hits import (
    Hit,
    ScoredFile,
    StoredChunk,
    StoredText,
    best_chunks,
    fit,
    good_chunks,
    make_hits,
)
from codebase_mcp.search.query import Query, parse_query
from codebase_mcp.search.ranking import RankedFile, rank_files

_SQL = load_queries("codebase_mcp.search", "search.sql")

# total_count is exact up to here, a lower bound beyond.
COUNT_LIMIT = 1_000

# Same texts fall together into one hit, so some more files are read than are shown.
SPARE_FILES = 2


@dataclass(frozen=True, slots=True)
class Request:
    """How much to show, of which files."""

    filters: Filters = field(default_factory=Filters)
    limit: int = 10
    context_lines: int = 10
    explain: bool = False
    max_chars: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits, best first, and how many chunks there are above the floor in all.

    ``truncated`` says that the hits were cut to the request's budget of characters.
    """

    hits: list[Hit]
    total_count: int
    total_is_lower_bound: bool
    truncated: bool
    snapshots: tuple[ScopedSnapshot, ...]


class Searcher:
    """Answers questions about the indexed repositories of a project."""

    def __init__(self, database: Database, embedder: Embedder, profile: str) -> None:
        self._database = database
        self._embedder = embedder
        self._profile = profile

    async def search(self, project: Project, text: str, request: Request) -> Answer:
        """The best places for a question.

        Raises:
            ProjectNotFound: nothing was ever indexed in this project.
            EmbeddingUnavailable: the index was made with another model.
        """
        query = parse_query(text)
        async with self._database.transaction(project, readonly=True) as tx:
            ranked, found, snapshots = await self._rank(tx, query, request.filters)
            scored = _above_floor(ranked, snapshots)
            shown = scored[: request.limit + SPARE_FILES]
            texts = await _load_texts(tx, shown)
        hits = make_hits(
            shown,
            texts,
            limit=request.limit,
            context_lines=request.context_lines,
            explain=request.explain,
        )
        total = _count(scored)
        kept, truncated = fit(hits, request.max_chars) if request.max_chars else (hits, False)
        return Answer(
            hits=kept,
            total_count=max(min(total, COUNT_LIMIT), len(hits)),
            total_is_lower_bound=found.words_cut or total > COUNT_LIMIT,
            truncated=truncated,
            snapshots=snapshots,
        )

    async def rank(self, project: Project, text: str, filters: Filters) -> list[RankedFile]:
        """All candidates in order, with their signals: for measuring, not for showing."""
        async with self._database.transaction(project, readonly=True) as tx:
            ranked, _, _ = await self._rank(tx, parse_query(text), filters)
        return ranked

    async def _rank(
        self, tx: Transaction, query: Query, filters: Filters
    ) -> tuple[list[RankedFile], Found, tuple[ScopedSnapshot, ...]]:
        scope = await load_scope(tx, query, filters)
        if not scope.snapshots and filters.repository_id is None:
            raise ProjectNotFound(
                "Project has not been indexed or does not exist",
                hint="Call index_repository with the same project_id first.",
            )
        for snapshot in scope.snapshots:
            if snapshot.profile != self._profile:
                raise profile_mismatch(snapshot.model, self._embedder.name)
        vector = self._embedder.encode_query(query.text)
        found = await find_candidates(tx, query, vector, scope)
        depths = {snapshot.id: snapshot.median_depth for snapshot in scope.snapshots}
        ranked = rank_files(query, found.candidates, depths, found.frequency)
        return ranked, found, scope.snapshots


def _above_floor(
    ranked: Sequence[RankedFile], snapshots: Sequence[ScopedSnapshot]
) -> list[ScoredFile]:
    repositories = {snapshot.id: snapshot.repository_id for snapshot in snapshots}
    top_score = ranked[0].score if ranked else 0.0
    proofs = ((file, proof_of(file, top_score)) for file in ranked)
    return [
        ScoredFile(file, similarity(proof), repositories[file.candidate.snapshot_id])
        for file, proof in proofs
        if proof.weight >= FLOOR
    ]


def _count(files: Sequence[ScoredFile]) -> int:
    """The chunks that speak for these files, each text counted once."""
    evidence = {f.ranked.candidate.blob_id: f.ranked.candidate.evidence for f in files}
    return sum(max(len(good_chunks(of_text)), 1) for of_text in evidence.values())


async def _load_texts(tx: Transaction, files: Sequence[ScoredFile]) -> dict[int, StoredText]:
    """The texts of some files, with the chunks of each that the evidence names."""
    evidence = {f.ranked.candidate.blob_id: f.ranked.candidate.evidence for f in files}
    if not evidence:
        return {}
    found = [(b, ordinal) for b, e in evidence.items() for ordinal in best_chunks(e) or [0]]
    defined = [(b, d.start_line) for b, e in evidence.items() for d in e.definitions]
    places = {
        "blobs": [blob_id for blob_id, _ in found],
        "ordinals": [ordinal for _, ordinal in found],
        "defining": [blob_id for blob_id, _ in defined],
        "lines": [line for _, line in defined],
    }
    chunks, texts = await tx.fetch_many(
        [(_SQL["chunks"], places), (_SQL["texts"], {"blobs": list(evidence)})]
    )
    by_blob: dict[int, dict[int, StoredChunk]] = defaultdict(dict)
    for blob_id, ordinal, *place in chunks:
        by_blob[blob_id][ordinal] = StoredChunk(ordinal, *place)
    return {
        blob_id: StoredText(split_lines(text), tuple(by_blob[blob_id].values()))
        for blob_id, text in texts
    }
