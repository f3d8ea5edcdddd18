"""Which places answer this question best?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.nearest import NearestIndexes
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.vectors import EXACT_VECTORS
from codebase_mcp.embedding.embedder import Vectors, as_sent
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.embedding.thesaurus import Thesaurus, thesaurus_of
from codebase_mcp.errors import EmbeddingUnavailable, ProjectNotFound
from codebase_mcp.search.candidates import FoundCandidates, find_candidates
from codebase_mcp.search.chance import is_by_chance
from codebase_mcp.search.changes import (
    ChangeLists,
    Range,
    Touched,
    load_touched,
    mark_changes,
)
from codebase_mcp.search.confidence import (
    FULL_COVERAGE,
    LEAST_FIRST,
    LEAST_LEAD,
    Confidence,
    QueryEvidence,
    QueryFacts,
    confidences,
    is_doubtful,
    query_evidence,
)
from codebase_mcp.search.definitions import (
    Weights,
    WordCounter,
    distinct_files,
    make_definition_hits,
)
from codebase_mcp.search.filters import FileFilters
from codebase_mcp.search.hits import (
    Hit,
    ScoredFile,
    choose,
    make_hits,
)
from codebase_mcp.search.lists import COUNT_LIMIT, DatabaseLists, ListSource, MemoryLists
from codebase_mcp.search.memory_indexes import MemoryIndexes
from codebase_mcp.search.query import Query, inverse_frequencies, parse_query
from codebase_mcp.search.ranking import RankedFile, put_first, rank_files
from codebase_mcp.search.scope import (
    QueryVector,
    Scope,
    ScopedSnapshot,
    counted_terms,
    load_frequencies,
    load_scope,
)
from codebase_mcp.search.secondary import SecondaryModel, SecondaryUse
from codebase_mcp.search.texts import load_definitions, load_texts
from codebase_mcp.search.vocabulary import doubtful_words, likeliest, replace_words, spellings
from codebase_mcp.telemetry.stopwatch import no_stopwatch, step
from codebase_mcp.text.tokens import ALL_CHUNKS

_SQL = load_queries("codebase_mcp.search", "search.sql")

# How many words of a question are checked for typing errors; each takes some 2 ms.
MAX_DOUBTFUL_WORDS = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What to search, and how much to show.

    ``snapshot_ids`` are searched, or without them what is searched by default; with ``ranges``
    only what changed from one of them to another. Where scores are close, files of the snapshots
    ``first`` go first.
    With ``by_definition`` each file is shown once, as the whole definition that answers best,
    instead of as chunks with lines around them.
    """

    filters: FileFilters = field(default_factory=FileFilters)
    snapshot_ids: tuple[int, ...] | None = None
    ranges: tuple[Range, ...] = ()
    first: frozenset[int] = frozenset()
    limit: int = 10
    context_lines: int = 10
    explain: bool = False
    by_definition: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits, best first, and the numbers of all texts and chunks that answer.

    ``secondary_model`` says whether it was used: ``away`` if it did not answer in time, ``missing``
    if it has no vectors here yet. It is None where none is configured. ``respelt`` maps words of
    the question, in lower case, to the spellings that were searched for.
    """

    hits: list[Hit]
    file_count: int
    total_count: int
    total_is_lower_bound: bool
    snapshots: tuple[ScopedSnapshot, ...]
    secondary_model: SecondaryUse | None = None
    respelt: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates, best first, the evidence that the question is about this code, what the lists
    found, and how sure each candidate is.
    """

    files: list[RankedFile]
    evidence: QueryEvidence
    found: FoundCandidates
    scores: list[Confidence]


@dataclass(frozen=True, slots=True)
class _SearchContext:
    """A transaction, and what a search needs in it.

    ``model`` is that of the first of the ``vectors``, if there are any. ``topic`` says how much the
    question is about software, ``background`` how near to it code would be that has what is asked
    for (0 if that is not known). ``respelt`` are corrected words,
    ``touched`` the chunks that are searched alone, if the search is within changes.
    """

    tx: Transaction
    query: Query
    scope: Scope
    vectors: list[QueryVector]
    model: StaticEmbedder
    topic: float
    background: float
    respelt: dict[str, str]
    touched: Touched | None

    def lists(self) -> ListSource:
        """Where candidates come from."""
        if self.touched is not None:
            return ChangeLists(self.tx, self.scope, self.touched)
        memory = self.scope.memory
        return MemoryLists(memory, self.scope) if memory else DatabaseLists(self.tx, self.scope)


class Searcher:
    """Answers questions about the indexed repositories of a project.

    With ``only_once`` nothing is prepared for a second search.
    """

    def __init__(
        self,
        database: Database,
        models: Models,
        version: str,
        nearest: NearestIndexes,
        memory: MemoryIndexes,
        *,
        only_once: bool = False,
    ) -> None:
        self._database = database
        self._models = models
        self._version = version
        self._nearest = nearest
        self._memory = memory
        self._only_once = only_once
        self._secondary = SecondaryModel(models)
        self._secondary_profiles: dict[str, Profile | None] = {}
        self._words = WordCounter()

    async def close(self) -> None:
        """Cancel the requests to a model that run in the background."""
        await self._secondary.close()

    async def search(self, project: Project, text: str, request: Request) -> Answer:
        """The best places for a question.

        Raises:
            ProjectNotFound: nothing was ever indexed in this project.
            EmbeddingUnavailable: the model that made the index is not available, though this
                version of the program made it.
        """
        query = parse_query(text)
        async with self._open_context(project, query, request) as context:
            tx, scope = context.tx, context.scope
            ranking = await _rank(context, request.first)
            with step("ranking"):
                scored = _scored(ranking, scope.snapshots)
                total = ranking.found.total if scored else 0
                files = distinct_files([file for file in scored if not file.far_behind])
            if request.by_definition:
                weights = await self._weights(context)
                chosen = files[: min(request.limit, total)]
                hits = await _definition_hits(tx, chosen, weights, request)
            else:
                hits = await _chunk_hits(tx, scored, min(request.limit, total), request)
            if context.touched is not None:
                hits = mark_changes(hits, context.touched, scope.snapshots)
        if not self._only_once:
            with no_stopwatch():
                self._maintain_indexes(project, scope, request)
        answer = Answer(
            hits=hits,
            file_count=len(files),
            total_count=min(total, COUNT_LIMIT),
            total_is_lower_bound=total > COUNT_LIMIT,
            snapshots=scope.snapshots,
            secondary_model=self._secondary_use(scope, context.vectors),
            respelt=context.respelt,
        )
        if hits and request.filters.narrow and is_doubtful(ranking.evidence):
            unfiltered = replace(request, filters=FileFilters())
            if not await self._is_about_code(project, query, unfiltered):
                return replace(answer, hits=[], file_count=0, total_count=0)
        return answer

    async def _is_about_code(self, project: Project, query: Query, request: Request) -> bool:
        """Whether a question has anything to do with what is searched."""
        async with self._open_context(project, query, request) as context:
            return (await _rank(context, frozenset())).evidence.is_about_code

    async def _weights(self, context: _SearchContext) -> Weights:
        """What the lines of a file are compared with."""
        query, scope = context.query, context.scope
        primary = next((one for one in context.vectors if one.profile in scope.profiles), None)
        return Weights(
            self._words,
            inverse_frequencies((t.id for t in query.terms if t.spoken), scope.frequencies),
            scope.expansion_weights(),
            self._models.primary_embedder
            if primary is None
            else await self._models.of_index(primary.profile),
            None if primary is None else primary.vector,
        )

    def _maintain_indexes(self, project: Project, scope: Scope, request: Request) -> None:
        """Have the vector indexes and the memory index brought up to date in the background.

        Vector indexes wait for the end of an index run.
        """
        is_large = scope.frequencies.get(ALL_CHUNKS, 0) >= EXACT_VECTORS
        if is_large and not any(snapshot.files_pending for snapshot in scope.snapshots):
            state = frozenset((s.id, s.profile.id, s.indexed_at) for s in scope.snapshots)
            self._nearest.schedule(project, state)
        if scope.version and scope.secondary is None and not request.ranges:
            self._memory.schedule(project, scope.version, request.snapshot_ids)

    async def rank(self, project: Project, text: str, filters: FileFilters) -> Ranking:
        """All candidates in order, with their signals, for benchmarks."""
        query = parse_query(text)
        async with self._open_context(project, query, Request(filters)) as context:
            return await _rank(context, frozenset())

    @asynccontextmanager
    async def _open_context(
        self, project: Project, query: Query, request: Request
    ) -> AsyncIterator[_SearchContext]:
        """A transaction, what to search in it, and the query's vector by each model there.

        Which models a project has is only known inside a transaction. A model that has to be loaded
        first, and the secondary model, are called outside one: otherwise a slow service would
        occupy a database connection. So the transaction ends, they are called, and another one
        begins. The secondary model of the last search is called before the first transaction.
        """
        vectors: dict[str, Vectors | None] = {}
        with step("query"):
            expansion = self._expansion(query)
        with_secondary = self._models.has_secondary
        chosen = request.snapshot_ids
        in_database = with_secondary or request.ranges
        memory = None if in_database else self._memory.get(project, chosen)
        secondary = self._secondary_profiles.get(project.schema_name)
        if secondary is not None:
            vectors[secondary.fingerprint] = await self._embed_by_secondary(secondary, query)
        while True:
            async with self._database.bounded_read(project) as tx:
                with step("scope"):
                    scope = await load_scope(
                        tx,
                        query,
                        expansion,
                        request.filters,
                        chosen,
                        with_secondary=with_secondary,
                        memory=memory,
                    )
                self._check(scope)
                self._secondary_profiles[project.schema_name] = secondary = scope.secondary
                if secondary is not None and secondary.fingerprint in vectors:
                    secondary = None
                not_loaded = [
                    profile
                    for profile in scope.profiles
                    if profile.fingerprint not in vectors and not self._models.is_local(profile)
                ]
                if not not_loaded and secondary is None:
                    yield await self._context(tx, query, scope, vectors, request)
                    return
            for profile in not_loaded:
                vectors[profile.fingerprint] = await self._embed(profile, query)
            if secondary is not None:
                vectors[secondary.fingerprint] = await self._embed_by_secondary(secondary, query)

    async def _context(
        self,
        tx: Transaction,
        query: Query,
        scope: Scope,
        vectors: dict[str, Vectors | None],
        request: Request,
    ) -> _SearchContext:
        """What a search needs, once its models are loaded; missing vectors are added."""
        with step("query"):
            embedder = await self._embedder(scope, vectors)
            query, scope, respelt = await self._respell(tx, query, scope, embedder)
        for profile in scope.profiles:
            if profile.fingerprint not in vectors:
                vectors[profile.fingerprint] = await self._embed(profile, query)
        by_model = _query_vectors(scope, vectors)
        with step("query"):
            topic = embedder.software_log_odds(query.plain)
            thesaurus = self._thesaurus(query)
            background = thesaurus.background(query.plain) if thesaurus else 0.0
        touched = None
        if request.ranges:
            with step("changes"):
                touched = await load_touched(tx, request.ranges)
        return _SearchContext(
            tx, query, scope, by_model, embedder, topic, background, respelt, touched
        )

    async def _embedder(
        self, scope: Scope, vectors: Mapping[str, Vectors | None]
    ) -> StaticEmbedder:
        """A model of the indexes in scope; the current one where none of theirs is available."""
        for profile in scope.profiles:
            if vectors.get(profile.fingerprint, ()) is not None:
                return await self._models.of_index(profile)
        return self._models.primary_embedder

    async def _respell(
        self, tx: Transaction, query: Query, scope: Scope, embedder: StaticEmbedder
    ) -> tuple[Query, Scope, dict[str, str]]:
        """The query with its probable typing errors corrected, and each word that was replaced."""
        doubtful = doubtful_words(query, scope.frequencies, embedder.knows)[:MAX_DOUBTFUL_WORDS]
        if not doubtful:
            return query, scope, {}
        similar = [term for word in doubtful for term in spellings(word)]
        frequencies = await load_frequencies(tx, similar, scope)
        respelt = {word: other for word in doubtful if (other := likeliest(word, frequencies))}
        if not respelt:
            return query, scope, {}
        corrected = parse_query(replace_words(query.text, respelt))
        expansion = self._expansion(corrected)
        terms = counted_terms(corrected, expansion)
        frequencies = await load_frequencies(tx, terms, scope)
        scope = replace(scope, frequencies=frequencies, expansion=expansion)
        return corrected, scope, respelt

    def _thesaurus(self, query: Query) -> Thesaurus | None:
        """The built-in model's thesaurus; None for a symbol, which is searched for as it is."""
        return None if query.is_symbol else thesaurus_of(self._models.primary_embedder)

    def _expansion(self, query: Query) -> dict[int, float]:
        """The expansion terms of a query, with their weights."""
        thesaurus = self._thesaurus(query)
        return {} if thesaurus is None else thesaurus.expansion_terms(query.plain)

    def _secondary_input(self, question: str) -> str:
        """The secondary model's input text: the query, and names that code may use for it."""
        query = parse_query(question)
        thesaurus = self._thesaurus(query)
        names = "" if thesaurus is None else thesaurus.code_words(query.plain)
        return f"{query.plain} {names}" if names else query.plain

    async def _embed(self, profile: Profile, query: Query) -> Vectors | None:
        """The query's vector by the model of an index; None where an upgrade removed that model."""
        with step("embed"):
            try:
                embedder = await self._models.of_index(profile)
            except EmbeddingUnavailable:
                if self._models.is_outdated(profile, self._version):
                    return None
                raise
            question = parse_query(await as_sent(embedder, query.text))
            return await embedder.embed_query(question.plain)

    async def _embed_by_secondary(self, profile: Profile, query: Query) -> Vectors | None:
        with step("embed"):
            return await self._secondary.vector(profile, query.text, self._secondary_input)

    def _secondary_use(self, scope: Scope, vectors: Sequence[QueryVector]) -> SecondaryUse | None:
        if scope.secondary is None:
            return "missing" if self._models.has_secondary else None
        return "used" if any(vector.profile == scope.secondary for vector in vectors) else "away"

    def _check(self, scope: Scope) -> None:
        if not scope.snapshots and scope.is_default and scope.filters.repository_id is None:
            raise ProjectNotFound(
                "Project has not been indexed or does not exist",
                hint="Call index_repository first, with the path of a repository and the same"
                " project_id.",
            )


async def _rank(context: _SearchContext, first: frozenset[int]) -> Ranking:
    query, scope = context.query, context.scope
    source = context.lists()
    with step("candidates"):
        found = await find_candidates(source, query, context.vectors, scope)
    depths = {snapshot.id: snapshot.median_depth for snapshot in scope.snapshots}
    with step("ranking"):
        files = rank_files(query, found.candidates, depths, found.frequency)
        files = put_first(files, first)
        facts = QueryFacts(
            least_meaning=found.least_meaning if context.vectors else None,
            unknown=found.unknown,
            topic=context.topic,
            background=context.background,
            expansion_coverage=found.expansion_coverage,
            chunks=scope.frequencies.get(ALL_CHUNKS, 0),
        )
        evidence = query_evidence(query, files, facts)
        scores = confidences(files, evidence)
    if scores and scores[0].similarity > LEAST_FIRST:
        by_chance = await is_by_chance(
            *(source, query, files[0], context.vectors),
            model=context.model,
            frequency=found.frequency,
            expansion_weight=sum(scope.expansion_weights().values()),
        )
        if by_chance:
            scores = confidences(files, evidence, by_chance=True)
    return Ranking(files, evidence, found, scores)


def _query_vectors(scope: Scope, vectors: Mapping[str, Vectors | None]) -> list[QueryVector]:
    """The query's vectors by all models that have one, the secondary model last."""
    profiles = [*scope.profiles, *filter(None, [scope.secondary])]
    known = ((profile, vectors[profile.fingerprint]) for profile in profiles)
    return [QueryVector(profile, vector) for profile, vector in known if vector is not None]


def _scored(ranking: Ranking, snapshots: Sequence[ScopedSnapshot]) -> list[ScoredFile]:
    """The files with their scores; none where the question has nothing to do with the code."""
    if not ranking.evidence.is_about_code:
        return []
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    return [
        ScoredFile(
            file,
            confidence.similarity,
            by_id[file.candidate.snapshot_id].repository_id,
            by_id[file.candidate.snapshot_id].view,
            far_behind=confidence.lead < LEAST_LEAD and file.coverage < FULL_COVERAGE,
        )
        for file, confidence in zip(ranking.files, ranking.scores, strict=True)
        if file.candidate.evidence.chunk_count
    ]


async def _chunk_hits(
    tx: Transaction, files: Sequence[ScoredFile], count: int, request: Request
) -> list[Hit]:
    chosen = choose(files, count)
    with step("texts"):
        texts = await load_texts(tx, chosen, request.context_lines)
    lines = request.context_lines
    with step("hits"):
        return make_hits(chosen, texts, context_lines=lines, explain=request.explain)


async def _definition_hits(
    tx: Transaction, copies: Sequence[Sequence[ScoredFile]], weights: Weights, request: Request
) -> list[Hit]:
    with step("texts"):
        texts = await load_definitions(tx, [files[0] for files in copies])
    with step("hits"):
        return make_definition_hits(
            copies, texts, weights, context_lines=request.context_lines, explain=request.explain
        )
