"""Compares states of an indexed repository, and assesses the impact of a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.app.scopes import CallScope, NamedRepository, Scopes
from codebase_mcp.changes.compare import Comparison, compare
from codebase_mcp.changes.impact import Change, Impact, assess
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.index.inventory import RepositoryName, load_repositories
from codebase_mcp.source.git_directory import GitRepository, git_repository_at


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of a project, as the index and as git know it; ``scope`` is narrowed to it."""

    scope: CallScope
    id: UUID
    git: GitRepository


@dataclass(frozen=True, slots=True)
class Changes:
    """Comparisons in the projects of a database."""

    _database: Database
    _scopes: Scopes

    async def repository(
        self,
        project_id: str | None = None,
        repository: NamedRepository = None,
        identity: Identity = ANONYMOUS,
    ) -> Repository:
        """The repository that a call means: the named repository, else the caller's, else the only
        repository of the project.

        Raises:
            InvalidInput: there are several, or it is no git repository.
            NotFound: there is no such repository.
            ProjectNotFound: no such project.
        """
        scope = await self._scopes.resolve(project_id, identity, repository)
        async with self._database.bounded_read(scope.project) as tx:
            candidates = await load_repositories(tx)
        if scope.only is not None:
            candidates = [name for name in candidates if name.id in scope.only]
        elif repository is None:
            around = [name for name in candidates if Path(name.root) in scope.roots]
            candidates = around if len(around) == 1 else candidates
        chosen = _only(candidates, repository)
        git = await asyncio.to_thread(git_repository_at, Path(chosen.root))
        if git is None:
            raise InvalidInput.of(
                "repository_id",
                str(chosen.id),
                f"{chosen.name} is not a git repository",
                rule="a git repository",
                hint="Only git knows other states than the files on disk.",
            )
        return Repository(scope.narrowed_to(chosen.id), chosen.id, git)

    async def compare(self, repository: Repository, a: str, b: str, *, direct: bool) -> Comparison:
        """The differences that merging ``b`` into ``a`` would bring.

        Raises:
            InvalidInput: ``a`` or ``b`` is no commit.
            IndexingFailed: git cannot compare them.
        """
        return await asyncio.to_thread(compare, repository.git, a, b, direct=direct)

    async def impact(
        self, repository: Repository, find: Callable[[GitRepository], Change]
    ) -> Impact:
        """The impact of a change.

        Raises:
            InvalidInput: it names no commit.
            IndexingFailed: git cannot find it.
        """
        change = await asyncio.to_thread(find, repository.git)
        async with self._database.bounded_read(repository.scope.project) as tx:
            return await assess(tx, repository.id, change)


def _only(candidates: list[RepositoryName], named: NamedRepository) -> RepositoryName:
    """The only repository that a call may mean."""
    if not candidates:
        raise NotFound(
            f"Repository not found: {named}" if named else "Nothing is indexed here",
            hint="Call index_repository first, or leave repository_id out.",
        )
    if len(candidates) > 1:
        raise InvalidInput.of(
            "repository_id",
            None,
            f"The project holds {len(candidates)} repositories: name one of them",
            rule="id of a repository",
            hint="Pass the repository_id of one that details.repositories lists.",
            repositories=[
                {"repository_id": str(name.id), "name": name.name, "root": name.root}
                for name in candidates
            ],
        )
    return candidates[0]
