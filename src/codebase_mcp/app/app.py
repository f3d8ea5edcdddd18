"""The product as a Python API: the rooms, wired together.

async with await App.open() as app:
    await app.index("/path/to/repository")
    report = await app.search("where are requests retried")

The process around it stays as it was; only while a grammar is loaded or a worker process starts is
a variable set in its environment. A program that searches often gains from what our own server
does: ``OPENBLAS_NUM_THREADS=1`` in the environment before NumPy is imported, and
``gc.freeze()`` once the app is open.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.repositories import find_repository, repository_not_found
from codebase_mcp.access.resolution import Resolver
from codebase_mcp.app.freshness.trees import IndexedTrees
from codebase_mcp.app.freshness.verified_search import Freshness
from codebase_mcp.app.index_runs import IndexRuns
from codebase_mcp.app.reports import (
    HistoryReport,
    IndexReport,
    InProject,
    ProjectFacts,
    SearchReport,
)
from codebase_mcp.app.scopes import FirstRuns, NamedRepository, ReportProgress, Scopes
from codebase_mcp.app.searching import Searches
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.database.nearest import NearestIndexes
from codebase_mcp.database.projects import (
    find_project,
    list_projects,
    page_id,
    page_of_projects,
    read_every,
)
from codebase_mcp.embedding.models import Models
from codebase_mcp.index.identity import PROGRAM_VERSION
from codebase_mcp.index.inventory import INVENTORY, inventory_of
from codebase_mcp.index.plan import RunRequest
from codebase_mcp.index.queue import JobQueue
from codebase_mcp.search.memory_indexes import MemoryIndexes
from codebase_mcp.search.ranking import Ranking
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request, Searcher
from codebase_mcp.settings.choices import chosen_model, database_target, service_access
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import (
    RepositorySettings,
    apply_to_process,
    choice_of,
    repository_at,
    resolve_for,
)
from codebase_mcp.telemetry.stopwatch import step

if TYPE_CHECKING:
    from codebase_mcp.access.health import Health
    from codebase_mcp.app.changes import Changes
    from codebase_mcp.app.context import ContextSearch
    from codebase_mcp.app.data import ProjectData
    from codebase_mcp.app.exact import ExactSearch
    from codebase_mcp.app.history import History
    from codebase_mcp.app.symbols import Symbols
    from codebase_mcp.app.views import Views
    from codebase_mcp.index.progress import RunProgress
    from codebase_mcp.records.page import Page, Paging
    from codebase_mcp.search.literal import ExactMatches
    from codebase_mcp.search.text_image import TextImages

__all__ = ["App", "HistoryReport", "InProject", "IndexReport", "ProjectFacts", "SearchReport"]


class App:
    """The whole product; an instance serves any number of callers at once."""

    def __init__(
        self, settings: Settings, database: Database, models: Models, *, only_once: bool = False
    ) -> None:
        self.settings = settings
        self._only_once = only_once
        self.models = models
        self.database = database
        database.search_limit_s = settings.search_timeout_s
        self._runs = IndexRuns(settings, database, models, lambda: self.views)
        self._nearest = nearest = NearestIndexes(database)
        self.memory_indexes = memory = MemoryIndexes(
            database,
            Path(settings.data_dir) / "indexes",
            most_bytes=settings.search_memory_mb << 20,
        )
        self._searcher = Searcher(
            database,
            models,
            PROGRAM_VERSION,
            nearest,
            memory,
            look_up=self._look_up,
            only_once=only_once,
        )
        self.jobs = JobQueue(database)
        self.trees = IndexedTrees(
            database,
            self._runs.bring_up_to_date,
            lambda root: repository_at(settings, root).selection,
            choice_of(settings),
        )
        self.freshness = Freshness(
            self._searcher,
            self.trees,
            lambda profile: models.is_outdated(profile, PROGRAM_VERSION),
            self.jobs.request,
            settings.check_ms / 1000,
            only_once,
        )
        workflow = None
        if settings.workflow_url is not None:
            from codebase_mcp.access.workflow import WorkflowClient  # noqa: PLC0415 - brings HTTP

            workflow = WorkflowClient(settings.workflow_url)
        self.resolver = Resolver(database, workflow, chosen=settings.project)
        self._first_runs = FirstRuns(self._index_first, self.jobs)
        self.scopes = Scopes(settings, self.resolver, self.trees, self._first_runs)
        self._searches = Searches(self._searcher, self.freshness, self, only_once=only_once)

    # Parts that a search does not need are loaded on first use: a command pays for every module.

    @cached_property
    def views(self) -> Views:
        """Branches, tags and commits that are searched."""
        from codebase_mcp.app.views import Views  # noqa: PLC0415

        return Views(
            self.database,
            lambda: self._runs.commits,
            self.trees.selection_of,
            only_once=self._only_once,
        )

    @cached_property
    def changes(self) -> Changes:
        from codebase_mcp.app.changes import Changes  # noqa: PLC0415

        return Changes(self.database, self.scopes)

    @cached_property
    def data(self) -> ProjectData:
        """Exports, backups, migrations and purges."""
        from codebase_mcp.app.data import ProjectData  # noqa: PLC0415

        return ProjectData(
            self.database,
            self.resolver,
            self.models,
            self._runs.indexer,
            self.jobs,
            self.memory_indexes,
            self.text_images,
            self.freshness,
        )

    @cached_property
    def history(self) -> History:
        from codebase_mcp.app.history import History  # noqa: PLC0415

        return History(self.settings, self.database, self.models, self.resolver, self.scopes)

    @cached_property
    def symbols(self) -> Symbols:
        from codebase_mcp.app.symbols import Symbols  # noqa: PLC0415

        return Symbols(
            self.database, self.resolver, self.scopes, self.views, self.freshness,
            lambda: self.exact,
        )  # fmt: skip

    @cached_property
    def text_images(self) -> TextImages:
        from codebase_mcp.search.text_image import TextImages  # noqa: PLC0415

        return TextImages(Path(self.settings.data_dir) / "texts")

    @cached_property
    def exact(self) -> ExactSearch:
        from codebase_mcp.app.exact import ExactSearch  # noqa: PLC0415

        return ExactSearch(
            self.database, self.resolver, self.scopes, self.freshness, self.trees, self.views,
            self.text_images,
        )  # fmt: skip

    @cached_property
    def context(self) -> ContextSearch:
        from codebase_mcp.app.context import ContextSearch  # noqa: PLC0415

        return ContextSearch(self, self._searcher)

    async def _look_up(self, *question: Any) -> ExactMatches:
        from codebase_mcp.app.literal import look_up  # noqa: PLC0415

        return await look_up(self.exact, *question, only_once=self._only_once)

    @classmethod
    async def open(
        cls,
        settings: Settings | None = None,
        database: Database | None = None,
        *,
        only_once: bool = False,
    ) -> App:
        """Load the model, or name the service; services are connected when first needed.

        ``database`` may be given if it is open already. With ``only_once`` nothing is prepared for
        a second search.

        Raises:
            InvalidInput: a setting is invalid.
            EmbeddingUnavailable: the embedding model cannot be read.
        """
        if "multiprocessing.process" in sys.modules:  # else this is not a worker process
            from codebase_mcp.index.pool import require_main_guard  # noqa: PLC0415

            require_main_guard()
        settings = settings or Settings.load()
        apply_to_process(settings)
        models = await asyncio.to_thread(
            Models.open, chosen_model(settings), service_access(settings)
        )
        database = database or await Database.open(database_target(settings))
        return cls(settings, database, models, only_once=only_once)

    async def __aenter__(self) -> App:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release everything; the embedded database runs on while other processes use it."""
        # In reverse order; an error or a cancellation does not skip the rest.
        async with AsyncExitStack() as stack:
            closing = [self.database.close, self.models.close, self._runs.close]
            closing += [self.memory_indexes.close, self._nearest.close, self._searcher.close]
            closing += [
                self._searches.close,
                *(getattr(self, part).close for part in ("views", "exact") if part in vars(self)),
            ]
            for close in [*closing, self.freshness.close, self.resolver.close]:
                stack.push_async_callback(close)
            stack.push_async_callback(self._first_runs.close, hand_over=self._only_once)

    async def index(
        self,
        repo_path: str | Path,
        project_id: str | None = None,
        *,
        name: str | None = None,
        force_reindex: bool = False,
        history_depth: int | None = None,
        ignore_patterns: Sequence[str] | None = None,
        branches: Sequence[str] | None = None,
        operation_id: UUID | None = None,
        progress: Callable[[RunProgress], None] = lambda _: None,
        identity: Identity = ANONYMOUS,
    ) -> IndexReport:
        """Bring the index of a directory up to date, and the anchors in its code.

        ``history_depth`` commits of its history are kept from now on; without it, as many as the
        settings say, or else as before. ``ignore_patterns``, as in a .gitignore, leave out more
        files from now on. ``branches`` are indexed too; with them the directory must be in git.
        ``operation_id`` is the id of the run.

        Raises:
            InvalidInput: the path is no directory, the project id or the context file is invalid,
                or there is no such branch. Nothing was stored.
            Conflict: the project would share its schema with another.
            PermissionDenied: the caller may not name the path, or no schema can be created.
            DatabaseUnavailable, EmbeddingUnavailable: before anything was stored.
        """
        root, repository = await self._repository_settings(repo_path, identity)
        if branches is not None:
            from codebase_mcp.app.views import resolve_branches  # noqa: PLC0415 - brings git along

            await asyncio.to_thread(resolve_branches, root, branches)
        project, source = await self.resolver.resolve(
            project_id, identity, repository=root, create=True
        )
        request = RunRequest(
            project,
            root,
            repository.selection,
            name=name,
            force=force_reindex,
            ignore_patterns=ignore_patterns,
            operation_id=operation_id or uuid4(),
            progress=progress,
        )
        run, runs, commits = await self._runs.run(
            request, repository, branches=branches or (), history_depth=history_depth
        )
        self.trees.forget(project)
        return IndexReport(run, project, source, repository, commits, runs)

    async def _index_first(
        self, project: Project, root: Path, progress: Callable[[RunProgress], None]
    ) -> None:
        """Index a repository because a question was asked in it."""
        root, repository = await self._repository_settings(root, ANONYMOUS)
        request = RunRequest(project, root, repository.selection, progress=progress)
        await self._runs.run(request, repository)
        self.trees.forget(project)

    async def update(
        self,
        repo_path: str | Path,
        paths: Iterable[str],
        project_id: str | None = None,
        *,
        identity: Identity = ANONYMOUS,
    ) -> IndexReport:
        """Update the index at some paths: files or directories, existing or deleted.

        They are relative to the repository's root. The whole tree is indexed if they affect other
        files, as ignore files do, or if the last run was interrupted.

        Raises:
            InvalidInput, ProjectNotFound, DatabaseUnavailable, EmbeddingUnavailable: as ``index``.
        """
        root, repository = await self._repository_settings(repo_path, identity)
        project, source = await self.resolver.resolve(project_id, identity, repository=root)
        request = RunRequest(project, root, repository.selection)
        run, _, commits = await self._runs.run(request, repository, paths=paths)
        return IndexReport(run, project, source, repository, commits)

    async def _repository_settings(
        self, repo_path: str | Path, identity: Identity
    ) -> tuple[Path, RepositorySettings]:
        root = await asyncio.to_thread(resolve_for, identity, self.settings, repo_path)
        return root, await asyncio.to_thread(repository_at, self.settings, root)

    async def search(
        self,
        query: str,
        project_id: str | None = None,
        request: Request | None = None,
        *,
        repository: NamedRepository = None,
        ref: str | None = None,
        identity: Identity = ANONYMOUS,
        with_notes: bool = False,
        with_help: bool = False,
        with_history: bool = False,
        may_index: bool = True,
        report: ReportProgress | None = None,
    ) -> SearchReport:
        """Search code: the best hits, with optional notes, help and history.

        ``repository`` is the id of a repository, or ``all`` of the project; without it the caller's
        ``identity`` decides, see `app/scopes.py`. A repository without an index is indexed first,
        for up to ten seconds, if the search ``may_index``; ``report`` gets the progress.

        ``ref`` names branches, tags and commits to search instead of the files on disk, separated
        by spaces; ``worktree`` among them means the files. With ``with_help`` a weak answer says
        why it is weak, and suggests better questions.

        Raises:
            ProjectNotFound: the project does not exist, or nothing is indexed in it.
            DatabaseUnavailable, EmbeddingUnavailable: the index cannot be searched.
        """
        request = request or Request()
        named = repository or request.filters.repository_id
        if isinstance(named, UUID):  # so help can say what it excludes
            request = replace(request, filters=replace(request.filters, repository_id=named))
        with self._searches.timed() as watch:
            with step("repository"):
                scope = await self.scopes.resolve(
                    project_id, identity, named, may_index=may_index, report=report
                )
            async with self.resolver.raise_not_found_if_dropped(scope.project, scope.source):
                result = await self._searches.report(
                    scope,
                    query,
                    request,
                    ref=ref,
                    watch=watch,
                    with_notes=with_notes,
                    with_help=with_help,
                    with_history=with_history,
                )
        self._searches.warn_if_slow(watch)
        return result

    async def rank(self, query: str, project_id: str | None, filters: FileFilters) -> Ranking:
        """All candidate files with their signals, best first: for measuring, not for showing."""
        project, _ = await self.resolver.resolve(project_id, ANONYMOUS)
        return await self._searcher.rank(project, query, filters)

    @asynccontextmanager
    async def enter(
        self,
        project_id: str | None = None,
        identity: Identity = ANONYMOUS,
        *,
        readonly: bool = False,
    ) -> AsyncIterator[InProject]:
        """A transaction in the project that a call means, for records beside the code.

        Raises:
            ProjectNotFound: no such project.
            DatabaseUnavailable: the database is unavailable.
        """
        project, source = await self.resolver.resolve(project_id, identity)
        async with (
            self.resolver.raise_not_found_if_dropped(project, source),
            (self.database.bounded_read if readonly else self.database.transaction)(project) as tx,
        ):
            yield InProject(tx, project, source, identity.owner)

    async def projects(self, chosen: Sequence[Project] | None = None) -> list[ProjectFacts]:
        """Some projects, or all of them, with their repositories."""
        listed = await list_projects(self.database) if chosen is None else chosen
        found = await read_every(self.database, listed, INVENTORY)
        return [
            ProjectFacts(project, inventory_of(found[project.schema_name]))
            for project in listed
            if project.schema_name in found  # else it was dropped meanwhile
        ]

    async def list_projects(self, paging: Paging, identity: Identity = ANONYMOUS) -> Page[Project]:
        """A page of the projects that a caller sees, newest first."""
        from codebase_mcp.records.page import Cursor  # noqa: PLC0415 - for this alone

        projects, total = await page_of_projects(
            self.database, paging.parameters(), identity.access.sees
        )
        return paging.page(projects, total, lambda last: Cursor(last.created_at, page_id(last)))

    async def health(self, project_id: str | None, identity: Identity = ANONYMOUS) -> Health:
        """The state of each part of the product, also if the database is unavailable.

        Raises:
            ProjectNotFound: the named project does not exist.
        """
        from codebase_mcp.access.health import examine  # noqa: PLC0415 - for this alone

        return await examine(
            self.database,
            self.resolver,
            project_id,
            identity,
            models=self.models,
            queue=self.jobs,
        )

    async def remove(
        self, repo_path: str | Path, project_id: str | None = None, identity: Identity = ANONYMOUS
    ) -> UUID:
        """Remove a repository from the index; it need not exist on disk. Returns its id.

        Raises:
            NotFound: no such repository in the project.
            ProjectNotFound: no such project.
        """
        from codebase_mcp.records.following import refresh_anchors  # noqa: PLC0415 - for this alone

        await self.database.make_room()
        project, _ = await self.resolver.resolve(project_id, identity)
        match = await find_repository(self.database, project, repo_path)
        await self.jobs.stop(project.schema_name, match.id)
        if not await self._runs.indexer.remove(project, match.id):
            raise repository_not_found(repo_path, [])
        async with self.database.transaction(project) as tx:
            await refresh_anchors(tx, match.id)
        await self.data.forget_copies(project, str(match.id))
        return match.id

    async def drop_project(self, project_id: str) -> None:
        """Delete a project with everything in it.

        Raises:
            ProjectNotFound: no such project.
        """
        await self.database.make_room()
        await self.data.drop(await find_project(self.database, project_id))
