"""Searches the git history of the repositories of a project.

A history is read by its first search. Each later search brings it up to date with HEAD and the
indexed branches: two calls of git where nothing has changed, and two more for indexed branches.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import Resolver
from codebase_mcp.app.reports import HistoryReport, SymbolHistoryReport
from codebase_mcp.app.scopes import CallScope, NamedRepository, Scopes
from codebase_mcp.changes.symbol_history import SymbolHistory, symbol_history
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.embedding.embedder import as_sent
from codebase_mcp.embedding.models import Model, Models
from codebase_mcp.errors import CodebaseError, DatabaseUnavailable, IndexingFailed
from codebase_mcp.index.commit_history import (
    HistoryFacts,
    lacks_texts,
    load_histories,
    make_searchable,
    refresh_history,
    texts_version,
)
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.history import (
    HistoryFilters,
    HistoryQuestion,
    LastChange,
    newest_changes,
    search_history,
)
from codebase_mcp.search.query import parse_query, without_courtesy
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import repository_at
from codebase_mcp.source.commit_log import Blamed, Lines, blame, find_tip, lines_of
from codebase_mcp.source.git_directory import git_repository_at
from codebase_mcp.values import grouped

if TYPE_CHECKING:
    from codebase_mcp.search.search import Answer

# The number of commits that are read of a repository without a setting.
DEFAULT_DEPTH = 1_000


@dataclass(frozen=True, slots=True)
class History:
    """Searches the commits of the projects of a database."""

    _settings: Settings
    _database: Database
    _models: Models
    _resolver: Resolver
    _scopes: Scopes

    async def search(
        self,
        query: str,
        project_id: str | None = None,
        filters: HistoryFilters | None = None,
        *,
        limit: int = 10,
        identity: Identity = ANONYMOUS,
        repository: NamedRepository = None,
    ) -> HistoryReport:
        """The commits that answer a question, best first; without a question the newest commits.

        ``repository`` is as for `App.search`.

        Raises:
            ProjectNotFound: unknown, or never indexed.
            DatabaseUnavailable: the database is away.
        """
        started = time.perf_counter()
        scope = await self._scopes.resolve(project_id, identity, repository)
        project, source = scope.project, scope.source
        filters = replace(filters or HistoryFilters(), only=scope.only)
        async with self._resolver.raise_not_found_if_dropped(project, source):
            repositories = await self._repositories(scope)
            model = await self._models.primary()
            read, notices = await self._refresh(project, model, repositories)
            question = await self._question(model, query) if query else None
            async with self._database.bounded_read(project) as tx:
                lacking = question is not None and await lacks_texts(tx, model)
            if lacking:
                async with self._database.transaction(project) as tx:
                    await make_searchable(tx, model)
            async with self._database.bounded_read(project) as tx:
                commits = await search_history(tx, question, filters, limit + 1)
        latency_ms = (time.perf_counter() - started) * 1000
        return HistoryReport(
            commits=tuple(commits[:limit]),
            project=project,
            project_source=source,
            repositories=repositories,
            latency_ms=latency_ms,
            scope=scope,
            has_more=len(commits) > limit,
            read=read,
            notices=tuple(notices),
        )

    async def refresh(self, scope: CallScope) -> list[str]:
        """Bring the histories of a scope up to date; returns notices of failures."""
        model = await self._models.primary()
        _, notices = await self._refresh(scope.project, model, await self._repositories(scope))
        return notices

    async def of_symbol(
        self,
        name: str,
        project_id: str | None = None,
        *,
        repository: NamedRepository = None,
        identity: Identity = ANONYMOUS,
    ) -> SymbolHistoryReport:
        """The history of the definitions of a name in the stored commits.

        Raises:
            ProjectNotFound: unknown, or never indexed.
            DatabaseUnavailable: the database is away.
        """
        scope = await self._scopes.resolve(project_id, identity, repository)
        project, source = scope.project, scope.source
        async with self._resolver.raise_not_found_if_dropped(project, source):
            repositories = await self._repositories(scope)
        histories: dict[UUID, SymbolHistory] = {}
        notices = []
        for facts in repositories.values():
            try:
                history = await asyncio.to_thread(self._of_symbol, facts, name)
            except IndexingFailed as error:
                notices.append(_unread(facts, error))
                continue
            if history is not None:
                histories[facts.repository_id] = history
        return SymbolHistoryReport(name, histories, project, repositories, tuple(notices))

    async def last_changes(self, project: Project, answer: Answer) -> tuple[LastChange | None, ...]:
        """The commit that last changed the lines of each hit; None where that is unknown.

        Where git does not answer in time, it is the newest stored commit that touched the file.

        Raises:
            DatabaseUnavailable: the database is away.
        """
        roots = {snap.repository_id: Path(snap.root) for snap in answer.snapshots}
        by_view = grouped(
            ((hit.repository_id, hit.view), rank) for rank, hit in enumerate(answer.hits)
        )
        changes: list[LastChange | None] = [None] * len(answer.hits)
        for (repository_id, view), ranks in by_view.items():
            hits = [answer.hits[rank] for rank in ranks]
            revision = "HEAD" if view == WORKTREE else view
            ranges = [Lines(h.file_path, h.start_line, lines_of(h.content)) for h in hits]
            blamed = await asyncio.to_thread(changes_of, roots[repository_id], ranges, revision)
            for rank, change in zip(ranks, blamed, strict=True):
                changes[rank] = change
        missing = [rank for rank, change in enumerate(changes) if change is None]
        if missing:
            files = [(answer.hits[n].repository_id, answer.hits[n].file_path) for n in missing]
            async with self._database.bounded_read(project) as tx:
                newest = await newest_changes(tx, files)
            for rank, change in zip(missing, newest, strict=True):
                changes[rank] = change
        return tuple(changes)

    async def _repositories(self, scope: CallScope) -> dict[UUID, HistoryFacts]:
        """The stored histories of the repositories in a scope."""
        async with self._database.bounded_read(scope.project) as tx:
            histories = await load_histories(tx)
        return {
            facts.repository_id: facts
            for facts in histories
            if scope.only is None or facts.repository_id in scope.only
        }

    async def _question(self, model: Model, query: str) -> HistoryQuestion:
        question = without_courtesy(await as_sent(model.embedder, query))
        vector = await model.embedder.embed_query(question)
        return HistoryQuestion(parse_query(query), vector, texts_version(model))

    async def _refresh(
        self, project: Project, model: Model, repositories: Mapping[UUID, HistoryFacts]
    ) -> tuple[dict[UUID, int], list[str]]:
        """Bring the histories up to date: the commits of new histories, and notices of failures."""
        read: dict[UUID, int] = {}
        notices: list[str] = []
        for facts in repositories.values():
            if await asyncio.to_thread(git_repository_at, facts.root) is None:
                continue  # of another machine, perhaps: its stored history stays
            depth = None if facts.depth else await asyncio.to_thread(self._depth, facts)
            try:
                commits = await refresh_history(
                    self._database,
                    model,
                    project,
                    facts.repository_id,
                    facts.root,
                    depth=depth,
                    wait=False,
                )
            except (IndexingFailed, DatabaseUnavailable) as error:
                notices.append(_unread(facts, error))
                continue
            if depth is not None:
                read[facts.repository_id] = commits
        return read, notices

    def _of_symbol(self, facts: HistoryFacts, name: str) -> SymbolHistory | None:
        tip = find_tip(facts.root)
        commits = facts.depth or self._depth(facts)
        return None if tip is None else symbol_history(tip, name, commits)

    def _depth(self, facts: HistoryFacts) -> int:
        return repository_at(self._settings, facts.root).history_depth or DEFAULT_DEPTH


def _unread(facts: HistoryFacts, error: CodebaseError) -> str:
    return f"The history of {facts.root} could not be read: {error.message}"


def changes_of(root: Path, ranges: Sequence[Lines], revision: str) -> list[LastChange | None]:
    """The commit that last changed each range of lines; None where git does not answer in time."""
    repository = git_repository_at(root)
    if repository is None:
        return [None] * len(ranges)
    blames = blame(repository, ranges, revision=revision)
    return [None if blamed is None else _last_change(blamed) for blamed in blames]


def _last_change(blamed: Blamed) -> LastChange:
    if blamed.commit is None:
        return LastChange(None)
    at = datetime.fromtimestamp(blamed.authored_at, UTC)
    return LastChange(blamed.commit, blamed.author, at, blamed.subject)
