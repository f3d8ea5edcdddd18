"""The toolset ``projects``: the projects, which of them is active, and the health of the server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

from pydantic import AliasPath, Field

from codebase_mcp.database.naming import DEFAULT_ID, Project, id_for
from codebase_mcp.records.page import Page, Paging
from codebase_mcp.tools import fields
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.reply import ReplyPart
from codebase_mcp.tools.rules import PROJECT_ID, text
from codebase_mcp.tools.text import INDENT, joined, moment, page
from codebase_mcp.tools.toolset import READS, REPEATS, Caller, Operation, Toolset

if TYPE_CHECKING:
    from codebase_mcp.access.resolution import Current
    from codebase_mcp.app.app import ProjectFacts
    from codebase_mcp.index.inventory import RepositoryFacts

TOOLSET = Toolset(
    "projects",
    "project_id names a workspace: lower case letters, digits, - and _. Omit it to stay in yours "
    "(get_active_project).",
)

MAX_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 2_000


class ProjectEntry(ReplyPart):
    """A project workspace; everything it holds is in a schema of its own."""

    project_id: str | None = Field(description="null is the default workspace.")
    name: str
    description: str | None
    schema_name: str
    created_at: datetime

    def line(self) -> str:
        identity = self.project_id or DEFAULT_ID
        name = self.name if self.name != identity else None
        return joined(identity, name, self.description)


class PageOfProjects(Arguments):
    project_id: fields.ProjectId = None
    limit: Annotated[int, Field(ge=1, le=100, description="Projects at most.")] = 20
    offset: fields.Offset = 0
    cursor: fields.PageCursor = None


class ProjectQuestion(PageOfProjects):
    operation: Annotated[
        Literal["list", "get_stats", "get_health"], Field(description="What to ask for.")
    ]


OPERATIONS = {
    "list": Operation(optional=("limit", "offset", "cursor")),
    "get_stats": Operation(),
    "get_health": Operation(),
}


class RepositoryEntry(ReplyPart):
    """A repository: ``bytes`` of source, ``languages`` with their files, whose ``model``."""

    id: UUID
    name: str
    root: str
    files: int
    chunks: int
    bytes: int = Field(validation_alias="size")
    languages: dict[str, int]
    model: str = Field(validation_alias=AliasPath("profile", "model"))
    indexed_at: datetime | None
    state: Literal["ready", "incomplete"]

    def line(self) -> str:
        most = sorted(self.languages, key=lambda name: -self.languages[name])[:3]
        at = f"indexed {moment(self.indexed_at)}" if self.indexed_at else None
        return joined(
            str(self.id), self.root, f"{self.files} files", ", ".join(most), at, self.state
        )


class ProjectWithRepositories(ProjectEntry):
    repositories: list[RepositoryEntry]


class RecordCountsEntry(ReplyPart):
    """How many records there are; tasks and work items by status, the others by type."""

    tasks: dict[str, int]
    observations: dict[str, int]
    sessions: int
    agents: int
    entities: dict[str, int]
    work_items: dict[str, int]


class DatabaseEntry(ReplyPart):
    """PostgreSQL; null where it does not answer."""

    version: str | None
    embedded: bool | None
    latency_ms: float | None


class EmbedderEntry(ReplyPart):
    """The strongest model; null is what a service that is away does not tell."""

    name: str
    provider: str
    fingerprint: str | None
    dimension: int | None


class IndexEntry(ReplyPart):
    repositories: int
    files_pending: int
    files_failed: int
    models: dict[str, int]
    last_indexed_at: datetime | None


class JobsEntry(ReplyPart):
    """Background jobs: ``workers`` of all processes, the others of this project.

    ``failed`` counts the repositories whose newest job failed.
    """

    workers: int
    waiting: int
    running: int
    failed: int


class ProjectQuestionReply(fields.ProjectReply):
    projects: list[ProjectWithRepositories] = Field(
        default=[], description="list: newest first, with what is indexed."
    )
    total: int = Field(default=0, description="list: how many there are in all.")
    next_cursor: str | None = Field(default=None, description="list: null on the last page.")
    repositories: int = Field(default=0, description="get_stats: how many.")
    files: int = Field(default=0, description="get_stats: files in the index.")
    chunks: int = Field(default=0, description="get_stats: chunks in the index.")
    bytes: int = Field(default=0, description="get_stats: bytes of source.")
    languages: dict[str, int] = Field(default={}, description="get_stats: files of each.")
    last_indexed_at: datetime | None = None
    records: RecordCountsEntry | None = Field(default=None, description="get_stats.")
    status: Literal["healthy", "degraded", "unhealthy"] = Field(
        default="healthy", description="get_health: unhealthy means that calls fail."
    )
    database: DatabaseEntry | None = Field(default=None, description="get_health.")
    embedder: EmbedderEntry | None = Field(default=None, description="get_health.")
    workers: int = Field(default=0, description="get_health: processes that prepare an index.")
    index: IndexEntry | None = Field(default=None, description="get_health: of this project.")
    jobs: JobsEntry | None = Field(default=None, description="get_health: background indexing.")
    second_tier: fields.SecondTierEntry | None = Field(
        default=None, description="get_health: how far the stronger model's vectors are."
    )
    problems: list[str] = Field(default=[], description="get_health: in words, with the way out.")
    notices: list[str] = Field(
        default=[], description="get_health: worth knowing, such as another model than configured."
    )

    def text_lines(self) -> Iterator[str]:
        """A list as lines; sums and health field by field."""
        if "projects" not in self.model_fields_set:
            yield from super().text_lines()
            return
        yield page(len(self.projects), self.total, "projects", self.next_cursor)
        for project in self.projects:
            yield project.line()
            yield from (INDENT + repository.line() for repository in project.repositories)


@TOOLSET.tool("Look at projects", READS, operations=OPERATIONS)
async def project(caller: Caller, arguments: ProjectQuestion) -> ProjectQuestionReply:
    """See what projects hold and whether everything works.

    - list: projects with repositories, sizes, languages (list_projects is shorter).
    - get_stats: sums of one project, and how many records it has.
    - get_health: database, model, index, jobs. Use it when calls fail or results are missing:
      `problems` says why and the way out.
    """
    run = {"list": _list, "get_stats": _get_stats, "get_health": _get_health}
    return await run[arguments.operation](caller, arguments)


async def _list(caller: Caller, arguments: ProjectQuestion) -> ProjectQuestionReply:
    page, now = await page_of_projects(caller, arguments)
    facts = await caller.app.projects(page.items)
    return ProjectQuestionReply(
        projects=[*map(_with_repositories, facts)],
        total=page.total,
        next_cursor=page.next_cursor,
        project_id=now.project_id,
        project_source=now.source,
    )


async def _get_stats(caller: Caller, arguments: ProjectQuestion) -> ProjectQuestionReply:
    from codebase_mcp.access.health import load_stats  # noqa: PLC0415 - not for the handshake

    async with caller.enter(arguments.project_id, readonly=True) as opened:
        sums, records = await load_stats(opened.tx)
    counts = RecordCountsEntry(**records)
    return ProjectQuestionReply.of(opened, sums, bytes=sums.size, records=counts)


async def _get_health(caller: Caller, arguments: ProjectQuestion) -> ProjectQuestionReply:
    app = caller.app
    health = await app.health(arguments.project_id, caller.identity)
    index = health.index
    reply = ProjectQuestionReply(
        status=health.status,
        database=DatabaseEntry.model_validate(health.database),
        embedder=EmbedderEntry.model_validate(health.embedder),
        workers=app.settings.workers,
        index=None if index is None else IndexEntry.model_validate(index),
        problems=health.problems,
        notices=health.notices,
    )
    if health.secondary_model is not None:
        reply.second_tier = fields.SecondTierEntry.model_validate(health.secondary_model)
    if health.jobs is not None:
        reply.jobs = JobsEntry.model_validate(health.jobs)
    if health.source is not None:
        reply.project_id, reply.project_source = health.project_id, health.source
    return reply


async def page_of_projects(
    caller: Caller, arguments: PageOfProjects
) -> tuple[Page[Project], Current]:
    """The projects of a page, and the project that calls without a project mean now."""
    from codebase_mcp.access.resolution import Current  # noqa: PLC0415 - not for the handshake

    resolver = caller.app.resolver
    if arguments.project_id is not None:
        only, source = await resolver.resolve(arguments.project_id, caller.identity)
        await resolver.recheck(only, source)
        return Page([only], 1, None), Current(only.project_id, source)
    page = await caller.app.list_projects(
        Paging.asked(arguments.limit, arguments.offset, arguments.cursor), caller.identity
    )
    return page, await resolver.current(caller.identity)


def entry_of(project: Project) -> ProjectEntry:
    return ProjectEntry.made_from(project, name=project.name or project.project_id or DEFAULT_ID)


def _with_repositories(facts: ProjectFacts) -> ProjectWithRepositories:
    return ProjectWithRepositories(
        **entry_of(facts.project).model_dump(),
        repositories=[_repository(repository) for repository in facts.repositories],
    )


def _repository(facts: RepositoryFacts) -> RepositoryEntry:
    is_whole = facts.indexed_at is not None and not facts.files_pending
    return RepositoryEntry.made_from(facts, state="ready" if is_whole else "incomplete")


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


class OneProjectReply(fields.ProjectReply):
    name: str = ""
    description: str | None = None
    schema_name: str = ""
    created_at: datetime | None = None


class CreateProjectReply(OneProjectReply):
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


class SwitchProjectReply(OneProjectReply):
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
    project_id: fields.ProjectId = None


class ActiveProjectReply(fields.ProjectReply):
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


class ListProjectsReply(fields.ProjectReply):
    projects: list[ProjectEntry] = Field(default=[], description="Newest first.")
    total: int = Field(default=0, description="How many there are in all.")
    next_cursor: str | None = Field(default=None, description="null on the last page.")

    def text_lines(self) -> Iterator[str]:
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
