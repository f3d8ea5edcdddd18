"""Why is an answer weak? Facts from the index, which ``help.py`` puts into sentences.

The words of a code base are read when they are needed, and cached for some minutes.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from json import loads
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.naming import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.models import Models
from codebase_mcp.search.help import (
    WEAK,
    FilteredFiles,
    FilterEffect,
    Help,
    IndexCoverage,
    MissFacts,
    WordUse,
    explain,
    words_to_help,
)
from codebase_mcp.search.hits import Hit
from codebase_mcp.search.query import Query, parse_query
from codebase_mcp.search.scope import (
    FileFilters,
    ScopedSnapshot,
    fetch_named,
    frequencies_statement,
)
from codebase_mcp.search.search import Answer, Request, SearchedSnapshots, Searcher
from codebase_mcp.search.vocabulary import NearWords, Vocabulary, near_words, replace_words
from codebase_mcp.text.tokens import ALL_CHUNKS, aggressive_stem, stem, term_id

_SQL = load_queries("codebase_mcp.search", "misses.sql")

# The number of cached vocabularies, and how long each is cached. Each takes 4 MB at most.
MAX_CACHED = 4
CACHED_S = 600.0

# The numbers of the most frequent names of symbols, and of paths, in a vocabulary. With these
# numbers it takes a quarter of a second to make.
MOST_NAMES = 30_000
MOST_PATHS = 10_000

# The number of existing values to list if no file passes a filter.
_LISTED = 5


@dataclass(frozen=True, slots=True)
class _CachedVocabulary:
    """The words of some snapshots in a given state, and the timer that drops them."""

    state: frozenset[tuple[Any, ...]]
    vocabulary: Vocabulary
    expiry: asyncio.TimerHandle


class Misses:
    """Finds the reasons of weak answers, and words of the code similar to those of a question."""

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
        *,
        filters: FileFilters,
        snapshot_ids: tuple[int, ...] | None,
        answer: Answer,
        coverage: IndexCoverage,
    ) -> Help:
        """Explain why an answer is weak, and suggest what to ask instead.

        ``snapshot_ids`` are searched for a better answer without filters; None searches those that
        are searched by default.

        Raises:
            DatabaseUnavailable, ProjectNotFound, EmbeddingUnavailable: as ``Searcher.search``.
        """
        corrected = replace_words(question, answer.respelt)
        filtered = better = None
        async with self._database.bounded_read(project) as tx:
            words, total = await _word_uses(tx, parse_query(corrected), answer.snapshots)
            if filters.narrow:
                filtered = await _filtered(tx, filters, snapshot_ids)
        if filtered is not None and filtered.passing == filtered.files:
            filtered = None
        if filtered is not None:
            better = await self._better(project, question, filters, snapshot_ids, answer)
        near = await self._near(project, answer.snapshots, words_to_help(words, total))
        coverage = replace(coverage, skipped=_skipped(answer.snapshots))
        facts = MissFacts(
            words=words,
            total=total,
            near=near,
            coverage=coverage,
            filtered=filtered,
            better=better,
            respelt=answer.respelt,
            best=answer.hits[0].similarity_score if answer.hits else None,
        )
        return explain(corrected, facts)

    async def _better(
        self,
        project: Project,
        question: str,
        filters: FileFilters,
        snapshot_ids: tuple[int, ...] | None,
        answer: Answer,
    ) -> Hit | None:
        """The best file without the filters, if they exclude it.

        If there are hits with the filters, the file must have a good score.
        """
        unfiltered = await self._searcher.search(
            project,
            question,
            Request(limit=1, context_lines=0),
            SearchedSnapshots(snapshot_ids),
        )
        for hit in unfiltered.hits:
            is_better = hit.similarity_score >= WEAK or not answer.hits
            if is_better and not _passes(hit, filters):
                return hit
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
        key = (project.schema_name, frozenset(s.repository_id for s in snapshots))
        state = frozenset((s.id, s.indexed_at, s.files_pending) for s in snapshots)
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
    tx: Transaction, question: Query, snapshots: Sequence[ScopedSnapshot]
) -> tuple[tuple[WordUse, ...], int]:
    """The number of chunks with each content word of a question, and the number of all chunks."""
    words = [part for part in question.parts if len(part) > 1]
    terms = {word: term_id(stem(word)) for word in words}
    name_terms = {word: term_id(aggressive_stem(word)) for word in words}
    joined: defaultdict[str, list[int]] = defaultdict(list)
    for first, second in pairwise(words):
        together = term_id(stem(first + second))
        joined[first].append(together)
        joined[second].append(together)
    names = array_literal(set(name_terms.values()))
    counted = {ALL_CHUNKS, *terms.values(), *chain.from_iterable(joined.values())}
    frequencies, named = await tx.fetch_many(
        [
            frequencies_statement(counted, [snapshot.id for snapshot in snapshots]),
            (_SQL["file_names"], _bound(snapshots) | {"terms": names}),
        ]
    )
    chunks: dict[int, int] = dict(frequencies)
    in_names = {term for (term,) in named}
    uses = (
        WordUse(
            word,
            chunks.get(term, 0),
            elsewhere=name_terms[word] in in_names or any(map(chunks.get, joined[word])),
        )
        for word, term in terms.items()
    )
    return tuple(uses), chunks.get(ALL_CHUNKS, 0)


async def _filtered(
    tx: Transaction, filters: FileFilters, ids: tuple[int, ...] | None
) -> FilteredFiles:
    """The number of files that pass each filter, and the existing values if no file passes."""
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
    values = await fetch_named(tx, {kind: (_SQL[kind], bound) for kind in empty}) if empty else {}
    instead = {kind: _instead(kind, rows) for kind, rows in values.items()}
    effects = (
        FilterEffect(f"{name}={value}", count, instead.get(kind, ""))
        for (kind, name, value), count in zip(named, counts, strict=True)
        if value
    )
    return FilteredFiles(files, passing, tuple(effects))


def _instead(kind: str, rows: Iterable[Row]) -> str:
    names = ", ".join(name for (name,) in rows)
    return f"There are these {kind}: {names}." if names else ""


def _passes(hit: Hit, filters: FileFilters) -> bool:
    """Whether the file of a hit passes the filters."""
    extension = hit.file_path.rpartition("/")[2].rpartition(".")[2].lower()
    passes = filters.test()
    return passes(hit.repository_id, hit.file_path, extension, hit.language, hit.file_kind)


def _ending(directory: str) -> str:
    """A pattern for the directories with the same last name, whatever the case."""
    steps = [name for name in directory.split("/") if name and "*" not in name and "{" not in name]
    last = re.escape(steps[-1]) if steps else "[^/]+"
    return f"(?i)^(?:.*/)?{last}(?=/)"


def _bound(snapshots: Iterable[ScopedSnapshot]) -> dict[str, Any]:
    return {"snapshots": array_literal(snapshot.id for snapshot in snapshots)}


def _skipped(snapshots: Iterable[ScopedSnapshot]) -> Counter[str]:
    """The number of files that are not indexed, by reason."""
    counts: Counter[str] = Counter()
    for snapshot in snapshots:
        counts.update(loads(snapshot.skipped))
    return counts
