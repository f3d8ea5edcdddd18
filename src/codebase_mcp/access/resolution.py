"""Finds the project of a call.

In this order: the project that the call names; the project of the program's settings; that of the
nearest ``.mcp-context.toml`` upward from the repository; the caller's active project; that of
workflow-mcp; the default workspace.

A project that the caller may not see answers as one that does not exist. Its id alone decides that,
before the database is asked, so the time tells nothing either.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codebase_mcp.access.context_file import (
    FILE_NAME,
    ContextFile,
    ContextFiles,
    Trust,
    enter_trust,
    path_text,
)
from codebase_mcp.access.identity import Access, Identity, note_project
from codebase_mcp.access.repositories import repository_around
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import DEFAULT_ID, Project, schema_of
from codebase_mcp.database.projects import (
    OnCreated,
    canonical,
    create_project,
    ensure_project,
    find_project,
    not_found,
)
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import (
    CodebaseError,
    InternalError,
    InvalidInput,
    NotFound,
    PermissionDenied,
    ProjectNotFound,
)
from codebase_mcp.telemetry.metrics import looked_up

if TYPE_CHECKING:
    from codebase_mcp.access.workflow import WorkflowClient

_SQL = load_queries("codebase_mcp.access", "projects.sql")

# The end of a session is unknown. Forgetting an active session would move its calls to a different
# project, so beyond this number new callers must pass a project id instead.
MAX_OWNERS = 100_000

ProjectSource = Literal["explicit", "config", "active", "workflow", "default"]


@dataclass(frozen=True, slots=True)
class ProjectChoice:
    """The project that a call uses, and the reason; it may not exist.

    ``context`` is the file that names it, if that is the reason.
    """

    project_id: str | None
    source: ProjectSource
    context: ContextFile | None = None

    @property
    def is_callers(self) -> bool:
        """Whether the caller named it, so that errors may repeat the name."""
        return self.source in ("explicit", "active") or self.context is not None


@dataclass(frozen=True, slots=True)
class Current:
    """The project of calls that name none; ``problem`` says why such calls fail."""

    project_id: str | None
    source: ProjectSource
    problem: str | None = None


class ActiveProjects:
    """Stores the active project of each caller: in memory, or in the database if it is shared."""

    def __init__(self, database: Database, max_owners: int = MAX_OWNERS) -> None:
        self._database = database
        self._max_owners = max_owners
        self._in_memory: dict[str, ProjectChoice] = {}

    async def of(self, identity: Identity) -> ProjectChoice | None:
        """The project that a caller switched to; of no id, the default workspace."""
        if identity.owner is None:
            return None
        if not identity.is_shared:
            return self._in_memory.get(identity.owner)
        async with self._database.catalogue(readonly=True) as tx:
            row = await tx.fetch_one(_SQL["find_active"], owner=identity.owner)
        return None if row is None else ProjectChoice(row[0], "active")

    def require_owner(self, identity: Identity) -> None:
        """Make sure that an active project can be stored for this caller."""
        is_new = not identity.is_shared and identity.owner not in self._in_memory
        if identity.owner is None or (is_new and len(self._in_memory) >= self._max_owners):
            raise PermissionDenied(
                "No active project can be stored: the server cannot distinguish callers",
                hint="Pass project_id with each call.",
            )

    async def switch(self, identity: Identity, project_id: str | None) -> None:
        """Set the active project of a caller.

        Raises:
            PermissionDenied: the server cannot distinguish callers.
        """
        self.require_owner(identity)
        assert identity.owner is not None
        if not identity.is_shared:
            self._in_memory[identity.owner] = ProjectChoice(project_id, "active")
            return
        async with self._database.catalogue() as tx:
            await tx.execute(_SQL["set_active"], owner=identity.owner, project_id=project_id)


class Resolver:
    """Finds the project of a call, and caches projects to save round trips.

    ``chosen`` is the project of all calls that name none.
    """

    def __init__(
        self,
        database: Database,
        workflow: WorkflowClient | None = None,
        *,
        chosen: str | None = None,
    ) -> None:
        self._database = database
        self._chosen = chosen
        self.workflow = workflow
        self._files = ContextFiles()
        self._trust = Trust(database)
        self._active = ActiveProjects(database)
        self._projects: dict[str | None, Project] = {}

    async def close(self) -> None:
        if self.workflow is not None:
            await self.workflow.close()

    async def resolve(
        self,
        project_id: str | None,
        identity: Identity,
        *,
        repository: Path | None = None,
        create: bool = False,
    ) -> tuple[Project, ProjectSource]:
        """The project of a call, and how it was found.

        ``repository`` is the directory that is being indexed; the default is the caller's own.

        Raises:
            InvalidInput: the id is invalid, or a context file is.
            ProjectNotFound: the caller sees no such project, and ``create`` is not set.
            PermissionDenied: a context file names a project that it may not use, or the caller may
                not create this one.
        """
        choice = await self.choose(project_id, identity, repository)
        note_project(choice.project_id or DEFAULT_ID)
        try:
            require_seen(choice, identity, create=create)
            # Before a run that may take long, check that the project still exists.
            project = await self._open(choice, create=create, recheck=create)
        except ProjectNotFound as error:
            if not error.details:  # of a project that must not be named
                raise
            raise _missing(choice, error, await _repository_of(identity)) from None
        if choice.source == "explicit" and create:
            await self._confirm(project, identity, repository)
        return project, choice.source

    async def current(self, identity: Identity, project_id: str | None = None) -> Current:
        """The project of calls with or without this id, and its problem, if any.

        Raises:
            DatabaseUnavailable: the database is unavailable.
        """
        try:
            choice = await self.choose(project_id, identity)
        except InvalidInput as error:
            return Current(None, "config", in_words(error))
        shown = choice.project_id if choice.is_callers or _sees(identity, choice) else None
        try:
            require_seen(choice, identity)
            if choice.source != "default":
                await self._open(choice, recheck=True)
        except (ProjectNotFound, PermissionDenied) as error:
            return Current(shown, choice.source, in_words(error))
        return Current(shown, choice.source)

    async def active(self, identity: Identity) -> Project | None:
        """The project that a caller switched to, if it still exists."""
        active = await self._active.of(identity)
        if active is None or not identity.access.sees(active.project_id or DEFAULT_ID):
            return None
        try:
            return await find_project(self._database, active.project_id)
        except ProjectNotFound:
            return None

    async def switch(self, project_id: str, identity: Identity) -> Project:
        """Set the active project of a caller.

        Raises:
            ProjectNotFound: the caller sees no such project.
            PermissionDenied: the server cannot distinguish callers.
        """
        note_project(project_id)
        self._active.require_owner(identity)
        require_seen(ProjectChoice(canonical(project_id), "explicit"), identity)
        project = await find_project(self._database, project_id)
        await self._active.switch(identity, project.project_id)
        self._projects[project.project_id] = project
        await self._confirm(project, identity)
        return project

    async def create(
        self, project_id: str, identity: Identity, *, name: str, description: str | None
    ) -> Project:
        """Create a project.

        Raises:
            InvalidInput: the id is invalid.
            Conflict: the id is taken.
            PermissionDenied: the caller may not create it, or the database role no schema.
        """
        choice = ProjectChoice(canonical(project_id), "explicit")
        note_project(project_id)
        require_seen(choice, identity, create=True)
        project = await create_project(self._database, project_id, name, description)
        await self._confirm(project, identity)
        return project

    async def confirm(self, directory: Path) -> tuple[ContextFile, Project | None]:
        """Trust the nearest context file of a directory for its project, if that exists.

        Raises:
            InvalidInput: the file is invalid.
            NotFound: there is no such file.
        """
        context = await asyncio.to_thread(self._files.nearest, directory)
        if context is None:
            raise NotFound(
                f"No {FILE_NAME} in or above {path_text(directory)} names a project",
                hint=f'Write project = "my-app" into {path_text(directory / FILE_NAME)}.',
                details={"directory": path_text(directory)},
            )
        try:
            project = await find_project(self._database, context.project_id)
        except ProjectNotFound:
            return context, None
        await self._trust.grant(context.directory, project)
        return context, project

    async def recheck(self, project: Project, source: ProjectSource) -> None:
        """Check that a project that was found earlier still exists.

        Raises:
            ProjectNotFound: it was dropped.
        """
        self.forget(project)
        await self._open(ProjectChoice(project.project_id, source), recheck=True)

    @asynccontextmanager
    async def raise_not_found_if_dropped(
        self, project: Project, source: ProjectSource
    ) -> AsyncIterator[None]:
        """If the block fails because the project was dropped, raise ProjectNotFound instead."""
        try:
            yield
        except InternalError:
            await self.recheck(project, source)
            raise

    def forget(self, project: Project) -> None:
        """Remove a project from the cache, as it was dropped."""
        self._projects.pop(project.project_id, None)
        self._database.forget(project.schema_name)

    async def choose(
        self, project_id: str | None, identity: Identity, repository: Path | None = None
    ) -> ProjectChoice:
        """The project that a call uses, whether it exists, and may be seen, or not.

        Raises:
            InvalidInput: the id is invalid, or a context file is.
        """
        if project_id is not None:
            return ProjectChoice(canonical(project_id), "explicit")
        if self._chosen is not None:
            return ProjectChoice(canonical(self._chosen), "config")
        context = await self._context(identity, repository)
        if context is not None:
            return ProjectChoice(context.project_id, "config", context)
        active = await self._active.of(identity)
        if active is not None:
            return active
        if self.workflow is not None:
            answer = await self.workflow.active_project()
            if answer.project_id is not None:
                return ProjectChoice(canonical(answer.project_id), "workflow")
        return ProjectChoice(None, "default")

    async def _context(
        self, identity: Identity, repository: Path | None = None
    ) -> ContextFile | None:
        if identity.directory is None:
            return None
        return await asyncio.to_thread(self._files.nearest, repository or identity.directory)

    async def _confirm(
        self, project: Project, identity: Identity, repository: Path | None = None
    ) -> None:
        """A caller that explicitly names the same project as the context file confirms the file."""
        try:
            context = await self._context(identity, repository)
        except InvalidInput:
            return  # an invalid file must not fail a call that does not need it
        if context is not None and context.project_id == project.project_id:
            await self._trust.grant(context.directory, project)

    async def _open(
        self, choice: ProjectChoice, *, create: bool = False, recheck: bool = False
    ) -> Project:
        """The project of a choice; ``recheck`` checks that it still exists."""
        project_id = choice.project_id
        # An active project that was dropped is not created again: the caller gets an error.
        create = create and choice.source != "active"
        cached = None if create or recheck else self._projects.get(project_id)
        if not create and not recheck:
            looked_up("project", hit=cached is not None)
        if cached is not None:
            project = cached
        elif create or project_id is None:
            project = await ensure_project(
                self._database, project_id, on_created=_trusting(choice.context)
            )
        else:
            try:
                project = await find_project(self._database, project_id)
            except ProjectNotFound as error:
                self._projects.pop(project_id, None)
                raise _missing(choice, error) from None
        self._projects[project_id] = project
        context = choice.context
        if context is not None and not await self._trust.is_granted(context.directory, project):
            raise _not_trusted(context)
        return project


def require_seen(choice: ProjectChoice, identity: Identity, *, create: bool = False) -> None:
    """Make sure that a project may exist for the caller; whether it exists does not matter.

    Raises:
        ProjectNotFound: it may not, and is not to be created.
        PermissionDenied: it may not be created.
    """
    if _sees(identity, choice):
        return
    if create and choice.source != "active":
        raise _may_not_create(choice, identity.access)
    if choice.is_callers:
        raise _missing(choice, not_found(choice.project_id))
    error = not_found(None)
    raise ProjectNotFound(error.message, hint="Pass the project_id of a project that you may use.")


def _sees(identity: Identity, choice: ProjectChoice) -> bool:
    return identity.access.sees(choice.project_id or DEFAULT_ID)


def _may_not_create(choice: ProjectChoice, access: Access) -> PermissionDenied:
    named = "the project that calls without project_id mean"
    if choice.is_callers:
        named = f"a project with the id {choice.project_id or DEFAULT_ID}"
    return PermissionDenied(
        f"Your access does not include {named}",
        hint=f"Pass a project_id that matches: {', '.join(access.projects) or 'none'}.",
        details={"project_id": choice.project_id} if choice.is_callers else None,
    )


def in_words(error: CodebaseError) -> str:
    """The message and the hint of an error as text."""
    return f"{error.message}. {error.hint}" if error.hint else error.message


def _trusting(context: ContextFile | None) -> OnCreated | None:
    """Trusts the context file for the project that is created because of it."""
    if context is None:
        return None

    async def trust(tx: Transaction) -> None:
        await enter_trust(tx, context.directory, schema_of(context.project_id))

    return trust


async def _repository_of(identity: Identity) -> Path | None:
    """The repository around a caller's directory, as if nothing were indexed."""
    if identity.directory is None:
        return None
    return await asyncio.to_thread(repository_around, identity.directory, ())


def _missing(
    choice: ProjectChoice, error: ProjectNotFound, path: Path | None = None
) -> ProjectNotFound:
    """The error for a missing project: who named it, and the call that makes it."""
    name, making = choice.project_id, "index_repository with this project_id"
    if path is not None:
        making = f'index_repository(repo_path="{path_text(path)}", project_id="{name}")'
    first = f"Make it first: {making}, or create_project."
    match choice.source:
        case "active":
            return ProjectNotFound(
                f"The active project {name} does not exist any more",
                hint="Call switch_project with one of list_projects, or pass project_id.",
                details=error.details,
            )
        case "config" if choice.context is not None:
            hint = f"{path_text(choice.context.path)} names it. {first}"
        case "config":
            hint = f"The server was started with it (CODEBASE_MCP_PROJECT). {first}"
        case "workflow":
            hint = f"workflow-mcp reports that {name} is active. {first}"
        case _:
            hint = first
    return ProjectNotFound(error.message, hint=hint, details=error.details)


def _not_trusted(context: ContextFile) -> PermissionDenied:
    named = "the default workspace"
    if context.project_id is not None:
        named = f"the project {context.project_id}"
    return PermissionDenied(
        f"{path_text(context.path)} names {named}, which it did not create",
        hint=f"To allow it, run `codebase-mcp trust {context.directory}`, or name it once:"
        f' index_repository or switch_project with project_id="{context.project_id or "default"}".',
        details={"file": path_text(context.path), "project_id": context.project_id},
    )
