"""The toolset ``tasks``: what is to be done, and how far it is."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.fields import (
    AnchorReply,
    Anchors,
    Offset,
    PageCursor,
    ProjectId,
    ProjectReply,
    anchor_replies,
    nullable,
    places_of,
    publish_no_defaults,
)
from codebase_mcp.tools.rules import check_project_id, id_of, text_of
from codebase_mcp.tools.toolset import Arguments, Caller, Toolset, ToolSpec, hints

if TYPE_CHECKING:
    from codebase_mcp.app import InProject
    from codebase_mcp.records.tasks import Task, TaskChanges

TaskStatus = Literal["need to be done", "in-progress", "complete"]

MAX_TITLE_CHARS = 200
MAX_BRANCH_CHARS = 200

TaskId = Annotated[UUID, Field(description="The task's id, from list_tasks or create_task.")]
Description = Annotated[
    str | None,
    Field(
        description="What is to be done, and how one sees that it is done.",
        json_schema_extra=nullable(type="string", maxLength=2_000),
    ),
]
Notes = Annotated[
    str | None,
    Field(
        description="Anything else worth knowing: findings, decisions, what was tried.",
        json_schema_extra=nullable(type="string", maxLength=5_000),
    ),
]
PlanningReferences = Annotated[
    list[str] | None,
    Field(
        description="Paths of planning documents, relative to the repository's root.",
        json_schema_extra=nullable(
            type="array", items={"type": "string", "maxLength": 500}, maxItems=10
        ),
    ),
]


class GetTask(Arguments):
    task_id: TaskId
    project_id: ProjectId = None


class ListTasks(Arguments):
    status: Annotated[
        TaskStatus | None,
        Field(
            description="Only tasks that are so far.",
            json_schema_extra=nullable(
                type="string", enum=["need to be done", "in-progress", "complete"]
            ),
        ),
    ] = None
    branch: Annotated[
        str | None,
        Field(
            description="Only tasks with a linked branch whose name begins so: feature/.",
            json_schema_extra=nullable(type="string", maxLength=MAX_BRANCH_CHARS),
        ),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="How many tasks at most.")] = 20
    offset: Offset = 0
    cursor: PageCursor = None
    project_id: ProjectId = None


class CreateTask(Arguments):
    title: Annotated[
        str,
        Field(
            min_length=1, max_length=MAX_TITLE_CHARS, description="What is to be done, in short."
        ),
    ]
    description: Description = None
    notes: Notes = None
    planning_references: PlanningReferences = None
    anchors: Anchors = None
    project_id: ProjectId = None


class UpdateTask(Arguments):
    model_config = ConfigDict(json_schema_extra=publish_no_defaults)

    task_id: TaskId
    title: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_TITLE_CHARS,
            description="The new title.",
        ),
    ] = ""
    description: Description = None
    notes: Notes = None
    status: Annotated[TaskStatus, Field(description="How far it is.")] = "need to be done"
    branch: Annotated[
        str | None,
        Field(
            description="Git branch to link, beside those that are linked; null unlinks all.",
            json_schema_extra=nullable(type="string", minLength=1, maxLength=MAX_BRANCH_CHARS),
        ),
    ] = None
    commit: Annotated[
        str | None,
        Field(
            description="Full hash of a git commit to link (40 hex digits in lower case), beside "
            "those that are linked; null unlinks all.",
            json_schema_extra=nullable(type="string", pattern="^[a-f0-9]{40}$"),
        ),
    ] = None
    planning_references: PlanningReferences = None
    anchors: Anchors = None
    project_id: ProjectId = None


class TaskItem(BaseModel):
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
    anchors: list[AnchorReply]


class TaskEventReply(BaseModel):
    """A change; the first is the task's creation. null is: not linked, or not there yet."""

    model_config = ConfigDict(serialize_by_alias=True)

    at: datetime
    field: Literal["status", "branch", "commit"]
    old: str | None = Field(alias="from")
    new: str | None = Field(alias="to")


class TaskReply(ProjectReply, TaskItem):
    history: list[TaskEventReply] = Field(description="Oldest change first.")


class TasksReply(ProjectReply):
    tasks: list[TaskItem] = Field(default=[], description="Newest first.")
    total_count: int = Field(default=0, description="Matching tasks in all, whatever the limit.")
    next_cursor: str | None = Field(default=None, description="For the next page; null: no more.")


async def create_task(caller: Caller, arguments: CreateTask) -> TaskReply:
    """Write down something that is to be done, so that it outlives this conversation.

    Use it for work that others, or you in a later session, should find again: one task for each
    result that can be finished and checked by itself. Not for the steps of what you are doing right
    now, and not for what was found out or decided: that is `memory`'s, where that tool is there. A
    new task "needs to be done".

    Tie it to code by `anchors`, to plans by `planning_references`. Next: update_task with status
    "in-progress" and the branch when work on it begins. Look with list_tasks first whether the task
    is there already.
    """
    from codebase_mcp.records.tasks import create_task as create  # noqa: PLC0415

    places = places_of(arguments.anchors)
    async with caller.enter(arguments.project_id) as here:
        task = await create(
            here.tx,
            arguments.title,
            description=arguments.description,
            notes=arguments.notes,
            planning_references=arguments.planning_references or (),
            places=places,
            owner=here.owner,
        )
    return _reply(task, here)


async def get_task(caller: Caller, arguments: GetTask) -> TaskReply:
    """Read one task with its notes, linked branches and commits, and its whole history.

    Use it before you work on a task that you know by its id. To look for tasks use list_tasks,
    whose items leave nothing out but the history. An anchor whose state is "needs_review" points
    to code that has changed since: read that code before you rely on what the task says.
    """
    from codebase_mcp.records.tasks import get_task as get  # noqa: PLC0415

    async with caller.enter(arguments.project_id, readonly=True) as here:
        task = await get(here.tx, arguments.task_id)
    return _reply(task, here)


async def list_tasks(caller: Caller, arguments: ListTasks) -> TasksReply:
    """List tasks, newest first: all, those of a status, or those of branches that begin so.

    Use it at the start of a session to see what is open (status "in-progress", then "need to be
    done"), and before create_task to see whether a task is there already. `total_count` says how
    many match in all; for the next page pass `next_cursor` as `cursor`, with the same filters.
    The history of a task is in get_task.
    """
    from codebase_mcp.records.page import Paging  # noqa: PLC0415
    from codebase_mcp.records.tasks import list_tasks as find  # noqa: PLC0415

    paging = Paging.asked(arguments.limit, arguments.offset, arguments.cursor)
    async with caller.enter(arguments.project_id, readonly=True) as here:
        page = await find(here.tx, paging, status=arguments.status, branch=arguments.branch)
    return TasksReply(
        tasks=[TaskItem(**_fields(task)) for task in page.items],
        total_count=page.total,
        next_cursor=page.next_cursor,
        project_id=here.project.project_id,
        project_source=here.source,
    )


async def update_task(caller: Caller, arguments: UpdateTask) -> TaskReply:
    """Change a task: how far it is, its texts, the branch and commits that belong to it.

    Only what you give changes; null clears an optional field. `branch` and `commit` are added to
    those that are linked and become the shown ones; null unlinks all of that kind. Lists replace
    the old ones. Every change of status, branch and commit is kept in `history` with its time.

    Set "in-progress" when you begin and "complete" only when the result has been checked; any
    status may follow any other. Giving what is there already changes nothing. Several callers may
    update one task at once: no change is lost, the last one of a field counts.
    """
    from codebase_mcp.records.tasks import update_task as update  # noqa: PLC0415

    given = arguments.model_fields_set - {"task_id", "project_id"}
    changes: dict[str, Any] = {name: getattr(arguments, name) for name in given}
    if "anchors" in changes:
        changes["anchors"] = places_of(arguments.anchors)
    async with caller.enter(arguments.project_id) as here:
        task = await update(
            here.tx, arguments.task_id, cast("TaskChanges", changes), owner=here.owner
        )
    return _reply(task, here)


def _fields(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "notes": task.notes,
        "status": task.status,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "branch": task.branch,
        "commit": task.commit,
        "planning_references": task.planning_references,
        "branches": task.branches,
        "commits": task.commits,
        "anchors": anchor_replies(task.anchors),
    }


def _reply(task: Task, here: InProject) -> TaskReply:
    history = [
        TaskEventReply.model_validate({"at": e.at, "field": e.field, "from": e.old, "to": e.new})
        for e in task.history or ()
    ]
    return TaskReply(
        **_fields(task),
        history=history,
        project_id=here.project.project_id,
        project_source=here.source,
    )


def check_branch_prefix(branch: str | None) -> str | None:
    """The beginning of a branch's name; none where it says nothing."""
    return text_of("branch", MAX_BRANCH_CHARS, shortest=0)(branch) or None


def check_commit(commit: str | None) -> str | None:
    """The full hash of a commit, or null."""
    if commit is None or re.fullmatch("[a-f0-9]{40}", commit):
        return commit
    raise InvalidInput.of(
        "commit",
        commit[:100].encode(errors="backslashreplace").decode(),
        "Commit must be a full hash, 40 hex digits in lower case",
        rule="^[a-f0-9]{40}$",
        hint="git rev-parse HEAD prints it.",
    )


TASKS = Toolset(
    "tasks",
    (
        ToolSpec(
            name="create_task",
            title="Create a task",
            arguments=CreateTask,
            run=create_task,
            reply=TaskReply,
            annotations=hints(),
            rules={"title": text_of("title", MAX_TITLE_CHARS), "project_id": check_project_id},
        ),
        ToolSpec(
            name="get_task",
            title="Read a task",
            arguments=GetTask,
            run=get_task,
            reply=TaskReply,
            annotations=hints(reads=True, repeats=True),
            rules={"task_id": id_of("task_id", "Task"), "project_id": check_project_id},
        ),
        ToolSpec(
            name="list_tasks",
            title="List tasks",
            arguments=ListTasks,
            run=list_tasks,
            reply=TasksReply,
            annotations=hints(reads=True, repeats=True),
            rules={"branch": check_branch_prefix, "project_id": check_project_id},
        ),
        ToolSpec(
            name="update_task",
            title="Change a task",
            arguments=UpdateTask,
            run=update_task,
            reply=TaskReply,
            annotations=hints(destroys=True, repeats=True),
            rules={
                "task_id": id_of("task_id", "Task"),
                "title": text_of("title", MAX_TITLE_CHARS),
                "branch": text_of("branch", MAX_BRANCH_CHARS),
                "commit": check_commit,
                "project_id": check_project_id,
            },
        ),
    ),
)
