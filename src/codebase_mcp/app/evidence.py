"""Gathers the evidence for a task, of each kind, in the snapshots that a call means."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
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
from codebase_mcp.processes import task_group
from codebase_mcp.search.literal import ExactText, fitting_texts
from codebase_mcp.search.query import inverse_frequencies, parse_query
from codebase_mcp.search.ranking import Ranking
from codebase_mcp.search.scope import FileFilters, ScopedSnapshot
from codebase_mcp.search.search import SearchedSnapshots, Searcher
from codebase_mcp.search.text_pattern import TextQuery
from codebase_mcp.source.git import commit_at_head
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
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


_PastOf = tuple[ScopedSnapshot, list[PastCommit]]


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
        searched = SearchedSnapshots(ids, first=scope.first)
        whole = " ".join([*task.scopes, *task.sentences, *task.names])[:_WHOLE_CHARS]
        changed = " ".join(task.changed)[:_WHOLE_CHARS]
        texts = {
            "title": " ".join([*task.scopes, task.title]),
            "whole": whole if whole.strip() else changed or text[:_WHOLE_CHARS],
            "changed": changed,
        }
        every = " ".join([whole, *task.changed, *task.around])[:_EVERY_CHARS]
        async with task_group() as group:
            searching = group.create_task(self._rankings(project, texts, searched))
            counting = group.create_task(self._searcher.text_words(project, every, searched))
            loading = group.create_task(self._stored(scope, given, ids, whole))
        rankings, words = searching.result(), counting.result()
        snapshots, features, held, commits = loading.result()
        for name, ranking in rankings.items():
            _add_ranking(features, name, ranking)
        _tell_ranks(features)
        _add_words(features, words)
        lines = add_paths(features, task)
        add_scopes(features, task)
        if given is None and not held:
            differing = (path.path for path in task.paths if path.origin == "change")
            held = [row for path in differing for row in rows_of_path(features, path)]
        add_facts(features, task, held)
        await self._add_messages(project, snapshots, features, task)
        for snapshot, past in commits:
            add_commits(features, snapshot, past)
        defined = await self._reach(project, task, features, held, commits)
        return Evidence(
            task, snapshots, features, held,
            rankings["whole"], texts["whole"], searched, defined, lines,
        )  # fmt: skip

    async def _rankings(
        self, project: Project, texts: Mapping[str, str], searched: SearchedSnapshots
    ) -> dict[str, Ranking]:
        """What a search for each text finds; none for a text without words."""
        ranked = {
            text: await self._searcher.rank(project, text, FileFilters(), searched)
            for text in dict.fromkeys(texts.values())
            if text.strip()
        }
        return {name: ranked[text] for name, text in texts.items() if text in ranked}

    async def _stored(
        self,
        scope: CallScope,
        given: Sequence[str] | None,
        ids: tuple[int, ...] | None,
        text: str,
    ) -> tuple[tuple[ScopedSnapshot, ...], Features, list[int], list[_PastOf]]:
        """Some snapshots, columns for their files, those that the caller has, and past commits."""
        project = scope.project
        await self._app.history.refresh(scope)
        async with self._app.database.bounded_read(project) as tx:
            snapshots, tables = await self._app.exact.load_files(tx, project, ids)
        features = Features(self._table(project, snapshots, tables))
        held = await self._given(project, given, snapshots, features)
        return snapshots, features, held, await self._past_commits(project, snapshots, text)

    async def _reach(
        self,
        project: Project,
        task: Task,
        features: Features,
        given: Sequence[int],
        commits: Sequence[_PastOf],
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
                rows += await self._uncommitted(project, snapshot, features)
        return rows

    async def _uncommitted(
        self, project: Project, snapshot: ScopedSnapshot, features: Features
    ) -> list[int]:
        """The files whose indexed content HEAD does not have; none outside of git.

        Of very many files the content is converted when it is checked out: then none.
        """
        head = await asyncio.to_thread(_head, Path(snapshot.root))
        if head is None:
            return []
        differing = features.table.differing
        key = snapshot.id, head[1]
        if key not in differing:
            async with self._app.database.bounded_read(project) as tx:
                hashes = await tx.fetch_all(_SQL["hashes"], snapshot_id=snapshot.id)
            try:
                committed = await asyncio.to_thread(_committed, *head)
            except CodebaseError:
                return []
            found = (
                features.rows.get((snapshot.id, path))
                for path, hash_ in hashes
                if committed.get(path) != hash_
            )
            differing[key] = [row for row in found if row is not None]
        rows = differing[key]
        return rows if len(rows) <= _MOST_UNCOMMITTED else []

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

    async def _past_commits(
        self, project: Project, snapshots: Sequence[ScopedSnapshot], text: str
    ) -> list[_PastOf]:
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
    ranked = [
        (row, rank, file)
        for rank, file in enumerate(ranking.files)
        if (row := features.rows.get((file.candidate.snapshot_id, file.candidate.path))) is not None
    ]
    rows = [row for row, *_ in ranked]
    evidence = [file.candidate.evidence for *_, file in ranked]
    features.put_all(f"{name}_rank", rows, [1 / (1 + rank) for _, rank, _ in ranked])
    features.put_all(f"{name}_words", rows, [each.body / most for each in evidence])
    features.put_all(f"{name}_meaning", rows, [each.best_meaning for each in evidence])
    if name == "changed":
        return
    features.put_all(f"{name}_score", rows, [file.score / best for *_, file in ranked])
    for signal in ("name", "comments", "folders", "definition", "expansion"):
        column = f"name_in_{name}" if signal == "name" else signal
        features.put_all(column, rows, [file.signals[signal] for *_, file in ranked])


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
        found = [
            (row, value / most)
            for text_id, value in values.items()
            for row in features.by_text.get(text_id, ())
        ]
        features.put_all(column, [row for row, _ in found], [value for _, value in found])


def _likely(features: Features, given: Collection[int], guess: Trees) -> list[Seed]:
    """The likeliest files by a first guess, from which others are reached."""
    rows = candidates(features, given)
    probabilities = guess.probabilities(features.matrix(rows))
    features.guess[rows] = probabilities
    first = (-probabilities).argsort(kind="stable")[:_SEEDS]
    likely = zip(first.tolist(), probabilities[first].tolist(), strict=True)
    return [Seed(rows[at], share) for at, share in likely if share >= _LEAST_LIKELY]


def _head(root: Path) -> tuple[GitRepository, str] | None:
    """The git repository at a root, and the commit that is checked out, if there is any."""
    with suppress(CodebaseError):
        repository = git_repository_at(root)
        commit = None if repository is None else commit_at_head(repository)
        if repository is not None and commit is not None:
            return repository, commit
    return None


@lru_cache(maxsize=2)
def _committed(repository: GitRepository, commit: str) -> Mapping[str, str]:
    """The hashes of the contents of the files of a commit, by path."""
    return {escape_path(entry.path): entry.object_id for entry in list_tree(repository, commit)}
