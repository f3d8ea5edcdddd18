"""Which repositories does a call mean? And is what it means indexed?

In the default workspace, which nobody chose, a call that names no repository means the one that its
caller stands in; in a named project all of its repositories, that one first. A caller over HTTP
stands nowhere. A repository that is not indexed yet is indexed first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from uuid import UUID

from codebase_mcp.app.first_runs import FirstRun, FirstRuns, ReportProgress
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.freshness.trees import IndexedTrees, Tree
from codebase_mcp.projects.identity import Identity
from codebase_mcp.projects.resolution import ProjectSource, Resolver
from codebase_mcp.projects.standing import reason_not_to_index, repository_around
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.reach import allowed_roots

NamedRepository = UUID | Literal["all"] | None
"""The repository that a call names: by its id, all of them, or none."""

# The projects that somebody has assigned to a repository, or nobody to any: those that a first
# question may add to. A project that a caller names may be another repository's.
_OWN: frozenset[ProjectSource] = frozenset({"default", "config"})


@dataclass(frozen=True, slots=True)
class CallScope:
    """The project and the repositories that a call means, and where its caller stands.

    ``source`` says how the project was found. ``directories`` are those of the caller, ``roots``
    the repositories around them, whether the call means these or not.

    ``kind`` is ``workspace`` if it means all of its project, whichever these are. ``trees`` are
    those that are indexed at least in part; ``has_others`` says that the project has more.
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
        """The ids of the repositories; None if those are all of the project."""
        return frozenset(self.repository_ids) if self.has_others else None

    @property
    def snapshot_ids(self) -> tuple[int, ...] | None:
        """The snapshots of their files on disk; None if those are all of the project."""
        return tuple(tree.snapshot_id for tree in self.trees) if self.has_others else None

    def narrowed_to(self, repository_id: UUID) -> CallScope:
        """The same with one of its repositories alone."""
        chosen = [tree for tree in self.trees if tree.repository_id == repository_id]
        scope = _narrowed(self, chosen, self.trees)
        return replace(scope, has_others=scope.has_others or self.has_others)

    @property
    def first(self) -> frozenset[int]:
        """The snapshots that go first where scores are close: those where the caller stands."""
        return frozenset(tree.snapshot_id for tree in self.trees if tree.root in self.roots)


class Scopes:
    """Decides what calls mean; the only place that does."""

    def __init__(
        self, settings: Settings, resolver: Resolver, trees: IndexedTrees, first_runs: FirstRuns
    ) -> None:
        self._settings = settings
        self._resolver = resolver
        self._trees = trees
        self._first_runs = first_runs

    async def resolve(
        self,
        project_id: str | None,
        identity: Identity,
        named: NamedRepository = None,
        *,
        may_index: bool = True,
        report: ReportProgress | None = None,
    ) -> CallScope:
        """What a call means; what is not indexed yet is indexed for some seconds, if it may be.

        Raises:
            ProjectNotFound: no such project, or nothing is indexed where the caller stands and it
                is not indexed by itself.
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
            return await self._where_caller_stands(scope, identity, may_index, report)

    async def _where_caller_stands(
        self, scope: CallScope, identity: Identity, may_index: bool, report: ReportProgress | None
    ) -> CallScope:
        """What a call means that names no repository; these are indexed first."""
        project, roots = scope.project, scope.roots
        is_own = scope.source in _OWN or project.project_id is None
        missing = _not_indexed(roots, scope.trees) if is_own else []
        reasons = {root: await self._reason_not_to_index(root, identity) for root in missing}
        if may_index and (wanted := [root for root in missing if not reasons[root]]):
            going = await self._first_runs.wait_for(project, wanted, report)
            trees = await self._trees.recent(project, reload=True)
            scope = replace(scope, trees=tuple(trees), first_runs=going)
        if project.project_id is not None:
            if not scope.trees and not scope.first_runs:
                raise _never_indexed(project, roots[0])
            return scope
        chosen = [tree for tree in scope.trees if tree.root in roots]
        if not chosen and not scope.first_runs:
            chosen = _below(scope.trees, scope.directories)
        if not chosen and not scope.first_runs and may_index:
            raise _not_by_itself(missing[0], reasons[missing[0]])
        return _narrowed(scope, chosen, scope.trees)

    async def _may_create(self, project_id: str | None, identity: Identity) -> bool:
        """Whether a question creates the project that is missing, as it indexes a repository."""
        choice = await self._resolver.choose(project_id, identity)
        if choice.source != "config":
            return False
        roots = await self._roots(identity, [])
        reasons = [await self._reason_not_to_index(root, identity) for root in roots]
        return None in reasons

    async def _roots(self, identity: Identity, trees: Sequence[Tree]) -> tuple[Path, ...]:
        """The roots of the repositories that a caller stands in, indexed or not."""
        if not identity.directories:
            return ()
        indexed = frozenset(tree.root for tree in trees)
        return await asyncio.to_thread(
            lambda: tuple(
                dict.fromkeys(repository_around(one, indexed) for one in identity.directories)
            )
        )

    async def _reason_not_to_index(self, root: Path, identity: Identity) -> str | None:
        """Why a question does not index this repository; None if it does."""
        if self._settings.auto_index == "never":
            return "that is turned off (--auto-index never)"
        if "index" not in identity.access.scopes:
            return "this server only reads"
        return await asyncio.to_thread(reason_not_to_index, root, allowed_roots(self._settings))


def _not_indexed(roots: Sequence[Path], trees: Sequence[Tree]) -> list[Path]:
    """The roots that were never indexed to the end, and whose run nobody has cancelled."""
    known = {tree.root for tree in trees if tree.is_complete or tree.was_cancelled}
    return [root for root in roots if root not in known]


def _below(trees: Sequence[Tree], directories: Sequence[Path]) -> list[Tree]:
    """The repositories below some directories."""
    return [tree for tree in trees if any(tree.root.is_relative_to(one) for one in directories)]


def _narrowed(scope: CallScope, chosen: Sequence[Tree], trees: Sequence[Tree]) -> CallScope:
    """The scope with some repositories of its project alone."""
    has_others = len(chosen) < len(trees)
    return replace(scope, kind="repository", trees=tuple(chosen), has_others=has_others)


def _never_indexed(project: Project, root: Path) -> ProjectNotFound:
    return ProjectNotFound(
        "Project has not been indexed or does not exist",
        hint=f'Call index_repository(repo_path="{root}", project_id="{project.project_id}") first,'
        " or with the path of another repository.",
    )


def _not_by_itself(root: Path, reason: str | None) -> ProjectNotFound:
    because = f", and a question does not index it: {reason}" if reason else ""
    return ProjectNotFound(
        f"{root} is not indexed{because}",
        hint=f'Call index_repository(repo_path="{root}").',
        details={"path": str(root)},
    )
