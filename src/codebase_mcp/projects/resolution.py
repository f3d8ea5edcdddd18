"""Which project does this call mean?

In this order: the project that it names; the one that the program was started for; the nearest
``.mcp-context.toml`` upward from the repository; the caller's active project; workflow-mcp's; the
default workspace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import schema_of
from codebase_mcp.database.projects import (
    OnCreated,
    Project,
    canonical,
    create_project,
    ensure_project,
    find_project,
)
from codebase_mcp.errors import (
    CodebaseError,
    InternalError,
    InvalidInput,
    NotFound,
    PermissionDenied,
    ProjectNotFound,
)
from codebase_mcp.projects.active import ActiveProjects
from codebase_mcp.projects.context_file import FILE_NAME, ContextFile, ContextFiles, shown
from codebase_mcp.projects.identity import Identity
from codebase_mcp.projects.trust import Trust, enter_trust
from codebase_mcp.telemetry.calls import looked_up

if TYPE_CHECKING:
    from codebase_mcp.projects.workflow import WorkflowClient

ProjectSource = Literal["explicit", "config", "active", "workflow", "default"]


@dataclass(frozen=True, slots=True)
class Meant:
    """The project that a call means, and why; whether it exists is another question.

    ``context`` is the file that names it, where that is the reason.
    """

    project_id: str | None
    source: ProjectSource
    context: ContextFile | None = None


@dataclass(frozen=True, slots=True)
class Current:
    """What calls without a project mean now; ``problem`` says why they fail."""

    project_id: str | None
    source: ProjectSource
    problem: str | None = None


class Resolver:
    """Finds the project of a call. What was found once costs no round trip again.

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
        self._known: dict[str | None, Project] = {}

    async def close(self) -> None:
        """End what is under way."""
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
        """The project that a call means, and how that was found out.

        ``repository`` is the directory that is being indexed; otherwise the caller's own counts.

        Raises:
            InvalidInput: the id is none, or a context file is broken.
            ProjectNotFound: there is no such project, and ``create`` does not say to make it.
            PermissionDenied: a context file names a project that is not its own.
        """
        meant = await self.meant(project_id, identity, repository)
        # Before a run that may take long, a round trip makes sure that the project is still there.
        project = await self._open(meant, create=create, again=create)
        if meant.source == "explicit" and create:
            await self._confirm(project, identity, repository)
        return project, meant.source

    async def current(self, identity: Identity, project_id: str | None = None) -> Current:
        """What calls with this project or without one mean now, and what is wrong with that.

        Raises:
            DatabaseUnavailable: the database is away.
        """
        try:
            meant = await self.meant(project_id, identity)
        except InvalidInput as error:
            return Current(None, "config", in_words(error))
        try:
            if meant.source != "default":
                await self._open(meant, again=True)
        except (ProjectNotFound, PermissionDenied) as error:
            return Current(meant.project_id, meant.source, in_words(error))
        return Current(meant.project_id, meant.source)

    async def active(self, identity: Identity) -> Project | None:
        """The project that a caller switched to, if it still exists."""
        active = await self._active.of(identity)
        if active is None:
            return None
        try:
            return await find_project(self._database, active.project_id)
        except ProjectNotFound:
            return None

    async def switch(self, project_id: str, identity: Identity) -> Project:
        """Let a caller work in a project from now on.

        Raises:
            ProjectNotFound: there is no such project.
            PermissionDenied: the next call of this caller could not be told from another's.
        """
        self._active.require_owner(identity)
        project = await find_project(self._database, project_id)
        await self._active.switch(identity, project.project_id)
        self._known[project.project_id] = project
        await self._confirm(project, identity)
        return project

    async def create(
        self, project_id: str, identity: Identity, *, name: str, description: str | None
    ) -> Project:
        """Make a project.

        Raises:
            InvalidInput: the id is none.
            Conflict: the id is taken.
            PermissionDenied: the database role may not create a schema.
        """
        project = await create_project(self._database, project_id, name, description)
        await self._confirm(project, identity)
        return project

    async def confirm(self, directory: Path) -> tuple[ContextFile, Project | None]:
        """Let the nearest context file of a directory name its project, if that exists already.

        Raises:
            InvalidInput: the file is broken.
            NotFound: there is none.
        """
        context = await asyncio.to_thread(self._files.nearest, directory)
        if context is None:
            raise NotFound(
                f"No {FILE_NAME} names a project, neither in {shown(directory)} nor above it",
                hint=f'Write project = "my-app" into {shown(directory / FILE_NAME)}.',
                details={"directory": shown(directory)},
            )
        try:
            project = await find_project(self._database, context.project_id)
        except ProjectNotFound:
            return context, None
        await self._trust.grant(context.directory, project)
        return context, project

    async def look_again(self, project: Project, source: ProjectSource) -> None:
        """Make sure that a project which was found earlier is still there.

        Raises:
            ProjectNotFound: it was dropped.
        """
        self.forget(project)
        await self._open(Meant(project.project_id, source), again=True)

    @asynccontextmanager
    async def still_there(self, project: Project, source: ProjectSource) -> AsyncIterator[None]:
        """If another process dropped the project meanwhile, what fails for it is: not found."""
        try:
            yield
        except InternalError:
            await self.look_again(project, source)
            raise

    def forget(self, project: Project) -> None:
        """A project was dropped; look again before it is used."""
        self._known.pop(project.project_id, None)
        self._database.forget(project.schema_name)

    async def meant(
        self, project_id: str | None, identity: Identity, repository: Path | None = None
    ) -> Meant:
        """What a call means, whether there is such a project or not.

        Raises:
            InvalidInput: the id is none, or a context file is broken.
        """
        if project_id is not None:
            return Meant(canonical(project_id), "explicit")
        if self._chosen is not None:
            return Meant(canonical(self._chosen), "config")
        context = await self._context(identity, repository)
        if context is not None:
            return Meant(context.project_id, "config", context)
        active = await self._active.of(identity)
        if active is not None:
            return Meant(active.project_id, "active")
        if self.workflow is not None:
            answer = await self.workflow.active_project()
            if answer.project_id is not None:
                return Meant(canonical(answer.project_id), "workflow")
        return Meant(None, "default")

    async def _context(
        self, identity: Identity, repository: Path | None = None
    ) -> ContextFile | None:
        if identity.directory is None:
            return None
        return await asyncio.to_thread(self._files.nearest, repository or identity.directory)

    async def _confirm(
        self, project: Project, identity: Identity, repository: Path | None = None
    ) -> None:
        """Whoever names the project that the file names as well has confirmed the file."""
        try:
            context = await self._context(identity, repository)
        except InvalidInput:
            return  # a broken file is no reason to refuse a call that does not need it
        if context is not None and context.project_id == project.project_id:
            await self._trust.grant(context.directory, project)

    async def _open(self, meant: Meant, *, create: bool = False, again: bool = False) -> Project:
        """The project that is meant; ``again`` looks whether it still exists."""
        project_id = meant.project_id
        # An active project that is gone is not made anew: its caller is to know.
        create = create and meant.source != "active"
        known = None if create or again else self._known.get(project_id)
        if not create and not again:
            looked_up("project", hit=known is not None)
        if known is not None:
            project = known
        elif create or project_id is None:
            project = await ensure_project(
                self._database, project_id, on_created=_trusting(meant.context)
            )
        else:
            try:
                project = await find_project(self._database, project_id)
            except ProjectNotFound as error:
                self._known.pop(project_id, None)
                raise _missing(meant, error) from None
        self._known[project_id] = project
        context = meant.context
        if context is not None and not await self._trust.holds(context.directory, project):
            raise _not_its_own(context)
        return project


def in_words(error: CodebaseError) -> str:
    """An error and the way out, as one text."""
    return f"{error.message}. {error.hint}" if error.hint else error.message


def _trusting(context: ContextFile | None) -> OnCreated | None:
    """Lets the file through which a project is made name it from then on."""
    if context is None:
        return None

    async def trust(tx: Transaction) -> None:
        await enter_trust(tx, context.directory, schema_of(context.project_id))

    return trust


def _missing(meant: Meant, error: ProjectNotFound) -> ProjectNotFound:
    """What to say and to do where a call did not name the missing project itself."""
    name, first = (
        meant.project_id,
        "Make it first: index_repository with this project_id, or create_project.",
    )
    match meant.source:
        case "active":
            return ProjectNotFound(
                f"The active project {name} does not exist any more",
                hint="Call switch_project with one of list_projects, or pass project_id.",
                details=error.details,
            )
        case "config" if meant.context is not None:
            hint = f"{shown(meant.context.path)} names it. {first}"
        case "config":
            hint = f"The server was started for it (CODEBASE_MCP_PROJECT). {first}"
        case "workflow":
            hint = f"workflow-mcp says that {name} is active. {first}"
        case _:
            return error
    return ProjectNotFound(error.message, hint=hint, details=error.details)


def _not_its_own(context: ContextFile) -> PermissionDenied:
    named = "the default workspace"
    if context.project_id is not None:
        named = f"the project {context.project_id}"
    return PermissionDenied(
        f"{shown(context.path)} names {named}, which it did not create",
        hint=f"If that is meant, run `codebase-mcp trust {context.directory}`, or name it once:"
        f' index_repository or switch_project with project_id="{context.project_id or "default"}".',
        details={"file": shown(context.path), "project_id": context.project_id},
    )
