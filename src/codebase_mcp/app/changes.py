"""Compares states of an indexed repository, and examines what a change touches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codebase_mcp.changes.compare import Comparison, compare
from codebase_mcp.changes.impact import Change, Impact, assess
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.index.inventory import RepositoryName, load_repositories
from codebase_mcp.projects.identity import ANONYMOUS, Identity
from codebase_mcp.projects.resolution import Resolver
from codebase_mcp.source.git_directory import GitRepository, git_repository_at


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of a project, as the index and as git know it."""

    project: Project
    source: str
    id: UUID
    git: GitRepository


class Changes:
    """Comparisons in the projects of one database."""

    def __init__(self, database: Database, resolver: Resolver) -> None:
        self._database = database
        self._resolver = resolver

    async def repository(
        self,
        project_id: str | None = None,
        repository_id: UUID | None = None,
        identity: Identity = ANONYMOUS,
        directory: Path | None = None,
    ) -> Repository:
        """The repository that a call means: the one that is named, the one around a directory, or
        the only one.

        Raises:
            InvalidInput: there are several, or it is no git repository.
            NotFound: there is no such repository.
            ProjectNotFound: no such project.
        """
        project, source = await self._resolver.resolve(project_id, identity)
        async with (
            self._resolver.raise_not_found_if_dropped(project, source),
            self._database.bounded_read(project) as tx,
        ):
            known = await load_repositories(tx)
        around = _around(known, directory) if directory and not repository_id else None
        one = around or _chosen(known, repository_id)
        found = await asyncio.to_thread(git_repository_at, Path(one.root))
        if found is None:
            raise InvalidInput.of(
                "repository_id",
                str(one.id),
                f"{one.name} is not a git repository",
                rule="a git repository",
                hint="Only git knows other states than the files on disk.",
            )
        return Repository(project, source, one.id, found)

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
        async with self._database.bounded_read(repository.project) as tx:
            return await assess(tx, repository.id, change)


def _around(known: list[RepositoryName], directory: Path) -> RepositoryName | None:
    """The innermost repository around a directory."""
    holding = [one for one in known if directory.is_relative_to(one.root)]
    return max(holding, key=lambda one: len(one.root), default=None)


def _chosen(known: list[RepositoryName], repository_id: UUID | None) -> RepositoryName:
    """The repository with an id, or the only one."""
    if repository_id is not None:
        for one in known:
            if one.id == repository_id:
                return one
    if not known or repository_id is not None:
        raise NotFound(
            f"Repository not found: {repository_id}"
            if repository_id
            else "Nothing is indexed here",
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
