"""The product as a Python API: the rooms, wired together.

async with await App.open() as app:
    await app.index("/path/to/repository")
    report = await app.search("where are requests retried")
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from uuid import UUID

from codebase_mcp.database.connection import Database, DatabaseFacts, Embedded, External
from codebase_mcp.database.projects import (
    Project,
    drop_project,
    ensure_project,
    find_project,
    list_projects,
)
from codebase_mcp.embedding.embedder import Embedder
from codebase_mcp.embedding.static import BUILTIN, StaticEmbedder
from codebase_mcp.errors import InternalError, NotFound
from codebase_mcp.index.build import Indexer, Progress, RunResult
from codebase_mcp.index.inventory import RepositoryFacts, load_inventory
from codebase_mcp.index.pool import PreparerPool
from codebase_mcp.index.prepare import profile_fingerprint
from codebase_mcp.search.candidates import Filters
from codebase_mcp.search.ranking import RankedFile
from codebase_mcp.search.search import Answer, Request, Searcher
from codebase_mcp.settings import Settings, keep_caches_in
from codebase_mcp.source.root import resolve_root

ProjectSource = Literal["explicit", "default"]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an index run did, and in which project."""

    run: RunResult
    project: Project
    project_source: ProjectSource


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The answer to a question, from which project, and how long it took (ms)."""

    answer: Answer
    project: Project
    project_source: ProjectSource
    latency_ms: float


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """A project and what is indexed in it."""

    project: Project
    repositories: tuple[RepositoryFacts, ...]


class App:
    """Everything that the product can do; one instance serves any number of callers at once."""

    def __init__(
        self, settings: Settings, database: Database, embedder: Embedder, pool: PreparerPool
    ) -> None:
        self.settings = settings
        self._database = database
        self._pool = pool
        self._indexer = Indexer(database, embedder, pool, settings.max_file_bytes)
        self._searcher = Searcher(database, embedder, profile_fingerprint(embedder))
        self.embedder = embedder
        self._known: dict[str | None, tuple[Project, ProjectSource]] = {}

    @classmethod
    async def open(cls, settings: Settings | None = None) -> App:
        """Load the model; the database is started or joined when it is first needed.

        Raises:
            InvalidInput: a setting does not fit.
            EmbeddingUnavailable: the embedding model cannot be read.
        """
        settings = settings or Settings.load()
        keep_caches_in(settings.data_dir)
        folder = settings.embedding_model or BUILTIN
        name = "builtin" if settings.embedding_model is None else folder.name
        source = partial(StaticEmbedder.load, folder, name)
        embedder = await asyncio.to_thread(source)
        target = (
            External(settings.database_url, pool_size=settings.db_pool_size)
            if settings.database_url
            else Embedded(settings.data_dir, idle_minutes=settings.idle_minutes)
        )
        database = await Database.open(target)
        # What is loaded now stays: a collector that walks it again and again takes a quarter of
        # every search.
        gc.freeze()
        return cls(settings, database, embedder, PreparerPool(source, embedder, settings.workers))

    async def __aenter__(self) -> App:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give everything back; the embedded database lives on while others use it."""
        await asyncio.to_thread(self._pool.close)
        await self._database.close()

    async def index(
        self,
        repo_path: str | Path,
        project_id: str | None = None,
        *,
        name: str | None = None,
        force_reindex: bool = False,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> IndexReport:
        """Make the index of a directory equal to it.

        Raises:
            InvalidInput: the path is no readable directory, or the project id is none.
            Conflict: the project would share its schema with another.
            PermissionDenied: the project's schema cannot be created.
            DatabaseUnavailable, EmbeddingUnavailable: before anything was stored.
        """
        root = await asyncio.to_thread(resolve_root, str(repo_path))
        project, source = await self._project(project_id, create=True)
        run = await self._indexer.run(
            project, root, name=name, force=force_reindex, progress=progress
        )
        return IndexReport(run, project, source)

    async def search(
        self, query: str, project_id: str | None = None, request: Request | None = None
    ) -> SearchReport:
        """The places of a project that answer a question best.

        Raises:
            ProjectNotFound: unknown, or never indexed.
            DatabaseUnavailable, EmbeddingUnavailable: the index cannot be searched.
        """
        started = time.perf_counter()
        project, source = await self._known_project(project_id)
        try:
            answer = await self._searcher.search(project, query, request or Request())
        except InternalError:  # dropped by another process, perhaps: then it is not found now
            self._known.pop(project_id, None)
            await self._known_project(project_id)
            raise
        return SearchReport(answer, project, source, (time.perf_counter() - started) * 1000)

    async def rank(self, query: str, project_id: str | None, filters: Filters) -> list[RankedFile]:
        """All candidate files with their signals, best first: for measuring, not for showing."""
        project, _ = await self._project(project_id, create=False)
        return await self._searcher.rank(project, query, filters)

    async def projects(self) -> list[ProjectFacts]:
        """All projects with their repositories."""
        found = []
        for project in await list_projects(self._database):
            async with self._database.transaction(project, readonly=True) as tx:
                found.append(ProjectFacts(project, await load_inventory(tx)))
        return found

    async def remove(self, repo_path: str | Path, project_id: str | None = None) -> UUID:
        """Forget a repository, which need not exist any more; its id.

        Raises:
            NotFound: no such repository in the project.
            ProjectNotFound: no such project.
        """
        project, _ = await self._project(project_id, create=False)
        wanted = {str(Path(repo_path).expanduser().absolute()), str(Path(repo_path).resolve())}
        async with self._database.transaction(project, readonly=True) as tx:
            known = await load_inventory(tx)
        match = next((r for r in known if r.root in wanted or str(r.id) == str(repo_path)), None)
        if match is None or not await self._indexer.remove(project, match.id):
            raise NotFound(
                f"Repository not found: {repo_path}",
                hint="Indexed repositories: " + (", ".join(r.root for r in known) or "none"),
            )
        return match.id

    async def drop_project(self, project_id: str) -> None:
        """Delete a project with everything in it.

        Raises:
            ProjectNotFound: no such project.
        """
        self._known.pop(project_id, None)
        await drop_project(self._database, await find_project(self._database, project_id))

    async def database_facts(self) -> DatabaseFacts:
        """The database's version and whereabouts.

        Raises:
            DatabaseUnavailable: it is away, too old, or without pgvector.
        """
        return await self._database.check()

    async def _known_project(self, project_id: str | None) -> tuple[Project, ProjectSource]:
        """A project to search, looked up once."""
        if project_id not in self._known:
            self._known[project_id] = await self._project(project_id, create=False)
        return self._known[project_id]

    async def _project(
        self, project_id: str | None, *, create: bool
    ) -> tuple[Project, ProjectSource]:
        source: ProjectSource = "default" if project_id is None else "explicit"
        find: Any = ensure_project if create else find_project
        return await find(self._database, project_id), source
