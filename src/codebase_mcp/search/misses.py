"""Why is an answer weak? Facts from the index, which ``help.py`` puts into sentences.

The words of a code base are read when they are first needed and cached for a while, so that a
series of weak answers reads them once.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from json import loads
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.models import Models
from codebase_mcp.search.filters import FileFilters, directory_matcher
from codebase_mcp.search.help import (
    WEAK,
    BetterFile,
    FilteredFiles,
    FilterEffect,
    Help,
    IndexCoverage,
    MissFacts,
    QuestionWord,
    WordUse,
    content_words,
    explain,
    words_to_help,
)
from codebase_mcp.search.hits import Hit
from codebase_mcp.search.query import parse_query
from codebase_mcp.search.scope import ScopedSnapshot, frequencies_statement
from codebase_mcp.search.search import Answer, Request, Searcher
from codebase_mcp.search.vocabulary import NearWords, Vocabulary, near_words, replace_words
from codebase_mcp.text.tokens import ALL_CHUNKS

_SQL = load_queries("codebase_mcp.search", "misses.sql")

# How many vocabularies are cached, and for how long. Each takes 4 MB at most.
MAX_CACHED = 4
CACHED_S = 600.0

# How many names of symbols, the most frequent ones, and paths a vocabulary is made from. With these
# numbers that takes a quarter of a second.
MOST_NAMES = 30_000
MOST_PATHS = 10_000

# How many existing values are listed where a filter leaves no file.
_LISTED = 5


@dataclass(frozen=True, slots=True)
class _CachedVocabulary:
    """The words of some snapshots in one state, and the timer that drops them."""

    state: frozenset[tuple[Any, ...]]
    vocabulary: Vocabulary
    expiry: asyncio.TimerHandle


class Misses:
    """Finds out why answers are weak, and which words of the code are similar to a question's."""

    def __init__(self, database: Database, models: Models, searcher: Searcher) -> None:
        self._database = database
        self._models = models
        self._searcher = searcher
        self._cache: OrderedDict[tuple[str, frozenset[UUID]], _CachedVocabulary] = OrderedDict()
        self._reading = asyncio.Lock()

    def close(self) -> None:
        """Drop all vocabularies."""
        for key in list(self._cache):
            self._drop(key)

    async def help(
        self,
        project: Project,
        question: str,
        request: Request,
        answer: Answer,
        coverage: IndexCoverage,
    ) -> Help:
        """Why an answer is weak, and what to ask instead.

        ``request`` names the snapshots among which a better answer is looked for without filters.

        Raises:
            DatabaseUnavailable, ProjectNotFound, EmbeddingUnavailable: as ``Searcher.search``.
        """
        filters = request.filters
        corrected = replace_words(question, answer.respelt)
        asked = content_words(parse_query(corrected))
        filtered = better = None
        async with self._database.bounded_read(project) as tx:
            words, total = await _word_uses(tx, asked, answer.snapshots)
            if filters.narrow:
                filtered = await _filtered(tx, request)
        if filtered is not None and filtered.passing == filtered.files:
            filtered = None
        if filtered is not None:
            better = await self._better(project, question, request, answer)
        near = await self._near(project, answer.snapshots, words_to_help(words, total))
        coverage = replace(coverage, skipped=_skipped(answer.snapshots))
        facts = MissFacts(
            words,
            total,
            near,
            coverage,
            filtered,
            better,
            answer.respelt,
            best=answer.hits[0].similarity_score if answer.hits else None,
        )
        return explain(corrected, facts)

    async def _better(
        self, project: Project, question: str, request: Request, answer: Answer
    ) -> BetterFile | None:
        """The best file without the filters, if they exclude it; if they leave hits, a good one."""
        unfiltered = Request(snapshot_ids=request.snapshot_ids, limit=1, context_lines=0)
        found = await self._searcher.search(project, question, unfiltered)
        for hit in found.hits:
            is_better = hit.similarity_score >= WEAK or not answer.hits
            if is_better and not _passes(hit, request.filters):
                return BetterFile(hit.repository_id, hit.file_path, hit.similarity_score)
        return None

    async def _near(
        self, project: Project, snapshots: Sequence[ScopedSnapshot], words: Mapping[str, bool]
    ) -> tuple[NearWords, ...]:
        if not words or not snapshots:
            return ()
        vocabulary = await self._vocabulary(project, snapshots)
        model = self._models.primary_embedder
        scale = await self._models.scale_of(await self._models.primary())
        return await asyncio.to_thread(near_words, vocabulary, words, model, scale)

    async def _vocabulary(
        self, project: Project, snapshots: Sequence[ScopedSnapshot]
    ) -> Vocabulary:
        key = (project.schema_name, frozenset(one.repository_id for one in snapshots))
        state = frozenset((one.id, one.indexed_at, one.files_pending) for one in snapshots)
        async with self._reading:
            cached = self._cache.get(key)
            if cached is not None and cached.state == state:
                self._cache.move_to_end(key)
                return cached.vocabulary
            vocabulary = await self._read(project, snapshots)
            self._drop(key)
            expiry = asyncio.get_running_loop().call_later(CACHED_S, self._drop, key)
            self._cache[key] = _CachedVocabulary(state, vocabulary, expiry)
            if len(self._cache) > MAX_CACHED:
                self._drop(next(iter(self._cache)))
        return vocabulary

    async def _read(self, project: Project, snapshots: Sequence[ScopedSnapshot]) -> Vocabulary:
        bound = _bound(snapshots)
        async with self._database.bounded_read(project) as tx:
            [[(names,)], [(paths,)]] = await tx.fetch_many(
                [
                    (_SQL["names"], bound | {"most": MOST_NAMES}),
                    (_SQL["paths"], bound | {"most": MOST_PATHS}),
                ]
            )
        model = self._models.primary_embedder
        return await asyncio.to_thread(
            lambda: Vocabulary.of((names or "").split("\n"), (paths or "").split("\n"), model)
        )

    def _drop(self, key: tuple[str, frozenset[UUID]]) -> None:
        cached = self._cache.pop(key, None)
        if cached is not None:
            cached.expiry.cancel()


async def _word_uses(
    tx: Transaction, asked: Sequence[QuestionWord], snapshots: Sequence[ScopedSnapshot]
) -> tuple[tuple[WordUse, ...], int]:
    """In how many chunks each word occurs, and the number of all chunks."""
    terms = {ALL_CHUNKS, *(term for word in asked for term in (word.term, *word.joined))}
    names = array_literal({word.name_term for word in asked})
    frequencies, named = await tx.fetch_many(
        [
            frequencies_statement(terms, [snapshot.id for snapshot in snapshots]),
            (_SQL["file_names"], _bound(snapshots) | {"terms": names}),
        ]
    )
    chunks: dict[int, int] = dict(frequencies)
    in_names = {term for (term,) in named}
    uses = (
        WordUse(
            word.text,
            chunks.get(word.term, 0),
            elsewhere=word.name_term in in_names or any(map(chunks.get, word.joined)),
        )
        for word in asked
    )
    return tuple(uses), chunks.get(ALL_CHUNKS, 0)


async def _filtered(tx: Transaction, request: Request) -> FilteredFiles:
    """How many files pass each filter, and which values exist where none passes."""
    filters, ids = request.filters, request.snapshot_ids
    chosen = {"ids": None if ids is None else array_literal(ids)}
    parameters = filters.parameters() | chosen | {"repository_id": filters.repository_id}
    [[files, *counts, passing]] = await tx.fetch_all(_SQL["filtered_files"], **parameters)
    named = (
        ("repositories", "repository_id", filters.repository_id),
        ("extensions", "extension", "|".join(filters.extensions or ())),
        ("languages", "language", "|".join(filters.languages or ())),
        ("kinds", "kind", "|".join(filters.kinds or ())),
        ("directories", "directory", filters.directory),
    )
    empty = [
        kind for (kind, _, value), count in zip(named, counts, strict=True) if value and not count
    ]
    bound = chosen | {"most": _LISTED, "ending": _ending(filters.directory or "")}
    found = await tx.fetch_many([(_SQL[kind], bound) for kind in empty]) if empty else []
    instead = {kind: _instead(kind, rows) for kind, rows in zip(empty, found, strict=True)}
    effects = (
        FilterEffect(f"{name}={value}", count, instead.get(kind, ""))
        for (kind, name, value), count in zip(named, counts, strict=True)
        if value
    )
    return FilteredFiles(files, passing, tuple(effects))


def _instead(kind: str, rows: Iterable[Row]) -> str:
    found = ", ".join(name for (name,) in rows)
    return f"There are these {kind}: {found}." if found else ""


def _passes(hit: Hit, filters: FileFilters) -> bool:
    """Whether the file of a hit passes the filters."""
    extension = hit.file_path.rpartition("/")[2].rpartition(".")[2].lower()
    return (
        filters.repository_id in (None, hit.repository_id)
        and (filters.extensions is None or extension in filters.extensions)
        and (filters.languages is None or hit.language in filters.languages)
        and (filters.kinds is None or hit.file_kind in filters.kinds)
        and (filters.directory is None or directory_matcher(filters.directory)(hit.file_path))
    )


def _ending(directory: str) -> str:
    """A pattern for the directories with the same last name, whatever the case."""
    steps = [one for one in directory.split("/") if one and "*" not in one]
    last = re.escape(steps[-1]) if steps else "[^/]+"
    return f"(?i)^(?:.*/)?{last}(?=/)"


def _bound(snapshots: Iterable[ScopedSnapshot]) -> dict[str, Any]:
    return {"snapshots": array_literal(one.id for one in snapshots)}


def _skipped(snapshots: Iterable[ScopedSnapshot]) -> Counter[str]:
    """The number of files that are not indexed, by reason."""
    counts: Counter[str] = Counter()
    for one in snapshots:
        counts.update(loads(one.skipped))
    return counts
