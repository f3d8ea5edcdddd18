"""What does the history of the repositories of a project say?

A history is read when it is first searched, and before each search brought up to what is checked
out and to the indexed branches: that costs two calls of git where nothing has changed, and two more
where branches are indexed.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from codebase_mcp.app.reports import HistoryReport, SymbolReport
from codebase_mcp.app.scopes import CallScope, NamedRepository, Scopes
from codebase_mcp.changes.symbol_history import SymbolHistory, symbol_history
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project
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
from codebase_mcp.projects.identity import ANONYMOUS, Identity
from codebase_mcp.projects.resolution import Resolver
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
from codebase_mcp.source.blame import Blamed, Lines, blame, lines_of
from codebase_mcp.source.commit_log import find_tip
from codebase_mcp.source.git_directory import git_repository_at

if TYPE_CHECKING:
    from codebase_mcp.search.search import Answer

# How many commits are read of a repository for which no number was ever named.
DEFAULT_DEPTH = 1_000


class History:
    """Searches the commits of the projects of one database."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        models: Models,
        resolver: Resolver,
        scopes: Scopes,
    ) -> None:
        self._settings = settings
        self._database = database
        self._models = models
        self._resolver = resolver
        self._scopes = scopes

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
        """The commits that answer a question, best first; without one the newest, newest first.

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
            model = await self._models.primary()
            repositories = await self._repositories(scope)
            read, notices = await self._refresh(project, model, repositories)
            question = await self._question(model, query) if query else None
            async with self._database.bounded_read(project) as tx:
                lacking = question is not None and await lacks_texts(tx, model)
            if lacking:
                async with self._database.transaction(project) as tx:
                    await make_searchable(tx, model)
            async with self._database.bounded_read(project) as tx:
                found = await search_history(tx, question, filters, limit + 1)
        latency_ms = (time.perf_counter() - started) * 1000
        return HistoryReport(
            *(tuple(found[:limit]), project, source, repositories, latency_ms, scope),
            has_more=len(found) > limit,
            read=read,
            notices=tuple(notices),
        )

    async def of_symbol(
        self,
        name: str,
        project_id: str | None = None,
        *,
        repository: NamedRepository = None,
        depth: int | None = None,
        identity: Identity = ANONYMOUS,
    ) -> SymbolReport:
        """What became of the definitions of a name, in ``depth`` commits or as many as are kept.

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
                found = await asyncio.to_thread(self._of_symbol, facts, name, depth)
            except IndexingFailed as error:
                notices.append(_unread(facts, error))
                continue
            if found is not None:
                histories[facts.repository_id] = found
        return SymbolReport(name, histories, project, repositories, tuple(notices))

    async def last_changes(self, project: Project, answer: Answer) -> tuple[LastChange | None, ...]:
        """The commit that last changed the lines of each hit; None where that is unknown.

        Where git cannot tell it in time, it is the newest stored commit that touched the file.

        Raises:
            DatabaseUnavailable: the database is away.
        """
        roots = {one.repository_id: Path(one.root) for one in answer.snapshots}
        of_view = defaultdict[tuple[UUID, str], list[int]](list)
        for place, hit in enumerate(answer.hits):
            of_view[hit.repository_id, hit.view].append(place)
        changes: list[LastChange | None] = [None] * len(answer.hits)
        for (repository_id, view), places in of_view.items():
            hits = [answer.hits[place] for place in places]
            revision = "HEAD" if view == WORKTREE else view
            pieces = [Lines(h.file_path, h.start_line, lines_of(h.content)) for h in hits]
            found = await asyncio.to_thread(changes_of, roots[repository_id], pieces, revision)
            for place, change in zip(places, found, strict=True):
                changes[place] = change
        missing = [place for place, change in enumerate(changes) if change is None]
        if missing:
            of_files = [
                (h.repository_id, h.file_path) for h in map(answer.hits.__getitem__, missing)
            ]
            async with self._database.bounded_read(project) as tx:
                newest = await newest_changes(tx, of_files)
            for place, change in zip(missing, newest, strict=True):
                changes[place] = change
        return tuple(changes)

    async def _repositories(self, scope: CallScope) -> dict[UUID, HistoryFacts]:
        """What is known of the histories of the repositories that a call means."""
        async with self._database.bounded_read(scope.project) as tx:
            known = await load_histories(tx)
        only = scope.only
        return {
            one.repository_id: one for one in known if only is None or one.repository_id in only
        }

    async def _question(self, model: Model, query: str) -> HistoryQuestion:
        question = without_courtesy(await as_sent(model.embedder, query))
        vector = await model.embedder.embed_query(question)
        return HistoryQuestion(parse_query(query), vector, texts_version(model))

    async def _refresh(
        self,
        project: Project,
        model: Model,
        repositories: Mapping[UUID, HistoryFacts],
    ) -> tuple[dict[UUID, int], list[str]]:
        """Bring the histories up to date: how much was read for the first time, what failed."""
        read: dict[UUID, int] = {}
        notices: list[str] = []
        for facts in repositories.values():
            if await asyncio.to_thread(git_repository_at, facts.root) is None:
                continue  # of another machine, perhaps: what is stored stays
            depth = None if facts.depth else await asyncio.to_thread(self._depth, facts)
            try:
                commits = await refresh_history(
                    *(self._database, model, project, facts.repository_id, facts.root),
                    depth=depth,
                    wait=False,
                )
            except (IndexingFailed, DatabaseUnavailable) as error:
                notices.append(_unread(facts, error))
                continue
            if depth is not None:
                read[facts.repository_id] = commits
        return read, notices

    def _of_symbol(self, facts: HistoryFacts, name: str, depth: int | None) -> SymbolHistory | None:
        tip = find_tip(facts.root)
        commits = depth or facts.depth or self._depth(facts)
        return None if tip is None else symbol_history(tip, name, commits)

    def _depth(self, facts: HistoryFacts) -> int:
        return repository_at(self._settings, facts.root).history_depth or DEFAULT_DEPTH


def _unread(facts: HistoryFacts, error: CodebaseError) -> str:
    return f"The history of {facts.root} could not be read: {error.message}"


def changes_of(root: Path, places: Sequence[Lines], revision: str) -> list[LastChange | None]:
    """The commit that last changed each of some places; None where git cannot tell it in time."""
    repository = git_repository_at(root)
    if repository is None:
        return [None] * len(places)
    return [_last_change(found) for found in blame(repository, places, revision=revision)]


def _last_change(found: Blamed | None) -> LastChange | None:
    if found is None or found.commit is None:
        return None if found is None else LastChange(None)
    at = datetime.fromtimestamp(found.authored_at, UTC)
    return LastChange(found.commit, found.author, at, found.subject)
