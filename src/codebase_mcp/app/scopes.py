"""Which repositories does a call mean, and are they indexed?

In the default workspace a call without a repository means the repository around the caller's
directory; in a named project it means all repositories, that repository first. A caller over HTTP
has no directory. A repository that is not indexed yet is indexed first: the
call waits some seconds for the run, which then goes on in the background. A process that ends
before its run leaves the rest to a job.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar
from uuid import UUID

from codebase_mcp.access.identity import Identity
from codebase_mcp.access.repositories import reason_not_to_index, repository_around
from codebase_mcp.access.resolution import ProjectSource, Resolver
from codebase_mcp.app.freshness.trees import IndexedTrees, Tree
from codebase_mcp.database.naming import Project
from codebase_mcp.database.standby import may_use_standby
from codebase_mcp.errors import IndexingFailed, ProjectNotFound, SnapshotDropped, StandbyLost
from codebase_mcp.index.progress import RunProgress, estimate_seconds_left
from codebase_mcp.index.queue import JobQueue
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import allowed_roots
from codebase_mcp.telemetry.stopwatch import no_stopwatch, step

# How long a search waits: answers come within ten seconds, and the rest of a first search takes
# two. Clients cancel calls after 30 seconds or more.
WAIT_S = 8.0

# How often the progress is reported.
REPORT_S = 0.5

# A rebuild or a rebase may drop the snapshots that a call reads, but not so often.
_MAX_CALLS = 10

Call = ParamSpec("Call")
Report = TypeVar("Report")
ReportProgress = Callable[[RunProgress], Awaitable[None]]


@dataclass(slots=True)
class FirstRun:
    """A run that is active or has ended; ``done_before`` files were done before it."""

    project: Project
    root: Path
    task: asyncio.Future[object] = field(init=False)
    progress: RunProgress = field(default_factory=lambda: RunProgress(0, 0, "Listing files"))
    done_before: int = 0
    listed_at: float = 0.0
    progressed_at: float = 0.0

    def follow(self, progress: RunProgress) -> None:
        self.progressed_at = time.monotonic()
        if self.progress.phase == "listing":
            self.listed_at, self.done_before = self.progressed_at, progress.done
        self.progress = progress

    @property
    def seconds_left(self) -> int | None:
        """An estimate by the speed so far; None while the files are being listed."""
        now = self.progress
        if now.phase == "listing":
            return None
        indexed, seconds = now.done - self.done_before, self.progressed_at - self.listed_at
        return estimate_seconds_left(now.total - now.done, indexed, seconds)


@dataclass(frozen=True, slots=True)
class FirstRuns:
    """The first runs of repositories in this process."""

    _index: Callable[[Project, Path, Callable[[RunProgress], None]], Awaitable[object]]
    _jobs: JobQueue
    _runs: dict[tuple[str, Path], FirstRun] = field(default_factory=dict)

    async def wait_for(
        self, project: Project, roots: Sequence[Path], report: ReportProgress | None
    ) -> tuple[FirstRun, ...]:
        """Index repositories for up to ``WAIT_S`` seconds; returns the runs that are not done.

        Raises:
            CodebaseError: a run failed before anything was stored.
        """
        runs = [self._start(project, root) for root in roots]
        deadline = time.monotonic() + WAIT_S
        going = {run.task for run in runs}
        with step("first_run"):
            while going and (left := deadline - time.monotonic()) > 0:
                _, going = await asyncio.wait(going, timeout=min(REPORT_S, left))
                if report is not None and going:
                    await report(next(run.progress for run in runs if run.task in going))
        for run in runs:
            if run.task.done():
                self._runs.pop((project.schema_name, run.root), None)
                run.task.result()
        return tuple(run for run in runs if not run.task.done())

    async def close(self, *, hand_over: bool) -> None:
        """Stop all runs; stored batches are kept. With ``hand_over`` jobs continue the runs."""
        going = [run for run in self._runs.values() if not run.task.done()]
        for run in going:
            run.task.cancel()
        await asyncio.gather(*(run.task for run in going), return_exceptions=True)
        if hand_over:
            for run in going:
                await self._jobs.request(run.project, run.root, wait=True)

    def _start(self, project: Project, root: Path) -> FirstRun:
        key = project.schema_name, root
        run = self._runs.get(key)
        if run is None or run.task.done():
            run = self._runs[key] = FirstRun(project, root)
            with no_stopwatch():
                run.task = asyncio.ensure_future(self._index(project, root, run.follow))
        return run


NamedRepository = UUID | Literal["all"] | None
"""The repository that a call names: an id, all repositories, or None."""

# A first question may add a repository to the default workspace, and to the project that its
# configuration names, but not to a project that a caller names: that may belong to other code.
_OWN: frozenset[ProjectSource] = frozenset({"default", "config"})


@dataclass(frozen=True, slots=True)
class CallScope:
    """The project and the repositories that a call means, and the caller's directories.

    ``source`` says how the project was chosen. ``roots`` are the repositories around the caller's
    ``directories``, even if the call means different ones.

    ``kind`` is ``workspace`` if the call means all repositories of the project. ``trees`` are the
    repositories that are indexed at least in part; ``has_others`` means that the project has more.
    ``first_runs`` are not done yet.
    """

    project: Project
    source: ProjectSource
    directories: tuple[Path, ...]
    kind: Literal["repository", "workspace"]
    trees: tuple[Tree, ...] = ()
    roots: tuple[Path, ...] = ()
    has_others: bool = False
    first_runs: tuple[FirstRun, ...] = ()

    @property
    def repository_ids(self) -> tuple[UUID, ...]:
        """The ids of the repositories."""
        return tuple(tree.repository_id for tree in self.trees)

    @property
    def only(self) -> frozenset[UUID] | None:
        """The ids of the repositories; None if the call means the whole project."""
        return frozenset(self.repository_ids) if self.has_others else None

    @property
    def snapshot_ids(self) -> tuple[int, ...] | None:
        """The snapshots of their files on disk; None if the call means the whole project."""
        return tuple(tree.snapshot_id for tree in self.trees) if self.has_others else None

    def require_listed(self) -> None:
        """Make sure that some files are known.

        Raises:
            IndexingFailed: a first run has not listed them yet.
        """
        if self.first_runs and not self.trees:
            raise IndexingFailed(
                "The files of the repository are still being listed",
                hint="Ask again in some seconds.",
            )

    def narrowed_to(self, repository_id: UUID) -> CallScope:
        """The same scope, limited to a single repository."""
        chosen = [tree for tree in self.trees if tree.repository_id == repository_id]
        scope = _narrowed(self, chosen, self.trees)
        return replace(scope, has_others=scope.has_others or self.has_others)

    @property
    def first(self) -> frozenset[int]:
        """The snapshots of the caller's repositories, which go first where scores are close."""
        return frozenset(tree.snapshot_id for tree in self.trees if tree.root in self.roots)


@dataclass(frozen=True, slots=True)
class Scopes:
    """Decides what calls mean; nothing else does."""

    _settings: Settings
    _resolver: Resolver
    _trees: IndexedTrees
    _first_runs: FirstRuns

    async def resolve(
        self,
        project_id: str | None,
        identity: Identity,
        named: NamedRepository = None,
        *,
        may_index: bool = True,
        report: ReportProgress | None = None,
    ) -> CallScope:
        """Resolve a call; repositories that are not indexed yet are indexed for some seconds.

        Raises:
            ProjectNotFound: no such project, or the caller's repository is not indexed and must
                not be indexed by a question.
            InvalidInput, PermissionDenied: as `Resolver.resolve`.
        """
        try:
            project, source = await self._resolver.resolve(project_id, identity)
        except ProjectNotFound:
            if not may_index or not await self._may_create(project_id, identity):
                raise
            project, source = await self._resolver.resolve(project_id, identity, create=True)
        workspace = CallScope(project, source, identity.directories, "workspace")
        async with self._resolver.raise_not_found_if_dropped(project, source):
            trees = await self._trees.recent(project)
            if isinstance(named, UUID):
                chosen = [tree for tree in trees if tree.repository_id == named]
                return _narrowed(workspace, chosen, trees)
            scope = replace(workspace, trees=tuple(trees), roots=await self._roots(identity, trees))
            if named == "all" or not scope.roots:
                return scope
            return await self._around_caller(scope, identity, may_index, report)

    async def _around_caller(
        self, scope: CallScope, identity: Identity, may_index: bool, report: ReportProgress | None
    ) -> CallScope:
        """Resolve a call without a repository; missing repositories are indexed first."""
        project, roots = scope.project, scope.roots
        is_own = scope.source in _OWN or project.project_id is None
        missing = _not_indexed(roots, scope.trees) if is_own else []
        reasons = {root: await self._reason_not_to_index(root, identity) for root in missing}
        if may_index and (indexable := [root for root in missing if not reasons[root]]):
            unfinished = await self._first_runs.wait_for(project, indexable, report)
            trees = await self._trees.recent(project, reload=True)
            scope = replace(scope, trees=tuple(trees), first_runs=unfinished)
        if project.project_id is not None:
            if not scope.trees and not scope.first_runs:
                raise _never_indexed(project, roots[0])
            return scope
        chosen = [tree for tree in scope.trees if tree.root in roots]
        if not chosen and not scope.first_runs:
            chosen = _below(scope.trees, scope.directories)
        if not chosen and not scope.first_runs and may_index:
            raise _not_indexed_by_question(missing[0], reasons[missing[0]])
        return _narrowed(scope, chosen, scope.trees)

    async def _may_create(self, project_id: str | None, identity: Identity) -> bool:
        """Whether a question creates the missing project by indexing a repository."""
        choice = await self._resolver.choose(project_id, identity)
        if choice.source != "config":
            return False
        roots = await self._roots(identity, [])
        reasons = [await self._reason_not_to_index(root, identity) for root in roots]
        return None in reasons

    async def _roots(self, identity: Identity, trees: Sequence[Tree]) -> tuple[Path, ...]:
        """The roots of the repositories around a caller's directories, indexed or not."""
        if not identity.directories:
            return ()
        indexed = frozenset(tree.root for tree in trees)
        return await asyncio.to_thread(
            lambda: tuple(
                dict.fromkeys(repository_around(path, indexed) for path in identity.directories)
            )
        )

    async def _reason_not_to_index(self, root: Path, identity: Identity) -> str | None:
        """The reason why a question does not index this repository; None if it does."""
        if self._settings.auto_index == "never":
            return "that is turned off (--auto-index never)"
        if "index" not in identity.access.scopes:
            return "this server only reads"
        return await asyncio.to_thread(reason_not_to_index, root, allowed_roots(self._settings))


def again_if_lost(call: Callable[Call, Awaitable[Report]]) -> Callable[Call, Awaitable[Report]]:
    """Let a function use a standby, and call it again if what it reads is lost meanwhile.

    That is a snapshot, or the standby; then the primary is used.

    Raises:
        SnapshotDropped: snapshots were dropped several times.
    """

    @wraps(call)
    async def until_read(*arguments: Call.args, **named: Call.kwargs) -> Report:
        is_allowed = True
        for _ in range(_MAX_CALLS):
            try:
                with may_use_standby(is_allowed), suppress(SnapshotDropped):
                    return await call(*arguments, **named)
            except StandbyLost:
                is_allowed = False
        raise SnapshotDropped

    return until_read


def _not_indexed(roots: Sequence[Path], trees: Sequence[Tree]) -> list[Path]:
    """The roots without a complete index, unless their run was cancelled."""
    indexed = {tree.root for tree in trees if tree.is_complete or tree.was_cancelled}
    return [root for root in roots if root not in indexed]


def _below(trees: Sequence[Tree], directories: Sequence[Path]) -> list[Tree]:
    """The repositories below some directories."""
    return [tree for tree in trees if any(tree.root.is_relative_to(path) for path in directories)]


def _narrowed(scope: CallScope, chosen: Sequence[Tree], trees: Sequence[Tree]) -> CallScope:
    """The scope, limited to some repositories of its project."""
    has_others = len(chosen) < len(trees)
    return replace(scope, kind="repository", trees=tuple(chosen), has_others=has_others)


def _never_indexed(project: Project, root: Path) -> ProjectNotFound:
    return ProjectNotFound(
        "Project has not been indexed or does not exist",
        hint=f'Call index_repository(repo_path="{root}", project_id="{project.project_id}") first,'
        " or with the path of another repository.",
    )


def _not_indexed_by_question(root: Path, reason: str | None) -> ProjectNotFound:
    because = f", and a question does not index it: {reason}" if reason else ""
    return ProjectNotFound(
        f"{root} is not indexed{because}",
        hint=f'Call index_repository(repo_path="{root}").',
        details={"path": str(root)},
    )
