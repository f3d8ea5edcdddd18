"""Which places answer this question best?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.nearest import NearestIndexes
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.database.vectors import EXACT_VECTORS
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.embedding.thesaurus import Thesaurus, thesaurus_of
from codebase_mcp.errors import EmbeddingUnavailable, ProjectNotFound
from codebase_mcp.search.candidates import Found, find_candidates
from codebase_mcp.search.confidence import (
    FLOOR,
    LEAST_LEAD,
    SAYS_ALL,
    About,
    about,
    proofs_of,
    similarity,
)
from codebase_mcp.search.database_lists import DatabaseLists
from codebase_mcp.search.definition_hits import (
    ReadText,
    distinct_files,
    make_definition_hits,
    strongest_chunks,
)
from codebase_mcp.search.definitions import Enclosing, Weights, WordCounter
from codebase_mcp.search.filters import Filters
from codebase_mcp.search.hits import (
    ChosenChunk,
    Hit,
    ScoredFile,
    StoredChunk,
    StoredText,
    choose,
    count_chunks,
    first_lines,
    make_hits,
    other_places,
)
from codebase_mcp.search.memory_indexes import MemoryIndexes
from codebase_mcp.search.memory_lists import MemoryLists
from codebase_mcp.search.query import Query, parse_query
from codebase_mcp.search.ranking import RankedFile, rank_files
from codebase_mcp.search.scope import (
    Asked,
    Scope,
    ScopedSnapshot,
    counted_terms,
    load_frequencies,
    load_scope,
)
from codebase_mcp.search.slow import SlowSearches
from codebase_mcp.search.spelling import doubtful_words, likeliest, respelt, spellings
from codebase_mcp.search.stronger import StrongerModel
from codebase_mcp.search.terms import inverse_frequencies
from codebase_mcp.telemetry.metrics import SEARCH_STEP_DURATION
from codebase_mcp.telemetry.stopwatch import step, stopwatch
from codebase_mcp.tokens import ALL_CHUNKS

_SQL = load_queries("codebase_mcp.search", "search.sql")

# total_count is exact up to here, a lower bound beyond.
COUNT_LIMIT = 1_000

# So many words of a question are looked at for typing errors; each takes some 2 ms.
MOST_DOUBTFUL = 3


@dataclass(frozen=True, slots=True)
class Request:
    """How much to show, of which files.

    ``by_definition`` shows each file once, by the definition that answers best, whole, instead of
    by chunks with lines around.
    """

    filters: Filters = field(default_factory=Filters)
    limit: int = 10
    context_lines: int = 10
    explain: bool = False
    by_definition: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits, best first, and how many chunks, and texts, there are above the floor in all.

    ``second_tier`` is None where the project has no vectors of a stronger model, or none is
    configured. ``respelt`` says which words of the question, in lower case, were taken for which
    others.
    """

    hits: list[Hit]
    file_count: int
    total_count: int
    total_is_lower_bound: bool
    snapshots: tuple[ScopedSnapshot, ...]
    second_tier: Literal["used", "away"] | None = None
    respelt: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates, best first, and what they show of the question."""

    files: list[RankedFile]
    about: About


@dataclass(frozen=True, slots=True)
class _Entered:
    """A transaction, and what is asked in it, where.

    ``topic`` says how much the question is about software, ``respelt`` what was taken for what.
    """

    tx: Transaction
    query: Query
    scope: Scope
    asked: list[Asked]
    topic: float
    respelt: dict[str, str]


class Searcher:
    """Answers questions about the indexed repositories of a project.

    With ``only_once`` nothing is prepared for a second search, and a slow one is not looked into.
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
        self._slow = SlowSearches(database)
        self._stronger = StrongerModel(models)
        self._seconds: dict[str, Profile | None] = {}
        self._words = WordCounter()

    async def close(self) -> None:
        """Give up what is still waited for: a service's answer, facts for a warning."""
        await self._stronger.close()
        await self._slow.close()

    async def search(self, project: Project, text: str, request: Request) -> Answer:
        """The best places for a question.

        Raises:
            ProjectNotFound: nothing was ever indexed in this project.
            EmbeddingUnavailable: the model that the index was made with is not here, and no earlier
                version of this program made it.
        """
        with stopwatch("search", _count_step, keeps_statements=True) as watch:
            answer = await self._answer(project, parse_query(text), request)
        if not self._only_once:
            self._slow.look_at(project, watch)
        return answer

    async def _answer(self, project: Project, query: Query, request: Request) -> Answer:
        async with self._enter(project, query, request.filters) as entered:
            tx, scope = entered.tx, entered.scope
            ranking, found = await _rank(entered)
            scored = _above_floor(ranking, scope.snapshots)
            files = distinct_files(scored)
            if request.by_definition:
                weights = await self._weights(entered)
                hits = await _definition_hits(tx, files[: request.limit], weights, request)
            else:
                hits = await _chunk_hits(tx, scored, request)
        total = count_chunks(scored)
        if not self._only_once:
            self._tend(project, scope)
        return Answer(
            hits=hits,
            file_count=len(files),
            total_count=min(total, COUNT_LIMIT),
            total_is_lower_bound=found.words_cut or total > COUNT_LIMIT,
            snapshots=scope.snapshots,
            second_tier=_second_tier(scope, entered.asked),
            respelt=entered.respelt,
        )

    async def _weights(self, entered: _Entered) -> Weights:
        """What the lines of a file are held against."""
        query, scope = entered.query, entered.scope
        asked = next((one for one in entered.asked if one.profile in scope.profiles), None)
        expansion = inverse_frequencies(scope.lent, scope.frequencies)
        return Weights(
            self._words,
            inverse_frequencies((t.id for t in query.terms if t.spoken), scope.frequencies),
            {term: scope.lent[term] * weight for term, weight in expansion.items()},
            self._models.primary_embedder
            if asked is None
            else await self._models.of_index(asked.profile),
            None if asked is None else asked.vector,
        )

    def _tend(self, project: Project, scope: Scope) -> None:
        """See to the vector index of a project with many chunks, but not while a run goes on."""
        is_large = scope.frequencies.get(ALL_CHUNKS, 0) >= EXACT_VECTORS
        if is_large and not any(snapshot.files_pending for snapshot in scope.snapshots):
            state = frozenset((s.id, s.profile.id, s.indexed_at) for s in scope.snapshots)
            self._nearest.look_at(project, state)
        if scope.version is not None and scope.second is None:
            self._memory.look_at(project, scope.version)

    async def rank(self, project: Project, text: str, filters: Filters) -> Ranking:
        """All candidates in order, with their signals: for measuring, not for showing."""
        query = parse_query(text)
        async with self._enter(project, query, filters) as entered:
            ranking, _ = await _rank(entered)
        return ranking

    @asynccontextmanager
    async def _enter(
        self, project: Project, query: Query, filters: Filters
    ) -> AsyncIterator[_Entered]:
        """A transaction, what to search in it, and the question as a vector of each model there.

        Which models these are is known inside a transaction; one that has to be loaded, or that
        belongs to the second tier, is asked after it, so that nobody waits for a connection that
        waits for a service. What answered the last time is asked before it.
        """
        vectors: dict[str, Vectors | None] = {}
        lent = self._lent(query)
        both = self._models.has_secondary
        memory = None if both else self._memory.get(project)
        if (second := self._seconds.get(project.schema_name)) is not None:
            vectors[second.fingerprint] = await self._embed_strongly(second, query)
        while True:
            async with self._database.transaction(project, readonly=True) as tx:
                with step("scope"):
                    scope = await load_scope(
                        tx, query, lent, filters, both_tiers=both, memory=memory
                    )
                self._check(scope)
                self._seconds[project.schema_name] = second = scope.second
                if second is not None and second.fingerprint in vectors:
                    second = None
                away = [
                    profile
                    for profile in scope.profiles
                    if profile.fingerprint not in vectors and not self._models.is_local(profile)
                ]
                if not away and second is None:
                    embedder = await self._embedder(scope, vectors)
                    query, scope, meant = await self._respelt(tx, query, scope, embedder)
                    for profile in scope.profiles:
                        if profile.fingerprint not in vectors:
                            vectors[profile.fingerprint] = await self._embed(profile, query)
                    topic = embedder.software_log_odds(query.plain)
                    yield _Entered(tx, query, scope, _asked(scope, vectors), topic, meant)
                    return
            for profile in away:
                vectors[profile.fingerprint] = await self._embed(profile, query)
            if second is not None:
                vectors[second.fingerprint] = await self._embed_strongly(second, query)

    async def _embedder(
        self, scope: Scope, vectors: Mapping[str, Vectors | None]
    ) -> StaticEmbedder:
        """A model of the indexes that are searched; the one of now where all of theirs are gone."""
        for profile in scope.profiles:
            if vectors.get(profile.fingerprint, ()) is not None:
                return await self._models.of_index(profile)
        return self._models.primary_embedder

    async def _respelt(
        self, tx: Transaction, query: Query, scope: Scope, embedder: StaticEmbedder
    ) -> tuple[Query, Scope, dict[str, str]]:
        """The question with its probable typing errors mended, and what was taken for what."""
        doubtful = doubtful_words(query, scope.frequencies, embedder.knows)[:MOST_DOUBTFUL]
        if not doubtful:
            return query, scope, {}
        near = [term for word in doubtful for term in spellings(word)]
        frequencies = await load_frequencies(tx, near, scope.memory)
        meant = {word: spelt for word in doubtful if (spelt := likeliest(word, frequencies))}
        if not meant:
            return query, scope, {}
        mended = parse_query(respelt(query.text, meant))
        lent = self._lent(mended)
        known = await load_frequencies(tx, counted_terms(mended, lent), scope.memory)
        return mended, replace(scope, frequencies=known, lent=lent), meant

    def _thesaurus(self, query: Query) -> Thesaurus | None:
        """The first tier's thesaurus, if the question needs one; a name is asked for as it is."""
        return None if query.is_symbol else thesaurus_of(self._models.primary_embedder)

    def _lent(self, query: Query) -> dict[int, float]:
        """The terms that the thesaurus lends."""
        thesaurus = self._thesaurus(query)
        return {} if thesaurus is None else thesaurus.expansion_terms(query.plain)

    def _told(self, query: Query) -> str:
        """The question as the second tier hears it: with what code may call what is asked."""
        thesaurus = self._thesaurus(query)
        named = "" if thesaurus is None else thesaurus.code_words(query.plain)
        return f"{query.plain} {named}" if named else query.plain

    async def _embed(self, profile: Profile, query: Query) -> Vectors | None:
        """The question by the model of an index; None where an upgrade took that model away."""
        with step("embed"):
            try:
                embedder = await self._models.of_index(profile)
            except EmbeddingUnavailable:
                if self._models.is_outdated(profile, self._version):
                    return None
                raise
            return await embedder.embed_query(query.plain)

    async def _embed_strongly(self, profile: Profile, query: Query) -> Vectors | None:
        with step("embed"):
            return await self._stronger.vector(profile, self._told(query))

    def _check(self, scope: Scope) -> None:
        if not scope.snapshots and scope.filters.repository_id is None:
            raise ProjectNotFound(
                "Project has not been indexed or does not exist",
                hint="Call index_repository with the same project_id first.",
            )


async def _rank(entered: _Entered) -> tuple[Ranking, Found]:
    query, scope = entered.query, entered.scope
    with step("candidates"):
        memory = scope.memory
        source = MemoryLists(memory, scope) if memory else DatabaseLists(entered.tx, scope)
        found = await find_candidates(source, query, entered.asked, scope)
    depths = {snapshot.id: snapshot.median_depth for snapshot in scope.snapshots}
    least = found.least_meaning
    with step("ranking"):
        files = rank_files(query, found.candidates, depths, found.frequency, least)
        known = least if entered.asked else None
        facts = about(query, files, least=known, unknown=found.unknown, topic=entered.topic)
    return Ranking(files, facts), found


def _asked(scope: Scope, vectors: Mapping[str, Vectors | None]) -> list[Asked]:
    """The question by each model that has its vector, the stronger one last."""
    profiles = [*scope.profiles, *filter(None, [scope.second])]
    known = ((profile, vectors[profile.fingerprint]) for profile in profiles)
    return [Asked(profile, vector) for profile, vector in known if vector is not None]


def _second_tier(scope: Scope, asked: Sequence[Asked]) -> Literal["used", "away"] | None:
    if scope.second is None:
        return None
    return "used" if any(one.profile == scope.second for one in asked) else "away"


def _count_step(name: str, seconds: float) -> None:
    SEARCH_STEP_DURATION.observe(seconds, name)


def _above_floor(ranking: Ranking, snapshots: Sequence[ScopedSnapshot]) -> list[ScoredFile]:
    related = ranking.about.odds
    if related < FLOOR:
        return []
    repositories = {snapshot.id: snapshot.repository_id for snapshot in snapshots}
    return [
        ScoredFile(file, similarity(proof), repositories[file.candidate.snapshot_id])
        for file, proof in zip(ranking.files, proofs_of(ranking.files, related), strict=True)
        if file.candidate.evidence.chunk_count
        and (proof.lead >= LEAST_LEAD or file.coverage >= SAYS_ALL)
    ]


async def _chunk_hits(tx: Transaction, files: Sequence[ScoredFile], request: Request) -> list[Hit]:
    chosen = choose(files, request.limit)
    with step("texts"):
        texts = await _load_texts(tx, chosen, request.context_lines)
    return make_hits(chosen, texts, context_lines=request.context_lines, explain=request.explain)


async def _definition_hits(
    tx: Transaction, copies: Sequence[Sequence[ScoredFile]], weights: Weights, request: Request
) -> list[Hit]:
    with step("texts"):
        texts = await _load_definitions(tx, [files[0] for files in copies])
    return make_definition_hits(copies, texts, weights, explain=request.explain)


async def _load_definitions(tx: Transaction, files: Sequence[ScoredFile]) -> dict[int, ReadText]:
    """The texts of some files, with the strongest chunks of each and what is defined there."""
    wanted = [(f.ranked.candidate.blob_id, n) for f in files for n in strongest_chunks(f)]
    if not wanted:
        return {}
    places = _places(wanted)
    blobs = array_literal({blob_id for blob_id, _ in wanted})
    chunks, definitions, texts = await tx.fetch_last(
        [
            (_SQL["chunks"], places),
            (_SQL["enclosing"], places),
            (_SQL["texts"], {"blobs": blobs}),
        ]
    )
    chunks_of = _chunks_by_text(chunks)
    defined: dict[int, list[Enclosing]] = defaultdict(list)
    for blob_id, *definition in definitions:
        defined[blob_id].append(Enclosing(*definition))
    return {
        blob_id: ReadText(split_lines(text), chunks_of[blob_id], tuple(defined[blob_id]))
        for blob_id, text in texts
    }


async def _load_texts(
    tx: Transaction, chosen: Sequence[ChosenChunk], context_lines: int
) -> dict[int, StoredText]:
    """The texts of some chunks, with these chunks and the other good ones of their files.

    Of each text no more lines than may be shown.
    """
    wanted = {chunk.key for chunk in chosen}
    for file in {chunk.key[0]: chunk.file for chunk in chosen}.values():
        wanted.update(other.key for other in other_places(file))
    if not wanted:
        return {}
    places = _places(wanted)
    blobs = array_literal({blob_id for blob_id, _ in wanted})
    chunks, texts = await tx.fetch_last(
        [(_SQL["chunks"], places), (_SQL["texts"], {"blobs": blobs})]
    )
    by_blob = _chunks_by_text(chunks)
    loaded = {}
    for blob_id, text in texts:
        shown = by_blob[blob_id]
        last = max(chunk.end_line for chunk in shown.values())
        loaded[blob_id] = StoredText(first_lines(text, last + context_lines), shown)
    return loaded


def _places(chunks: Collection[tuple[int, int]]) -> dict[str, str]:
    """Chunks, by their texts and their numbers there, as parameters of the statements."""
    return {
        "blobs": array_literal(blob_id for blob_id, _ in chunks),
        "ordinals": array_literal(ordinal for _, ordinal in chunks),
    }


def _chunks_by_text(rows: Iterable[Row]) -> dict[int, dict[int, StoredChunk]]:
    """The rows of the statement ``chunks``, by text and number."""
    found: dict[int, dict[int, StoredChunk]] = defaultdict(dict)
    for blob_id, ordinal, *place in rows:
        found[blob_id][ordinal] = StoredChunk(*place)
    return found
