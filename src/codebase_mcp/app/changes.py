"""Compares states of an indexed repository, and examines what a change touches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codebase_mcp.app.scopes import CallScope, NamedRepository, Scopes
from codebase_mcp.changes.compare import Comparison, compare
from codebase_mcp.changes.impact import Change, Impact, assess
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.index.inventory import RepositoryName, load_repositories
from codebase_mcp.projects.identity import ANONYMOUS, Identity
from codebase_mcp.source.git_directory import GitRepository, git_repository_at


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of a project, as the index and as git know it; ``scope`` is this one alone."""

    scope: CallScope
    id: UUID
    git: GitRepository


class Changes:
    """Comparisons in the projects of one database."""

    def __init__(self, database: Database, scopes: Scopes) -> None:
        self._database = database
        self._scopes = scopes

    async def repository(
        self,
        project_id: str | None = None,
        repository: NamedRepository = None,
        identity: Identity = ANONYMOUS,
    ) -> Repository:
        """The repository that a call means: the one that is named, the one that its caller stands
        in, or the only one.

        Raises:
            InvalidInput: there are several, or it is no git repository.
            NotFound: there is no such repository.
            ProjectNotFound: no such project.
        """
        scope = await self._scopes.resolve(project_id, identity, repository)
        async with self._database.bounded_read(scope.project) as tx:
            known = await load_repositories(tx)
        around = [one for one in known if Path(one.root) in scope.roots]
        meant = around if repository is None and len(around) == 1 else known
        if scope.only is not None:
            meant = [one for one in known if one.id in scope.only]
        one = _only(meant, repository)
        found = await asyncio.to_thread(git_repository_at, Path(one.root))
        if found is None:
            raise InvalidInput.of(
                "repository_id",
                str(one.id),
                f"{one.name} is not a git repository",
                rule="a git repository",
                hint="Only git knows other states than the files on disk.",
            )
        return Repository(scope.narrowed_to(one.id), one.id, found)

    async def compare(self, repository: Repository, a: str, b: str, *, direct: bool) -> Comparison:
        """What ``b`` would bring to ``a``.

        Raises:
            InvalidInput: one of them is no commit.
            IndexingFailed: git cannot compare them.
        """
        return await asyncio.to_thread(compare, repository.git, a, b, direct=direct)

    async def impact(
        self, repository: Repository, find: Callable[[GitRepository], Change]
    ) -> Impact:
        """Whom a change touches.

        Raises:
            InvalidInput: it names no commit.
            IndexingFailed: git cannot find it.
        """
        change = await asyncio.to_thread(find, repository.git)
        async with self._database.bounded_read(repository.scope.project) as tx:
            return await assess(tx, repository.id, change)


def _only(known: list[RepositoryName], named: NamedRepository) -> RepositoryName:
    """The only one of the repositories that a call may mean."""
    if not known:
        raise NotFound(
            f"Repository not found: {named}" if named else "Nothing is indexed here",
            hint="Call index_repository first, or leave repository_id out.",
        )
    if len(known) > 1:
        error = InvalidInput.of(
            "repository_id",
            None,
            f"The project holds {len(known)} repositories: name one of them",
            rule="id of a repository",
            hint="Pass the repository_id of one that details.repositories lists.",
        )
        error.details["repositories"] = [
            {"repository_id": str(one.id), "name": one.name, "root": one.root} for one in known
        ]
        raise error
    return known[0]
