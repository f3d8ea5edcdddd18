"""The toolset ``tasks``: work to do, and its state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.page import Paging
from codebase_mcp.records.vocabulary import TaskStatus
from codebase_mcp.tools import fields
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.reply import ReplyPart
from codebase_mcp.tools.rules import Limits, check_text, record_id, text
from codebase_mcp.tools.text import INDENT, body, joined, moment, page
from codebase_mcp.tools.toolset import READS, Caller, Hints, Toolset

TOOLSET = Toolset(
    "tasks", "Begin with list_tasks; keep status, branch and commit true with update_task."
)

MAX_TITLE_CHARS = 200
MAX_BRANCH_CHARS = 200
TITLE = text(MAX_TITLE_CHARS)


def check_branch_prefix(branch: str, field: str) -> str | None:
    """The beginning of a branch's name; None where it is empty."""
    return check_text(branch, field, 0, MAX_BRANCH_CHARS) or None


def check_commit(commit: str, field: str) -> str:
    """The full hash of a commit."""
    if re.fullmatch("[a-f0-9]{40}", commit):
        return commit
    raise InvalidInput.of(
        field,
        commit[:100].encode(errors="backslashreplace").decode(),
        "Commit must be a full hash, 40 hex digits in lower case",
        rule=fields.COMMIT_PATTERN,
        hint="git rev-parse HEAD prints it.",
    )


TaskId = Annotated[UUID, record_id("Task"), Field(description="Id of the task (UUID).")]
Description = Annotated[
    str | None, Field(description="What to do, and how to see that it is done.", max_length=2_000)
]
Notes = Annotated[
    str | None, Field(description="Findings, decisions, what was tried.", max_length=5_000)
]
PlanningReferences = Annotated[
    list[Annotated[str, Field(max_length=500)]] | None,
    Field(max_length=10, description="Paths of planning documents in the repository."),
]


class GetTask(Arguments):
    task_id: TaskId
    project_id: fields.ProjectId = None


class ListTasks(Arguments):
    status: Annotated[TaskStatus | None, Field(description="Only this status.")] = None
    branch: Annotated[
        str | None,
        Limits(check_branch_prefix, maxLength=MAX_BRANCH_CHARS),
        Field(description="Only with a branch that begins so: feature/."),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="Tasks at most.")] = 20
    offset: fields.Offset = 0
    cursor: fields.PageCursor = None
    project_id: fields.ProjectId = None


class CreateTask(Arguments):
    title: Annotated[str, TITLE, Field(description="In short.")]
    description: Description = None
    notes: Notes = None
    planning_references: PlanningReferences = None
    anchors: fields.Anchors = None
    project_id: fields.ProjectId = None


class UpdateTask(Arguments):
    model_config = ConfigDict(json_schema_extra=fields.publish_no_defaults)

    task_id: TaskId
    title: Annotated[str, TITLE, Field(description="The new title.")] = ""
    description: Description = None
    notes: Notes = None
    status: Annotated[TaskStatus, Field(description="How far it is.")] = "need to be done"
    branch: Annotated[
        str | None, text(MAX_BRANCH_CHARS), Field(description="Git branch to link.")
    ] = None
    commit: Annotated[
        str | None,
        Limits(check_commit, pattern=fields.COMMIT_PATTERN),
        Field(description="Git commit to link: 40 hex digits."),
    ] = None
    planning_references: PlanningReferences = None
    anchors: fields.Anchors = None
    project_id: fields.ProjectId = None


class TaskItem(ReplyPart):
    """A task, as lists show it."""

    id: UUID
    title: str
    description: str | None
    notes: str | None
    status: TaskStatus
    created_at: datetime
    updated_at: datetime
    branch: str | None = Field(description="The latest that was linked.")
    commit: str | None = Field(description="The latest that was linked.")
    planning_references: list[str]
    branches: list[str] = Field(description="All that are linked, the latest last.")
    commits: list[str] = Field(description="All that are linked, the latest last.")
    anchors: list[fields.AnchorReply]

    def line(self) -> str:
        review = any(anchor.state == "needs_review" for anchor in self.anchors)
        branch = f"on {self.branch}" if self.branch else None
        return joined(
            str(self.id), self.status, self.title, branch, "needs_review" if review else None
        )


class TaskEventReply(ReplyPart):
    """A change; the first is the task's creation. null is: not linked, or not there yet."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    at: datetime
    field: Literal["status", "branch", "commit"]
    old: str | None = Field(alias="from")
    new: str | None = Field(alias="to")


class TaskReply(fields.RecordReply, TaskItem):
    history: list[TaskEventReply] = Field(description="Oldest change first.")

    def text_lines(self) -> Iterator[str]:
        yield self.line()
        yield from fields.anchor_lines(self.anchors)
        for label, linked in (("branches", self.branches), ("commits", self.commits)):
            yield from body(label, ", ".join(linked) if linked[1:] or label == "commits" else None)
        yield from body("plans", ", ".join(self.planning_references))
        yield from body("description", self.description)
        yield from body("notes", self.notes)
        yield "history:"
        for event in self.history:
            change = f"{event.old} → {event.new}" if event.old else f"{event.new}"
            yield f"{INDENT}{moment(event.at)} {event.field}: {change}"


class ChangedTaskReply(TaskReply):
    """A new or changed task; its text does not repeat the caller's texts."""

    def text_lines(self) -> Iterator[str]:
        yield self.line()
        yield from fields.anchor_lines(self.anchors)


class TasksReply(fields.ProjectReply):
    tasks: list[TaskItem] = Field(default=[], description="Newest first.")
    total_count: int = Field(default=0, description="Matching tasks in all, whatever the limit.")
    next_cursor: str | None = Field(default=None, description="For the next page; null: no more.")

    def text_lines(self) -> Iterator[str]:
        yield page(len(self.tasks), self.total_count, "tasks", self.next_cursor)
        yield from (task.line() for task in self.tasks)


@TOOLSET.tool("Create a task")
async def create_task(caller: Caller, arguments: CreateTask) -> TaskReply:
    """Write down work that others, or you later, should find again: one task for each result that
    can be checked.

    Not for the steps of what you do right now, nor for findings: those are memory's. See list_tasks
    first whether it is there. Next: update_task when work begins.
    """
    from codebase_mcp.records.tasks import create_task as create  # noqa: PLC0415

    async with caller.enter(arguments.project_id) as project:
        task = await create(
            project.tx,
            arguments.title,
            description=arguments.description,
            notes=arguments.notes,
            planning_references=arguments.planning_references or (),
            anchors=fields.places_of(arguments.anchors),
            owner=project.owner,
        )
    return ChangedTaskReply.of(project, task)


@TOOLSET.tool("Read a task", READS)
async def get_task(caller: Caller, arguments: GetTask) -> TaskReply:
    """Read one task whole: texts, links, anchors, history. An anchor in "needs_review" points to
    code that has changed since.
    """
    from codebase_mcp.records.tasks import get_task as get  # noqa: PLC0415

    async with caller.enter(arguments.project_id, readonly=True) as project:
        task = await get(project.tx, arguments.task_id)
    return TaskReply.of(project, task)


@TOOLSET.tool("List tasks", READS)
async def list_tasks(caller: Caller, arguments: ListTasks) -> TasksReply:
    """List tasks, newest first.

    Use it at the start of a session to see what is open, and before create_task. get_task shows one
    whole.
    """
    from codebase_mcp.records.tasks import list_tasks as find  # noqa: PLC0415

    paging = Paging.asked(arguments.limit, arguments.offset, arguments.cursor)
    async with caller.enter(arguments.project_id, readonly=True) as project:
        page = await find(project.tx, paging, status=arguments.status, branch=arguments.branch)
    return TasksReply.of(project, page, tasks=page.items, total_count=page.total)


@TOOLSET.tool("Change a task", Hints(destroys=True, repeats=True))
async def update_task(caller: Caller, arguments: UpdateTask) -> TaskReply:
    """Change a task: only what you give; null clears or unlinks.

    Set "in-progress" when you begin, "complete" when the result has been checked. Branches and
    commits are added to those linked; lists replace the old ones.
    """
    from codebase_mcp.records.tasks import update_task as update  # noqa: PLC0415

    changes = fields.changes_in(arguments, "task_id")
    async with caller.enter(arguments.project_id) as project:
        task = await update(project.tx, arguments.task_id, changes, owner=project.owner)
    return ChangedTaskReply.of(project, task)
