"""The toolset ``projects``: the projects, and the active project of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from pydantic import Field

from codebase_mcp.database.naming import DEFAULT_ID, id_for
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.fields import ProjectId, ProjectReply
from codebase_mcp.tools.project_overview import (
    PROJECT,
    PageOfProjects,
    ProjectEntry,
    entry_of,
    page_of_projects,
)
from codebase_mcp.tools.rules import PROJECT_ID, text
from codebase_mcp.tools.text import page
from codebase_mcp.tools.toolset import READS, REPEATS, Caller, Toolset

TOOLSET = Toolset(
    "projects",
    "project_id names a workspace: lower case letters, digits, - and _. Omit it to stay in yours "
    "(get_active_project).",
    PROJECT,
)

MAX_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 2_000


class CreateProject(Arguments):
    name: Annotated[str, text(MAX_NAME_CHARS), Field(description="What people call it.")]
    description: Annotated[
        str | None, Field(max_length=MAX_DESCRIPTION_CHARS, description="What it is about.")
    ] = None
    project_id: Annotated[
        str | None,
        PROJECT_ID,
        Field(description="Made from the name unless given: lower case letters, digits, - and _."),
    ] = None


class CreateProjectReply(ProjectReply):
    name: str = ""
    description: str | None = None
    schema_name: str = ""
    created_at: datetime | None = None

    def text_lines(self) -> Iterator[str]:
        """Its id, which the caller may not have named."""
        yield f"created: {self.project_id}; switch_project works in it"


@TOOLSET.tool("Create a project")
async def create_project(caller: Caller, arguments: CreateProject) -> CreateProjectReply:
    """Make a new, empty workspace, separate from all others.

    Rarely needed: index_repository makes the project that it names. CONFLICT: the id is taken
    (my-app and my_app are the same). It does not become active: call switch_project.
    """
    project = await caller.app.resolver.create(
        arguments.project_id or id_for(arguments.name),
        caller.identity,
        name=arguments.name,
        description=(arguments.description or "").strip() or None,
    )
    return CreateProjectReply(**entry_of(project).model_dump(), project_source="explicit")


class SwitchProject(Arguments):
    project_id: Annotated[
        str, PROJECT_ID, Field(description='The project; "default" is the default workspace.')
    ]


class SwitchProjectReply(ProjectReply):
    name: str = ""
    description: str | None = None
    schema_name: str = ""
    created_at: datetime | None = None
    note: str = Field(
        default="", description="Why calls without project_id still mean another project."
    )

    def as_text(self) -> str:
        """Where the caller now works, or why not."""
        return self.note or f"calls without project_id mean {self.project_id or DEFAULT_ID}"


# It changes only what the caller's own calls mean, so the scope is read.
@TOOLSET.tool("Switch to a project", REPEATS, scope="read")
async def switch_project(caller: Caller, arguments: SwitchProject) -> SwitchProjectReply:
    """Work in this project from now on: calls without project_id mean it.

    It counts for you alone. `note` says when a .mcp-context.toml names another, which comes first.
    PROJECT_NOT_FOUND: see list_projects.
    """
    project = await caller.app.resolver.switch(arguments.project_id, caller.identity)
    now = await caller.app.resolver.current(caller.identity)
    reply = SwitchProjectReply(**entry_of(project).model_dump(), project_source=now.source)
    if now.problem is not None:
        reply.note = f"Calls without project_id fail: {now.problem}"
    elif now.project_id != project.project_id:
        reply.note = (
            f"Calls without project_id still mean {now.project_id or 'the default workspace'}, "
            f"named by the .mcp-context.toml nearest to your files, or by the server's "
            f"CODEBASE_MCP_PROJECT, which comes first. Change that, or pass "
            f"project_id={project.project_id or DEFAULT_ID} with each call."
        )
    return reply


class GetActiveProject(Arguments):
    project_id: ProjectId = None


class ActiveProjectReply(ProjectReply):
    project: ProjectEntry | None = Field(
        default=None, description="The one you switched to; null if none, or if it was dropped."
    )
    note: str = Field(default="", description="Why calls without project_id fail, if they do.")

    def text_lines(self) -> Iterator[str]:
        """The project that the caller switched to; the effective project stands below."""
        chosen = "none" if self.project is None else self.project.line()
        yield f"switched to: {chosen}"
        if self.note:
            yield f"note: {self.note}"


@TOOLSET.tool("See the active project", READS)
async def get_active_project(caller: Caller, arguments: GetActiveProject) -> ActiveProjectReply:
    """Which project calls without project_id mean, and why: config (.mcp-context.toml), active
    (switch_project), workflow, or default.

    `project` is the one you switched to; `note` says why such calls fail, if they do.
    """
    project = await caller.app.resolver.active(caller.identity)
    now = await caller.app.resolver.current(caller.identity, arguments.project_id)
    reply = ActiveProjectReply(
        project=None if project is None else entry_of(project),
        project_id=now.project_id,
        project_source=now.source,
    )
    if now.problem is not None:
        reply.note = now.problem
    return reply


class ListProjectsReply(ProjectReply):
    projects: list[ProjectEntry] = Field(default=[], description="Newest first.")
    total: int = Field(default=0, description="How many there are in all.")
    next_cursor: str | None = Field(default=None, description="null on the last page.")

    def text_lines(self) -> Iterator[str]:
        """A line a project."""
        yield page(len(self.projects), self.total, "projects", self.next_cursor)
        yield from (project.line() for project in self.projects)


@TOOLSET.tool("List projects", READS)
async def list_projects(caller: Caller, arguments: PageOfProjects) -> ListProjectsReply:
    """Which projects there are, newest first. `project` with operation list also says what is
    indexed.
    """
    page, now = await page_of_projects(caller, arguments)
    return ListProjectsReply(
        projects=[entry_of(project) for project in page.items],
        total=page.total,
        next_cursor=page.next_cursor,
        project_id=now.project_id,
        project_source=now.source,
    )
