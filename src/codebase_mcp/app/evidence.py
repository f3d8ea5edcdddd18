"""Gathers the evidence for a task, of each kind, in the snapshots that a call means."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codebase_mcp.app.scopes import CallScope
from codebase_mcp.app.text_scan import Table, TextQuestion
from codebase_mcp.changes.impact import MAX_COMMIT_PATHS
from codebase_mcp.context.commits import PastCommit, add_commits, add_together, likeness
from codebase_mcp.context.features import (
    Features,
    FileTable,
    Seed,
    add_facts,
    add_neighbours,
    add_paths,
    add_scopes,
    rows_of_path,
)
from codebase_mcp.context.links import Definition, add_links, add_names
from codebase_mcp.context.mixture import Trees, mixture
from codebase_mcp.context.task import Task, read_task
from codebase_mcp.database.literals import dense_literal, sparse_literal
from codebase_mcp.database.naming import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.embedder import as_sent
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.commit_history import texts_version
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.literal import ExactText, fitting_texts
from codebase_mcp.search.query import inverse_frequencies, parse_query
from codebase_mcp.search.ranking import Ranking
from codebase_mcp.search.scope import FileFilters, ScopedSnapshot
from codebase_mcp.search.search import SearchedSnapshots, Searcher
from codebase_mcp.search.text_pattern import TextQuery
from codebase_mcp.source.git import commit_at_head
from codebase_mcp.source.git_directory import git_repository_at
from codebase_mcp.source.git_objects import list_tree
from codebase_mcp.source.listing_builder import escape_path
from codebase_mcp.text.tokens import ALL_CHUNKS

if TYPE_CHECKING:
    from codebase_mcp.app.app import App

_SQL = load_queries("codebase_mcp.context", "context.sql")
_HISTORY_SQL = load_queries("codebase_mcp.search", "history.sql")

# The whole text of a task is cut to this length for its words and its vector.
_WHOLE_CHARS = 2_000
_EVERY_CHARS = 8_000
_COMMIT_CHARS = 600

# Commits that are looked at: the newest, and of those the ones like the task by words and meaning.
_MOST_COMMITS = 2_000
_MOST_ALIKE = 60

# Other files are reached from this many of the likeliest ones, if they are likelier than that.
_SEEDS = 10
_LEAST_LIKELY = 0.01
_MOST_RANKS = 10
_MOST_MESSAGES = 5
_MOST_UNCOMMITTED = 50

# Columns that nearly all files have are no evidence by themselves; the first files by these two are
# candidates.
_PRIORS = (
    "recent", "churn", "file_words", "file_words_mean", "main_language", "language_of_given",
    "near_given", "near_likely",
)  # fmt: skip
_BUSIEST, _WORDIEST = 30, 100

# The file tables of the snapshots that were asked last are kept.
_MOST_TABLES = 2


@dataclass(slots=True)
class Evidence:
    """What was gathered for a task.

    ``ranking`` is that of the whole text. By row of the features: ``defined`` are the definitions
    that the task names, ``lines`` the numbers of lines.
    """

    task: Task
    snapshots: tuple[ScopedSnapshot, ...]
    features: Features
    given: list[int]
    ranking: Ranking
    text: str
    searched: SearchedSnapshots
    defined: Mapping[int, Sequence[Definition]]
    lines: Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Gatherer:
    """Gathers evidence in the projects of a database; ``guess`` chooses the likely files."""

    _app: App
    _searcher: Searcher
    guess: Trees = field(default_factory=lambda: mixture().first)
    _tables: OrderedDict[tuple[object, ...], FileTable] = field(default_factory=OrderedDict)

    async def gather(
        self,
        scope: CallScope,
        text: str,
        given: Sequence[str] | None,
        ids: tuple[int, ...] | None = None,
    ) -> Evidence:
        """All evidence for a task, in some snapshots, or in those of the files on disk.

        ``given`` are paths that the caller has; None means those of the uncommitted change.
        """
        project, task = scope.project, read_task(text)
        await self._app.history.refresh(scope)
        searched = SearchedSnapshots(ids, first=scope.first)
        whole = " ".join([*task.scopes, *task.sentences, *task.names])[:_WHOLE_CHARS]
        changed = " ".join(task.changed)[:_WHOLE_CHARS]
        texts = {
            "title": " ".join([*task.scopes, task.title]),
            "whole": whole if whole.strip() else changed or text[:_WHOLE_CHARS],
            "changed": changed,
        }
        ranked = {
            text: await self._searcher.rank(project, text, FileFilters(), searched)
            for text in dict.fromkeys(texts.values())
            if text.strip()
        }
        rankings = {name: ranked[text] for name, text in texts.items() if text in ranked}
        snapshots, features = await self._files(project, ids)
        for name, ranking in rankings.items():
            _add_ranking(features, name, ranking)
        _tell_ranks(features)
        every = " ".join([whole, *task.changed, *task.around])[:_EVERY_CHARS]
        _add_words(features, await self._searcher.text_words(project, every, searched))
        lines = add_paths(features, task)
        add_scopes(features, task)
        held = await self._given(project, given, snapshots, features)
        if given is None and not held:
            differing = (path.path for path in task.paths if path.origin == "change")
            held = [row for path in differing for row in rows_of_path(features, path)]
        add_facts(features, task, held)
        await self._add_messages(project, snapshots, features, task)
        commits = await self._add_commits(project, snapshots, features, whole)
        defined = await self._reach(project, task, features, held, commits)
        return Evidence(
            task, snapshots, features, held,
            rankings["whole"], texts["whole"], searched, defined, lines,
        )  # fmt: skip

    async def _files(
        self, project: Project, ids: tuple[int, ...] | None
    ) -> tuple[tuple[ScopedSnapshot, ...], Features]:
        """Some snapshots, and columns for their files."""
        async with self._app.database.bounded_read(project) as tx:
            snapshots, tables = await self._app.exact.load_files(tx, project, ids)
        return snapshots, Features(self._table(project, snapshots, tables))

    async def _reach(
        self,
        project: Project,
        task: Task,
        features: Features,
        given: Sequence[int],
        commits: Sequence[tuple[ScopedSnapshot, Sequence[PastCommit]]],
    ) -> dict[int, list[Definition]]:
        """What names, links and common changes lead to; returns what the task names."""
        async with self._app.database.bounded_read(project) as tx:
            defined = await add_names(tx, features, task.names, "", 0.9)
            await add_names(tx, features, task.changed, "_changed", 0.5)
            held = [Seed(row, 1.0) for row in dict.fromkeys(given)]
            for name in ("given", "likely"):
                reached = held if name == "given" else _likely(features, given, self.guess)
                add_neighbours(features, reached, name)
                await add_links(tx, features, reached, name, frozenset(task.changed))
                for snapshot, past in commits:
                    add_together(features, snapshot, past, reached, name)
        return defined

    def _table(
        self, project: Project, snapshots: Sequence[ScopedSnapshot], tables: Mapping[int, Table]
    ) -> FileTable:
        """The files of some snapshots, from memory if they are the same as before."""
        key = (project.schema_name, *((snapshot.id, snapshot.version) for snapshot in snapshots))
        table = self._tables.pop(key, None)
        if table is None:
            table = FileTable(
                file
                for files_of in tables.values()
                for files in files_of.values()
                for file in files
            )
        self._tables[key] = table
        while len(self._tables) > _MOST_TABLES:
            self._tables.popitem(last=False)
        return table

    async def _given(
        self,
        project: Project,
        given: Sequence[str] | None,
        snapshots: Sequence[ScopedSnapshot],
        features: Features,
    ) -> list[int]:
        """The files that the caller has: those it names, else those of the uncommitted change."""
        if given is not None:
            return [row for path in given for row in rows_of_path(features, path.partition(":")[0])]
        rows = []
        for snapshot in snapshots:
            if snapshot.view == WORKTREE:
                async with self._app.database.bounded_read(project) as tx:
                    hashes = await tx.fetch_all(_SQL["hashes"], snapshot_id=snapshot.id)
                paths = await asyncio.to_thread(_uncommitted, Path(snapshot.root), dict(hashes))
                found = (features.rows.get((snapshot.id, path)) for path in paths)
                rows += [row for row in found if row is not None]
        return rows

    async def _add_messages(
        self,
        project: Project,
        snapshots: Sequence[ScopedSnapshot],
        features: Features,
        task: Task,
    ) -> None:
        """The files that hold a message of the task, or lines that its diff removes."""
        for message in task.messages[:_MOST_MESSAGES]:
            found = await self._files_with(project, snapshots, features, [message])
            share = 1 / len(found) ** 0.5 if found else 0
            for row in found:
                features.put("message", row, share, f'has "{message[:40]}"', share)
        found = await self._files_with(project, snapshots, features, task.removed)
        for row, count in found.items():
            share = min(count / len(task.removed), 1.0)
            features.put("same_lines", row, share, "has lines that the diff removes", share)

    async def _files_with(
        self,
        project: Project,
        snapshots: Sequence[ScopedSnapshot],
        features: Features,
        texts: Sequence[str],
    ) -> dict[int, int]:
        """The files that hold any of some texts literally, each with how many of its lines do."""
        fitting = fitting_texts(texts)
        if not fitting:
            return {}
        pattern, is_regex = ExactText(fitting, is_whole=False).pattern
        question = TextQuestion(TextQuery(pattern, regex=is_regex, ignore_case=False), limit=1)
        ids = [snapshot.id for snapshot in snapshots]
        found = await self._app.exact.lines_in_index(project, ids, question)
        return {
            row: matches.count
            for matches in found or ()
            if (row := features.rows.get((matches.file.snapshot.id, matches.file.path))) is not None
        }

    async def _add_commits(
        self,
        project: Project,
        snapshots: Sequence[ScopedSnapshot],
        features: Features,
        text: str,
    ) -> list[tuple[ScopedSnapshot, list[PastCommit]]]:
        """The past commits of each snapshot, with how much they resemble the task."""
        model = await self._app.models.primary()
        query = parse_query(text[:_COMMIT_CHARS])
        vector = await model.embedder.embed_query(await as_sent(model.embedder, query.plain))
        terms = [term.id for term in query.terms]
        commits = []
        async with self._app.database.bounded_read(project) as tx:
            counted = await tx.fetch_all(_HISTORY_SQL["frequencies"], terms=terms, all=ALL_CHUNKS)
            frequency = inverse_frequencies(terms, dict(counted))
            whole = sum(frequency[term.id] for term in query.terms if term.spoken)
            for snapshot in snapshots:
                newest = None if snapshot.view == WORKTREE else snapshot.view
                rows, alike = await tx.fetch_many([
                    (_SQL["commits"], {"repository_id": snapshot.repository_id, "newest": newest,
                                       "max_paths": MAX_COMMIT_PATHS, "most": _MOST_COMMITS}),
                    (_SQL["alike"], {"repository_id": snapshot.repository_id,
                                     "query": sparse_literal(frequency),
                                     "vector": dense_literal(vector),
                                     "model": texts_version(model), "most": _MOST_ALIKE}),
                ])  # fmt: skip
                scores = {commit: likeness(words, whole, near) for commit, words, near in alike}
                past = [
                    PastCommit(commit.hex(), subject, paths, age, scores.get(commit, 0.0))
                    for age, (commit, subject, paths) in enumerate(rows)
                ]
                add_commits(features, snapshot, past)
                commits.append((snapshot, past))
        return commits


def candidates(features: Features, given: Collection[int]) -> list[int]:
    """The files with some evidence, and the first ones by words and by how often they change;
    without those that are given."""
    columns = features.columns
    evidence = [
        numbers
        for name, numbers in columns.items()
        if name not in _PRIORS and not name.startswith(("is_", "has_")) and "of_task" not in name
    ]
    chosen = np.any(np.stack(evidence) > 0, axis=0)
    for name, most in (("churn", _BUSIEST), ("file_words", _WORDIEST)):
        first = np.argsort(-columns[name], kind="stable")[:most]
        chosen[first[columns[name][first] > 0]] = True
    chosen[list(given)] = False
    rows: list[int] = np.flatnonzero(chosen).tolist()
    return rows


def _add_ranking(features: Features, name: str, ranking: Ranking) -> None:
    """What a search for a part of the task says."""
    best = max((file.score for file in ranking.files), default=0.0) or 1.0
    most = max((file.candidate.evidence.body for file in ranking.files), default=0.0) or 1.0
    for rank, file in enumerate(ranking.files):
        candidate = file.candidate
        row = features.rows.get((candidate.snapshot_id, candidate.path))
        if row is None:
            continue
        is_main = name in ("title", "whole")
        features.put(f"{name}_rank", row, 1 / (1 + rank))
        features.put(f"{name}_words", row, candidate.evidence.body / most)
        features.put(f"{name}_meaning", row, candidate.evidence.best_meaning)
        if is_main:
            features.put(f"{name}_score", row, max(file.score / best, 0.0))
            features.put(f"name_in_{name}", row, file.signals["name"])
            for signal in ("comments", "folders", "definition", "expansion"):
                features.put(signal, row, file.signals[signal])


def _tell_ranks(features: Features) -> None:
    """The better rank of both searches as a reason."""
    best = np.maximum(features.columns["title_rank"], features.columns["whole_rank"])
    for row in np.flatnonzero(best >= 1 / _MOST_RANKS).tolist():
        share = float(best[row])
        features.put("title_rank", row, 0, f"search rank {round(1 / share)}", 0.35 * share**0.5)


def _add_words(features: Features, texts: Sequence[Row]) -> None:
    """What all words of the task say of whole files; a long file has more of any words."""
    sums = {text_id: float(total) for text_id, total, _ in texts}
    means = {text_id: float(total) / chunks**0.5 for text_id, total, chunks in texts if chunks}
    for column, values in (("file_words", sums), ("file_words_mean", means)):
        most = max(values.values(), default=0.0) or 1.0
        for text_id, value in values.items():
            for row in features.by_text.get(text_id, ()):
                features.put(column, row, value / most)


def _likely(features: Features, given: Collection[int], guess: Trees) -> list[Seed]:
    """The likeliest files by a first guess, from which others are reached."""
    rows = candidates(features, given)
    probabilities = guess.probabilities(features.matrix(rows))
    first = (-probabilities).argsort(kind="stable")[:_SEEDS]
    likely = zip(first.tolist(), probabilities[first].tolist(), strict=True)
    return [Seed(rows[at], share) for at, share in likely if share >= _LEAST_LIKELY]


def _uncommitted(root: Path, hashes: Mapping[str, str]) -> list[str]:
    """The indexed files whose content HEAD does not have; none outside of git."""
    with suppress(CodebaseError):
        repository = git_repository_at(root)
        head = None if repository is None else commit_at_head(repository)
        if repository is not None and head is not None:
            committed = {escape_path(e.path): e.object_id for e in list_tree(repository, head)}
            paths = [path for path, hash_ in hashes.items() if committed.get(path) != hash_]
            # Of more files the content is converted when it is checked out.
            return paths if len(paths) <= _MOST_UNCOMMITTED else []
    return []
