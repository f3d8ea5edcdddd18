"""Which chunks or definitions answer a question best?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import Project
from codebase_mcp.database.nearest import EXACT_VECTORS, NearestIndexes
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.embedder import Vectors, as_sent
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.embedding.thesaurus import Thesaurus, thesaurus_of
from codebase_mcp.errors import EmbeddingUnavailable, ProjectNotFound
from codebase_mcp.search.changes import (
    ChangeLists,
    Range,
    load_touched,
    mark_changes,
)
from codebase_mcp.search.confidence import is_doubtful
from codebase_mcp.search.definitions import Weights, WordCounter, definition_hits, distinct_files
from codebase_mcp.search.hits import Hit, chunk_hits
from codebase_mcp.search.lists import COUNT_LIMIT, DatabaseLists, ListSource
from codebase_mcp.search.literal import ExactMatches, ExactText, exact_text
from codebase_mcp.search.memory_indexes import MemoryIndexes
from codebase_mcp.search.memory_lists import MemoryLists
from codebase_mcp.search.query import Query, inverse_frequencies, parse_query
from codebase_mcp.search.ranking import Ranking, SearchContext, rank, scored_files
from codebase_mcp.search.scope import (
    FileFilters,
    QueryVector,
    Scope,
    ScopedSnapshot,
    counted_terms,
    load_frequencies,
    load_scope,
)
from codebase_mcp.search.secondary import SecondaryModel, SecondaryUse
from codebase_mcp.search.vocabulary import doubtful_words, likeliest, replace_words, spellings
from codebase_mcp.telemetry.stopwatch import no_stopwatch, step
from codebase_mcp.text.tokens import ALL_CHUNKS

_SQL = load_queries("codebase_mcp.search", "search.sql")

# The number of words of a question that are checked for typing errors; each takes some 2 ms.
MAX_DOUBTFUL_WORDS = 3


@dataclass(frozen=True, slots=True)
class Request:
    """Which files may answer a question, and how much of them to show.

    With ``by_definition`` each file is shown once, as the whole definition that answers best,
    instead of as chunks with lines around them.
    """

    filters: FileFilters = field(default_factory=FileFilters)
    limit: int = 10
    context_lines: int = 10
    explain: bool = False
    by_definition: bool = False


@dataclass(frozen=True, slots=True)
class SearchedSnapshots:
    """The ids of the snapshots to search; None means those that are searched by default.

    With ``ranges`` only the changes from one snapshot to another are searched. Where scores are
    close, files of the snapshots ``first`` go before others.
    """

    ids: tuple[int, ...] | None = None
    ranges: tuple[Range, ...] = ()
    first: frozenset[int] = frozenset()


BY_DEFAULT = SearchedSnapshots()


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits, best first, and the numbers of all texts and chunks that match.

    ``secondary_model`` says whether that model was used: ``away`` if it did not answer in time,
    ``missing`` if it has no vectors of the project yet. It is None if no such model is configured.
    ``respelt`` maps words of the question, in lower case, to the spellings that were searched for.
    ``exact`` says where the exact text of the question is, if it has any.
    """

    hits: list[Hit]
    file_count: int
    total_count: int
    total_is_lower_bound: bool
    snapshots: tuple[ScopedSnapshot, ...]
    secondary_model: SecondaryUse | None = None
    respelt: Mapping[str, str] = field(default_factory=dict)
    exact: ExactMatches | None = None


LookUpIn = Callable[[ExactText, Project, SearchContext, Collection[int]], Awaitable[ExactMatches]]
"""Finds the exact text of a question in the files of a search."""


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
        look_up: LookUpIn,
        only_once: bool = False,
    ) -> None:
        self._database = database
        self._models = models
        self._version = version
        self._nearest = nearest
        self._memory = memory
        self._look_up = look_up
        self._only_once = only_once
        self._secondary = SecondaryModel(models)
        self._secondary_profiles: dict[str, Profile | None] = {}
        self._words = WordCounter()

    async def close(self) -> None:
        """Cancel the requests to a model that run in the background."""
        await self._secondary.close()

    async def search(
        self,
        project: Project,
        text: str,
        request: Request,
        snapshots: SearchedSnapshots = BY_DEFAULT,
    ) -> Answer:
        """Find the best chunks or definitions for a question.

        Raises:
            ProjectNotFound: nothing was ever indexed in this project.
            EmbeddingUnavailable: the model that made the index is not available, though this
                version of the program made it.
        """
        query = parse_query(text)
        async with self._open_context(project, query, request.filters, snapshots) as context:
            tx, scope = context.tx, context.source.scope
            ranking = await rank(context, snapshots.first)
            with step("ranking"):
                scored, exact = scored_files(ranking, scope.snapshots), ranking.candidates.exact
                total = ranking.total if scored else 0
                leading = [file for file in scored if not file.far_behind]
            count, lines = min(request.limit, total), request.context_lines
            explain = request.explain
            if request.by_definition:
                weights = await self._weights(context)
                files = distinct_files(leading)[:count]
                hits = await definition_hits(tx, files, weights, lines, explain=explain)
            else:
                hits = await chunk_hits(tx, scored, count, lines, explain=explain)
            if context.touched is not None:
                hits = mark_changes(hits, context.touched, scope.snapshots)
        if not self._only_once:
            with no_stopwatch():
                self._maintain_indexes(project, scope, snapshots)
        answer = Answer(
            hits=hits,
            file_count=len({file.ranked.candidate.blob_id for file in leading}),
            total_count=min(total, COUNT_LIMIT),
            total_is_lower_bound=total > COUNT_LIMIT,
            snapshots=scope.snapshots,
            secondary_model=self._secondary_use(scope, context.vectors),
            respelt=context.respelt,
            exact=exact,
        )
        has_text = exact is not None and exact.lines
        if hits and request.filters.narrow and not has_text and is_doubtful(ranking.evidence):
            async with self._open_context(project, query, FileFilters(), snapshots) as context:
                unfiltered = await rank(context)
            if not unfiltered.evidence.is_about_code:
                return replace(answer, hits=[], file_count=0, total_count=0)
        return answer

    async def rank(
        self,
        project: Project,
        text: str,
        filters: FileFilters,
        snapshots: SearchedSnapshots = BY_DEFAULT,
    ) -> Ranking:
        """All candidates in order, with their signals."""
        async with self._open_context(project, parse_query(text), filters, snapshots) as context:
            ranking = await rank(context)
        if not self._only_once:
            with no_stopwatch():
                self._maintain_indexes(project, context.source.scope, snapshots)
        return ranking

    async def text_words(
        self, project: Project, text: str, snapshots: SearchedSnapshots = BY_DEFAULT
    ) -> Sequence[Row]:
        """The texts with most words of a long text, as `ListSource.text_words`."""
        query = parse_query(text)
        async with self._open_context(project, query, FileFilters(), snapshots) as context:
            return await context.source.text_words()

    async def definitions(
        self,
        project: Project,
        text: str,
        ranking: Ranking,
        files: Collection[tuple[int, str]],
        snapshots: SearchedSnapshots = BY_DEFAULT,
    ) -> list[Hit]:
        """The best definition of some files of a ranking, each by snapshot and path."""
        query = parse_query(text)
        async with self._open_context(project, query, FileFilters(), snapshots) as context:
            scored = [
                file
                for file in scored_files(ranking, context.source.scope.snapshots)
                if (file.ranked.candidate.snapshot_id, file.ranked.candidate.path) in files
            ]
            weights = await self._weights(context)
            return await definition_hits(
                context.tx, [[file] for file in scored], weights, 0, explain=False
            )

    async def _weights(self, context: SearchContext) -> Weights:
        """The weights by which definitions and lines are scored."""
        query, scope = context.source.query, context.source.scope
        primary = next((v for v in context.vectors if v.profile in scope.profiles), None)
        return Weights(
            words=self._words,
            spoken=inverse_frequencies((t.id for t in query.terms if t.spoken), scope.frequencies),
            expansion=context.source.expansion,
            embedder=await self._models.of_index(primary.profile)
            if primary
            else self._models.primary_embedder,
            vector=primary.vector if primary else None,
        )

    def _maintain_indexes(
        self, project: Project, scope: Scope, snapshots: SearchedSnapshots
    ) -> None:
        """Schedule updates of the vector indexes and of the memory index in the background.

        Vector indexes wait for the end of an index run.
        """
        is_large = scope.frequencies.get(ALL_CHUNKS, 0) >= EXACT_VECTORS
        if is_large and not any(snapshot.files_pending for snapshot in scope.snapshots):
            state = frozenset((s.id, s.profile.id, s.indexed_at) for s in scope.snapshots)
            self._nearest.schedule(project, state)
        is_due = scope.memory is None or scope.memory.is_large
        if is_due and scope.version and scope.secondary is None and not snapshots.ranges:
            self._memory.schedule(project, scope.version, snapshots.ids)

    @asynccontextmanager
    async def _open_context(
        self, project: Project, query: Query, filters: FileFilters, snapshots: SearchedSnapshots
    ) -> AsyncIterator[SearchContext]:
        """Begin a transaction, and load the scope and the query's vectors in it.

        The models that a project needs are only known inside a transaction. Models that are not
        loaded yet, and the secondary model, are called outside of it, as a slow service must not
        occupy a database connection: the transaction ends, the models are called, and a second
        transaction begins. The secondary model of the last search is called before both.
        """
        vectors: dict[str, Vectors | None] = {}
        secondary = self._secondary_profiles.get(project.schema_name)
        if secondary is not None:
            vectors[secondary.fingerprint] = await self._embed_by_secondary(secondary, query)
        async with AsyncExitStack() as transaction:
            tx, scope = await self._begin(transaction, project, query, filters, snapshots)
            secondary = scope.secondary
            if secondary is not None and secondary.fingerprint in vectors:
                secondary = None
            not_loaded = [p for p in scope.profiles if not self._models.is_local(p)]
            if not_loaded or secondary is not None:
                await transaction.aclose()
                for profile in not_loaded:
                    vectors[profile.fingerprint] = await self._embed(profile, query)
                if secondary is not None:
                    vector = await self._embed_by_secondary(secondary, query)
                    vectors[secondary.fingerprint] = vector
                tx, scope = await self._begin(transaction, project, query, filters, snapshots)
            context = await self._context(tx, query, scope, vectors, snapshots.ranges)
            if text := exact_text(query.text):
                look_up = partial(self._look_up, text, project, context)
                context = replace(context, look_up=look_up)
            yield context

    async def _begin(
        self,
        transaction: AsyncExitStack,
        project: Project,
        query: Query,
        filters: FileFilters,
        snapshots: SearchedSnapshots,
    ) -> tuple[Transaction, Scope]:
        """Begin a transaction, and load the scope in it."""
        with step("query"):
            expansion = self._expansion(query)
        with_secondary = self._models.has_secondary
        in_database = with_secondary or snapshots.ranges
        memory_of = None if in_database else self._memory.getter(project, snapshots.ids)
        tx = await transaction.enter_async_context(self._database.bounded_read(project))
        with step("scope"):
            scope = await load_scope(
                tx,
                query,
                expansion,
                filters,
                snapshots.ids,
                with_secondary=with_secondary,
                memory_of=memory_of,
            )
        if not scope.snapshots and scope.is_default and filters.repository_id is None:
            raise ProjectNotFound(
                "Project has not been indexed or does not exist",
                hint="Call index_repository first, with the path of a repository and the same"
                " project_id.",
            )
        self._secondary_profiles[project.schema_name] = scope.secondary
        return tx, scope

    async def _context(
        self,
        tx: Transaction,
        query: Query,
        scope: Scope,
        vectors: dict[str, Vectors | None],
        ranges: Sequence[Range],
    ) -> SearchContext:
        """The input of a search; adds vectors of models that are loaded."""
        with step("query"):
            model = await self._model(scope, vectors)
            query, scope, respelt = await self._respell(tx, query, scope, model)
        for profile in scope.profiles:
            if profile.fingerprint not in vectors:
                vectors[profile.fingerprint] = await self._embed(profile, query)
        with step("query"):
            topic = model.software_log_odds(query.plain)
            thesaurus = self._thesaurus(query)
            background = thesaurus.background(query.plain) if thesaurus else 0.0
        touched = None
        source: ListSource
        if ranges:
            with step("changes"):
                touched = await load_touched(tx, ranges)
            source = ChangeLists(tx, query, scope, touched)
        elif scope.memory is not None:
            source = MemoryLists(scope.memory, query, scope)
        else:
            source = DatabaseLists(tx, query, scope)
        return SearchContext(
            tx=tx,
            source=source,
            vectors=_query_vectors(scope, vectors),
            model=model,
            topic=topic,
            background=background,
            respelt=respelt,
            touched=touched,
        )

    async def _model(self, scope: Scope, vectors: Mapping[str, Vectors | None]) -> StaticEmbedder:
        """The first available model of the indexes in scope, else the current model."""
        unavailable = {fingerprint for fingerprint, vector in vectors.items() if vector is None}
        for profile in scope.profiles:
            if profile.fingerprint not in unavailable:
                return await self._models.of_index(profile)
        return self._models.primary_embedder

    async def _respell(
        self, tx: Transaction, query: Query, scope: Scope, embedder: StaticEmbedder
    ) -> tuple[Query, Scope, dict[str, str]]:
        """The query with its probable typing errors corrected, and the corrections."""
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
        """The built-in model's thesaurus; None for a symbol, which gets no expansion terms."""
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
        """The query's vector by the model of an index; None if an upgrade removed that model."""
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


def _query_vectors(scope: Scope, vectors: Mapping[str, Vectors | None]) -> list[QueryVector]:
    """The available vectors of the query, the secondary model's last."""
    profiles = [*scope.profiles, *filter(None, [scope.secondary])]
    return [
        QueryVector(profile, vector)
        for profile in profiles
        if (vector := vectors.get(profile.fingerprint)) is not None
    ]
