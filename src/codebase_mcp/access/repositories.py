"""The repository around a directory: which one it is, where it is indexed, whether it may be."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from codebase_mcp.access.context_file import FILE_NAME
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.database.projects import list_projects, read_each
from codebase_mcp.errors import InternalError, NotFound
from codebase_mcp.index.inventory import (
    ROOTS,
    RepositoryFacts,
    load_inventory,
    roots_of,
)
from codebase_mcp.source.git_directory import git_repository_at, work_tree_of

# A folder without git and without any of these files is indexed by itself only up to this size: it
# may be a folder of downloads, or a folder above many projects.
MOST_FILES = 5_000
PROJECT_FILES = frozenset({
    FILE_NAME, ".mcpignore", "build.gradle", "build.gradle.kts", "build.sbt", "Cargo.toml",
    "CMakeLists.txt", "composer.json", "Gemfile", "go.mod", "Makefile", "meson.build", "mix.exs",
    "package.json", "Package.swift", "pom.xml", "pubspec.yaml", "pyproject.toml", "setup.cfg",
    "setup.py",
})  # fmt: skip


def repository_around(directory: Path, indexed: Collection[Path]) -> Path:
    """The root of the repository that a directory is in, indexed or not.

    That is the top of its git work tree, else the nearest folder above that is indexed, else the
    directory itself. Where the work tree is not indexed, but a folder of it that holds the
    directory is, somebody has chosen that folder.
    """
    directory = directory.resolve()
    top = work_tree_of(directory)
    if top is not None and top in indexed:
        return top
    above = next((folder for folder in (directory, *directory.parents) if folder in indexed), None)
    if above is not None and (top is None or above.is_relative_to(top)):
        return above
    return top or directory


def reason_not_to_index(root: Path, allowed_roots: Iterable[Path]) -> str | None:
    """Why a repository is not indexed by itself, as the end of a sentence; None if it may be.

    Without ``allowed_roots`` every place is allowed.
    """
    allowed = tuple(allowed_roots)
    if allowed and not any(root.is_relative_to(allowed_root) for allowed_root in allowed):
        return "it is outside of the allowed directories (--root)"
    if root == Path(root.anchor):
        return "it is the root of the file system"
    if root == Path.home().resolve():
        return "it is a home directory"
    if git_repository_at(root) is not None or any((root / name).exists() for name in PROJECT_FILES):
        return None
    if _has_more_files(root, MOST_FILES):
        return f"it has more than {MOST_FILES:,} files, and neither git nor a project file"
    return None


def _has_more_files(root: Path, most: int) -> bool:
    count = 0
    for _, _, files in os.walk(root):
        count += len(files)
        if count > most:
            return True
    return False


@dataclass(frozen=True, slots=True)
class IndexedIn:
    """A project, the root of its repository, and when that was indexed."""

    project: Project
    root: Path
    indexed_at: datetime


async def projects_at(database: Database, directory: Path) -> list[IndexedIn]:
    """The projects with the innermost repository around a directory, last indexed first."""
    directory, roots = directory.resolve(), await indexed_repositories(database)
    around = [entry for entry in roots if directory.is_relative_to(entry.root)]
    depth = max((len(entry.root.parts) for entry in around), default=0)
    innermost = [entry for entry in around if len(entry.root.parts) == depth]
    return sorted(innermost, key=lambda entry: entry.indexed_at, reverse=True)


async def indexed_repositories(database: Database) -> list[IndexedIn]:
    """Where the repositories of all projects are, also of those that have yet to be migrated.

    A command may ask for it among a thousand projects, so no role of a project is looked up.
    """
    projects = await list_projects(database)
    at_once = await read_each(database, projects, [ROOTS])
    found = list[IndexedIn]()
    for project in projects:
        if project.schema_name not in at_once:
            with suppress(InternalError):  # dropped meanwhile
                async with database.unmigrated(project.schema_name, readonly=True) as tx:
                    at_once[project.schema_name] = await tx.fetch_many([ROOTS])
        for rows in at_once.get(project.schema_name, ()):
            found += [IndexedIn(project, *place) for place in roots_of(rows)]
    return found


async def find_repository(
    database: Database, project: Project, repo_path: str | Path
) -> RepositoryFacts:
    """An indexed repository by its directory, which need not exist any more, or its id.

    Raises:
        NotFound: the project has no such repository.
    """
    roots = {str(Path(repo_path).expanduser().absolute()), str(Path(repo_path).resolve())}
    async with database.transaction(project, readonly=True) as tx:
        indexed = await load_inventory(tx)
    match = next((r for r in indexed if r.root in roots or str(r.id) == str(repo_path)), None)
    if match is None:
        raise repository_not_found(repo_path, indexed)
    return match


def repository_not_found(repo_path: str | Path, indexed: Sequence[RepositoryFacts]) -> NotFound:
    """The error that names the indexed repositories."""
    return NotFound(
        f"Repository not found: {repo_path}",
        hint="Indexed repositories: " + (", ".join(r.root for r in indexed) or "none"),
    )
