"""Which places answer this question best?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.nearest import NearestIndexes
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.vectors import EXACT_VECTORS
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.search.candidates import (
    Asked,
    Filters,
    Found,
    Scope,
    ScopedSnapshot,
    array_literal,
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
    first_lines,
    fit,
    good_chunks,
    make_hits,
)
from codebase_mcp.search.query import Query, parse_query
from codebase_mcp.search.ranking import RankedFile, rank_files
from codebase_mcp.search.slow import SlowSearches
from codebase_mcp.telemetry.metrics import SEARCH_STEP_DURATION
from codebase_mcp.telemetry.watch import step, watched
from codebase_mcp.tokens import ALL_CHUNKS

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

    def __init__(
        self, database: Database, models: Models, version: str, nearest: NearestIndexes
    ) -> None:
        self._database = database
        self._models = models
        self._version = version
        self._nearest = nearest
        self._slow = SlowSearches(database)

    async def close(self) -> None:
        """Give up what a warning of a slow search waits for."""
        await self._slow.close()

    async def search(self, project: Project, text: str, request: Request) -> Answer:
        """The best places for a question.

        Raises:
            ProjectNotFound: nothing was ever indexed in this project.
            EmbeddingUnavailable: the model that the index was made with is away, or the index was
                made by another version of this program.
        """
        with watched("search", _count_step, keeps_statements=True) as watch:
            answer = await self._answer(project, parse_query(text), request)
        self._slow.look_at(project, watch)
        return answer

    async def _answer(self, project: Project, query: Query, request: Request) -> Answer:
        async with self._enter(project, query, request.filters) as (tx, scope, asked):
            ranked, found = await _rank(tx, query, scope, asked)
            scored = _above_floor(ranked, scope.snapshots)
            shown = scored[: request.limit + SPARE_FILES]
            with step("texts"):
                texts = await _load_texts(tx, shown, request.context_lines)
        hits = make_hits(
            shown,
            texts,
            limit=request.limit,
            context_lines=request.context_lines,
            explain=request.explain,
        )
        total = _count(scored)
        self._tend(project, scope)
        kept, truncated = fit(hits, request.max_chars) if request.max_chars else (hits, False)
        return Answer(
            hits=kept,
            total_count=max(min(total, COUNT_LIMIT), len(hits)),
            total_is_lower_bound=found.words_cut or total > COUNT_LIMIT,
            truncated=truncated,
            snapshots=scope.snapshots,
        )

    def _tend(self, project: Project, scope: Scope) -> None:
        """See to the vector index of a project with many chunks, but not while a run goes on."""
        is_large = scope.frequencies.get(ALL_CHUNKS, 0) >= EXACT_VECTORS
        if is_large and not any(snapshot.files_pending for snapshot in scope.snapshots):
            state = frozenset((s.id, s.profile.id, s.indexed_at) for s in scope.snapshots)
            self._nearest.look_at(project, state)

    async def rank(self, project: Project, text: str, filters: Filters) -> list[RankedFile]:
        """All candidates in order, with their signals: for measuring, not for showing."""
        query = parse_query(text)
        async with self._enter(project, query, filters) as (tx, scope, asked):
            ranked, _ = await _rank(tx, query, scope, asked)
        return ranked

    @asynccontextmanager
    async def _enter(
        self, project: Project, query: Query, filters: Filters
    ) -> AsyncIterator[tuple[Transaction, Scope, list[Asked]]]:
        """A transaction, what to search in it, and the question as a vector of each model there.

        Which models these are is known inside a transaction; a service that embeds is asked after
        it, so that nobody waits for a connection that waits for a service.
        """
        vectors: dict[str, Vectors] = {}
        while True:
            async with self._database.transaction(project, readonly=True) as tx:
                with step("scope"):
                    scope = await load_scope(tx, query, filters)
                self._check(scope)
                away = [
                    profile
                    for profile in scope.profiles
                    if profile.fingerprint not in vectors and not self._models.is_at_hand(profile)
                ]
                if not away:
                    for profile in scope.profiles:
                        if profile.fingerprint not in vectors:
                            vectors[profile.fingerprint] = await self._embed(profile, query)
                    asked = [Asked(p, vectors[p.fingerprint]) for p in scope.profiles]
                    yield tx, scope, asked
                    return
            for profile in away:
                vectors[profile.fingerprint] = await self._embed(profile, query)

    async def _embed(self, profile: Profile, query: Query) -> Vectors:
        with step("embed"):
            model = await self._models.of_profile(profile)
            return await model.embedder.embed_query(query.text)

    def _check(self, scope: Scope) -> None:
        if not scope.snapshots and scope.filters.repository_id is None:
            raise ProjectNotFound(
                "Project has not been indexed or does not exist",
                hint="Call index_repository with the same project_id first.",
            )
        for profile in scope.profiles:
            profile.require_version(self._version)


async def _rank(
    tx: Transaction, query: Query, scope: Scope, asked: Sequence[Asked]
) -> tuple[list[RankedFile], Found]:
    with step("candidates"):
        found = await find_candidates(tx, query, asked, scope)
    depths = {snapshot.id: snapshot.median_depth for snapshot in scope.snapshots}
    with step("ranking"):
        return rank_files(query, found.candidates, depths, found.frequency), found


def _count_step(name: str, seconds: float) -> None:
    SEARCH_STEP_DURATION.observe(seconds, name)


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


async def _load_texts(
    tx: Transaction, files: Sequence[ScoredFile], context_lines: int
) -> dict[int, StoredText]:
    """The texts of some files, with the chunks of each that the evidence names.

    Of each text no more lines than may be shown.
    """
    evidence = {f.ranked.candidate.blob_id: f.ranked.candidate.evidence for f in files}
    if not evidence:
        return {}
    found = [(b, ordinal) for b, e in evidence.items() for ordinal in best_chunks(e) or [0]]
    defined = [(b, d.start_line) for b, e in evidence.items() for d in e.definitions]
    places = {
        "blobs": array_literal(blob_id for blob_id, _ in found),
        "ordinals": array_literal(ordinal for _, ordinal in found),
        "defining": array_literal(blob_id for blob_id, _ in defined),
        "lines": array_literal(line for _, line in defined),
    }
    chunks, texts = await tx.fetch_last(
        [(_SQL["chunks"], places), (_SQL["texts"], {"blobs": array_literal(evidence)})]
    )
    by_blob: dict[int, dict[int, StoredChunk]] = defaultdict(dict)
    for blob_id, ordinal, *place in chunks:
        by_blob[blob_id][ordinal] = StoredChunk(ordinal, *place)
    loaded = {}
    for blob_id, text in texts:
        of_text = tuple(by_blob[blob_id].values())
        last = max((chunk.end_line for chunk in of_text), default=0)
        loaded[blob_id] = StoredText(first_lines(text, last + context_lines), of_text)
    return loaded
