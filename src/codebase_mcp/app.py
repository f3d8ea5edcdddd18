"""The product as a Python API: the rooms, wired together.

async with await App.open() as app:
    await app.index("/path/to/repository")
    report = await app.search("where are requests retried")
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import UUID

from codebase_mcp.database.connection import Database, DatabaseFacts, PoolFacts
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.database.nearest import NearestIndexes
from codebase_mcp.database.projects import (
    Project,
    drop_project,
    find_project,
    list_projects,
    page_id,
    page_of_projects,
)
from codebase_mcp.embedding.models import Models
from codebase_mcp.errors import DatabaseUnavailable, IndexingFailed, NotFound, ProjectNotFound
from codebase_mcp.freshness import Freshness
from codebase_mcp.index.identity import PROGRAM_VERSION
from codebase_mcp.index.inventory import RepositoryFacts, load_inventory
from codebase_mcp.index.queue import JobQueue
from codebase_mcp.index.refresh import Outdated
from codebase_mcp.projects.holding import Holding, projects_at
from codebase_mcp.projects.identity import NOBODY, Identity
from codebase_mcp.projects.resolution import Resolver
from codebase_mcp.reports import IndexReport, InProject, ProjectFacts, SearchReport
from codebase_mcp.repository_settings import RepositorySettings, choice_of, repository_at
from codebase_mcp.search.filters import FileFilters
from codebase_mcp.search.help import IndexCoverage, is_weak
from codebase_mcp.search.memory_indexes import MemoryIndexes
from codebase_mcp.search.search import Ranking, Request, Searcher
from codebase_mcp.settings import Settings, keep_caches_in
from codebase_mcp.source.root import resolve_root
from codebase_mcp.wiring import chosen_model, database_target, model_access

if TYPE_CHECKING:
    from codebase_mcp.dry_run import DryRun
    from codebase_mcp.embedding.embedder import Embedder
    from codebase_mcp.erasure import Erasure
    from codebase_mcp.index.build import Indexer, RunResult
    from codebase_mcp.index.growing import Grower
    from codebase_mcp.index.pool import PreparerPool
    from codebase_mcp.index.progress import Progress
    from codebase_mcp.projects.health import Health
    from codebase_mcp.projects.workflow import WorkflowClient
    from codebase_mcp.records.notes import Note
    from codebase_mcp.records.page import Page, Paging
    from codebase_mcp.search.misses import Misses
    from codebase_mcp.transfers import Transfers

__all__ = ["App", "InProject", "IndexReport", "ProjectFacts", "SearchReport"]


def _repository_not_found(repo_path: str | Path, known: Sequence[RepositoryFacts]) -> NotFound:
    return NotFound(
        f"Repository not found: {repo_path}",
        hint="Indexed repositories: " + (", ".join(r.root for r in known) or "none"),
    )


def _workflow(settings: Settings) -> WorkflowClient | None:
    """Who says which project is active, if anybody does."""
    if settings.workflow_url is None:
        return None
    from codebase_mcp.projects.workflow import WorkflowClient  # noqa: PLC0415 - brings HTTP along

    return WorkflowClient(settings.workflow_url)


class App:
    """Everything that the product can do; one instance serves any number of callers at once."""

    def __init__(
        self, settings: Settings, database: Database, models: Models, *, only_once: bool = False
    ) -> None:
        self.settings = settings
        self.models = models
        self._database = database
        self._nearest = NearestIndexes(database)
        self.memory_indexes = MemoryIndexes(database, most_bytes=settings.search_memory_mb << 20)
        self._searcher = Searcher(
            database, models, PROGRAM_VERSION, self._nearest, self.memory_indexes
        )
        self.jobs = JobQueue(database)
        self.freshness = Freshness(
            database,
            self._searcher,
            self._let_follow,
            lambda root: repository_at(settings, root).selection,
            outdated=Outdated(
                lambda profile: models.is_outdated(profile, PROGRAM_VERSION),
                self.jobs.enqueue,
            ),
            chosen_by=choice_of(settings),
            budget_s=settings.check_ms / 1000,
            only_once=only_once,
        )
        self.resolver = Resolver(database, _workflow(settings), chosen=settings.project)

    # What a search does not need is loaded when it is first used: a command pays for every module.

    @cached_property
    def _pool(self) -> PreparerPool:
        from codebase_mcp.index.pool import PreparerPool  # noqa: PLC0415

        return PreparerPool(self.settings.workers)

    @cached_property
    def _indexer(self) -> Indexer:
        from codebase_mcp.index.build import Indexer  # noqa: PLC0415

        return Indexer(self._database, self.models, self._pool)

    @cached_property
    def _misses(self) -> Misses:
        from codebase_mcp.search.misses import Misses  # noqa: PLC0415

        return Misses(self._database, self.models, self._searcher)

    @cached_property
    def grower(self) -> Grower:
        """Adds the vectors of the second tier."""
        from codebase_mcp.index.growing import Grower  # noqa: PLC0415

        return Grower(self._database, self.models)

    @cached_property
    def erasure(self) -> Erasure:
        """Purges."""
        from codebase_mcp.erasure import Erasure  # noqa: PLC0415

        return Erasure(self._database, self.resolver, self._indexer, self.jobs)

    @cached_property
    def dry_run(self) -> DryRun:
        """Forecasts index runs."""
        from codebase_mcp.dry_run import DryRun  # noqa: PLC0415

        return DryRun(self.settings, self._database, self.resolver, self.models)

    @cached_property
    def transfers(self) -> Transfers:
        """Exports and imports records, backs up and restores."""
        from codebase_mcp.transfers import Transfers  # noqa: PLC0415

        return Transfers(self._database, self.resolver, self.models)

    @classmethod
    async def open(
        cls,
        settings: Settings | None = None,
        database: Database | None = None,
        *,
        only_once: bool = False,
    ) -> App:
        """Load the model, or name the service; who is elsewhere is asked when first needed.

        ``database`` is one that was opened before, by these settings. With ``only_once`` nothing is
        made ready for a second search.

        Raises:
            InvalidInput: a setting does not fit.
            EmbeddingUnavailable: the embedding model cannot be read.
        """
        if "multiprocessing.process" in sys.modules:  # else this is nobody's worker process
            from codebase_mcp.index.pool import require_main_guard  # noqa: PLC0415

            require_main_guard()
        settings = settings or Settings.load()
        keep_caches_in(settings.data_dir)
        models = await asyncio.to_thread(
            Models.open, chosen_model(settings), model_access(settings)
        )
        database = database or await Database.open(database_target(settings))
        # What is loaded now stays: a collector that walks it again and again takes a quarter of
        # every search.
        gc.freeze()
        return cls(settings, database, models, only_once=only_once)

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
        await self.resolver.close()
        await self.freshness.close()
        if "_misses" in vars(self):
            self._misses.close()
        await self._searcher.close()
        await self._nearest.close()
        await self.memory_indexes.close()
        if "_pool" in vars(self):
            await asyncio.to_thread(self._pool.close)
        await self.models.close()
        await self._database.close()

    async def index(
        self,
        repo_path: str | Path,
        project_id: str | None = None,
        *,
        name: str | None = None,
        force_reindex: bool = False,
        history_depth: int | None = None,
        operation_id: UUID | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
        identity: Identity = NOBODY,
    ) -> IndexReport:
        """Make the index of a directory equal to it; what is anchored to its code follows.

        So many commits of its history are kept from now on; without a number, as many as the
        settings say, or else as before. The run is known as ``operation_id``.

        Raises:
            InvalidInput: the path is no readable directory, the project id is none, or the
                repository's context file is wrong.
            Conflict: the project would share its schema with another.
            PermissionDenied: the project's schema cannot be created.
            DatabaseUnavailable, EmbeddingUnavailable: before anything was stored.
        """
        root, repository = await self._repository_settings(repo_path)
        project, source = await self.resolver.resolve(
            project_id, identity, repository=root, create=True
        )
        run = await self._indexer.run(
            project,
            root,
            name=name,
            force=force_reindex,
            selection=repository.selection,
            operation_id=operation_id,
            progress=progress,
        )
        self.freshness.forget(project)
        depth = repository.history_depth if history_depth is None else history_depth
        run, commits = await self._read_history(project, run, depth)
        run = await self._follow(project, run, is_rebuilt=force_reindex)
        return IndexReport(run, project, source, repository, commits)

    async def update(
        self,
        repo_path: str | Path,
        paths: Iterable[str],
        project_id: str | None = None,
        *,
        identity: Identity = NOBODY,
    ) -> IndexReport:
        """Make the index equal to the disk at some paths, files or directories, there or gone.

        They are relative to the repository's root. Nothing else is looked at, unless they decide
        about others, as ignore files do, or the last run broke off.

        Raises:
            InvalidInput, ProjectNotFound, DatabaseUnavailable, EmbeddingUnavailable: as ``index``.
        """
        root, repository = await self._repository_settings(repo_path)
        project, source = await self.resolver.resolve(project_id, identity, repository=root)
        run = await self._indexer.update(project, root, paths, selection=repository.selection)
        run, commits = await self._read_history(project, run, repository.history_depth)
        return IndexReport(await self._follow(project, run), project, source, repository, commits)

    async def _let_follow(
        self, project: Project, root: Path, paths: Iterable[str] | None
    ) -> RunResult:
        """Let the index of a repository follow its tree, at some paths or everywhere.

        Raises:
            IndexingFailed: only a part of it was stored.
        """
        report = await self.update(root, paths or ["."], project.project_id or DEFAULT_ID)
        if report.run.status == "failed":
            raise IndexingFailed(report.run.errors[-1])
        return report.run

    async def _repository_settings(self, repo_path: str | Path) -> tuple[Path, RepositorySettings]:
        root = await asyncio.to_thread(resolve_root, str(repo_path))
        return root, await asyncio.to_thread(repository_at, self.settings, root)

    async def _read_history(
        self, project: Project, run: RunResult, depth: int | None
    ) -> tuple[RunResult, int]:
        """Bring the history up to date, and count it; a run that cannot says so and stands."""
        if run.status == "failed":
            return run, 0
        from codebase_mcp.index.history import refresh_history  # noqa: PLC0415 - for runs alone

        try:
            return run, await refresh_history(
                self._database, project, run.repository_id, run.root, depth
            )
        except (IndexingFailed, DatabaseUnavailable) as error:
            told = f"The history could not be read: {error.message}"
            return replace(run, notice=" ".join(filter(None, [run.notice, told]))), 0

    async def _follow(
        self, project: Project, run: RunResult, *, is_rebuilt: bool = False
    ) -> RunResult:
        """Let anchors follow the code; what a run that broke off left is no state to follow."""
        if run.status == "failed":
            return run
        from codebase_mcp.records.following import refresh_anchors  # noqa: PLC0415 - for runs alone

        try:
            async with self._database.transaction(project) as tx:
                await refresh_anchors(
                    tx,
                    run.repository_id,
                    added=run.added,
                    changed=run.changed,
                    is_changed=is_rebuilt or run.files_indexed > 0 or run.files_removed > 0,
                )
        except DatabaseUnavailable as error:
            return replace(run, status="failed", errors=[*run.errors, error.message])
        return run

    async def search(
        self,
        query: str,
        project_id: str | None = None,
        request: Request | None = None,
        *,
        identity: Identity = NOBODY,
        with_notes: bool = False,
        with_help: bool = False,
    ) -> SearchReport:
        """The places of a project that answer a question best; with what is known about them.

        A weak answer comes with help, if that is asked for: why, and what to ask instead.

        Raises:
            ProjectNotFound: unknown, or never indexed.
            DatabaseUnavailable, EmbeddingUnavailable: the index cannot be searched.
        """
        started = time.perf_counter()
        project, source = await self.resolver.resolve(project_id, identity)
        async with self.resolver.still_there(project, source):
            request = request or Request()
            answer, truth = await self.freshness.search(project, query, request)
            help_ = None
            if with_help and is_weak(answer.hits):
                coverage = IndexCoverage(truth.state, truth.files_pending, truth.files_failed)
                help_ = await self._misses.help(project, query, request.filters, answer, coverage)
            notes: list[tuple[Note, ...]] = []
            if with_notes:
                from codebase_mcp.records.notes import notes_on  # noqa: PLC0415 - seldom asked for

                async with self._database.transaction(project, readonly=True) as tx:
                    notes = await notes_on(tx, answer.hits)
        latency_ms = (time.perf_counter() - started) * 1000
        return SearchReport(answer, project, source, truth, latency_ms, tuple(notes), help_)

    async def rank(self, query: str, project_id: str | None, filters: FileFilters) -> Ranking:
        """All candidate files with their signals, best first: for measuring, not for showing."""
        project, _ = await self.resolver.resolve(project_id, NOBODY)
        return await self._searcher.rank(project, query, filters)

    @asynccontextmanager
    async def enter(
        self,
        project_id: str | None = None,
        identity: Identity = NOBODY,
        *,
        readonly: bool = False,
    ) -> AsyncIterator[InProject]:
        """A transaction in the project that a call means, for what is kept beside the code.

        Raises:
            ProjectNotFound: no such project.
            DatabaseUnavailable: the database is away.
        """
        project, source = await self.resolver.resolve(project_id, identity)
        async with (
            self.resolver.still_there(project, source),
            self._database.transaction(project, readonly=readonly) as tx,
        ):
            yield InProject(tx, project, source, identity.owner)

    async def projects(self, chosen: Sequence[Project] | None = None) -> list[ProjectFacts]:
        """Some projects, or all of them, with their repositories."""
        found = []
        for project in await list_projects(self._database) if chosen is None else chosen:
            with suppress(ProjectNotFound):  # dropped meanwhile
                async with (
                    self.resolver.still_there(project, "explicit"),
                    self._database.transaction(project, readonly=True) as tx,
                ):
                    found.append(ProjectFacts(project, await load_inventory(tx)))
        return found

    async def projects_at(self, directory: Path) -> list[Holding]:
        """The projects that have the repository in which a directory lies, the last indexed first.

        Of repositories inside each other the innermost counts.
        """
        return await projects_at(self._database, directory)

    async def list_projects(self, paging: Paging) -> Page[Project]:
        """A page of the projects, newest first."""
        from codebase_mcp.records.page import Cursor  # noqa: PLC0415 - for this alone

        found, total = await page_of_projects(self._database, paging.parameters())
        return paging.page(found, total, lambda last: Cursor(last.created_at, page_id(last)))

    async def health(self, project_id: str | None, identity: Identity = NOBODY) -> Health:
        """What works and what does not; an answer also when the database is away.

        Raises:
            ProjectNotFound: the project that is named does not exist.
        """
        from codebase_mcp.projects.health import examine  # noqa: PLC0415 - for this alone

        return await examine(
            self._database,
            self.resolver,
            project_id,
            identity,
            models=self.models,
            queue=self.jobs,
            version=PROGRAM_VERSION,
        )

    @property
    def embedder(self) -> Embedder:
        """The strongest model that is configured."""
        return self.models.embedder

    @property
    def workers(self) -> int:
        """How many processes prepare what is indexed."""
        return self.settings.workers

    async def remove(
        self,
        repo_path: str | Path,
        project_id: str | None = None,
        identity: Identity = NOBODY,
    ) -> UUID:
        """Forget a repository, which need not exist any more; its id.

        Raises:
            NotFound: no such repository in the project.
            ProjectNotFound: no such project.
        """
        from codebase_mcp.records.following import refresh_anchors  # noqa: PLC0415 - for this alone

        project, _ = await self.resolver.resolve(project_id, identity)
        match = await self._repository(project, repo_path)
        await self.jobs.stop(project.schema_name, match.id)
        if not await self._indexer.remove(project, match.id):
            raise _repository_not_found(repo_path, [])
        async with self._database.transaction(project) as tx:
            await refresh_anchors(tx, match.id)
        return match.id

    async def _repository(self, project: Project, repo_path: str | Path) -> RepositoryFacts:
        """An indexed repository by its directory, which need not exist any more, or its id."""
        wanted = {str(Path(repo_path).expanduser().absolute()), str(Path(repo_path).resolve())}
        async with self._database.transaction(project, readonly=True) as tx:
            known = await load_inventory(tx)
        match = next((r for r in known if r.root in wanted or str(r.id) == str(repo_path)), None)
        if match is None:
            raise _repository_not_found(repo_path, known)
        return match

    async def drop_project(self, project_id: str) -> None:
        """Delete a project with everything in it.

        Raises:
            ProjectNotFound: no such project.
        """
        project = await find_project(self._database, project_id)
        await self.jobs.stop(project.schema_name)
        await drop_project(self._database, project)
        self.resolver.forget(project)

    def pool_facts(self) -> PoolFacts:
        """How many connections to the database there are, in use, idle and waited for."""
        return self._database.pool_facts()

    async def database_facts(self) -> DatabaseFacts:
        """The database's version and whereabouts.

        Raises:
            DatabaseUnavailable: it is away, too old, or without pgvector.
        """
        return await self._database.check()
