"""Tasks with status, branches and commits.

A task's history begins with its creation and holds each change of its status, branch and commit.
Whatever an update changes, it changes while it holds the task's row, so that histories of updates
at the same time follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, LiteralString, TypedDict
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.errors import NotFound
from codebase_mcp.records.anchors import Anchor, CodeReference, anchors_of, set_anchors
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.vocabulary import TaskStatus

_SQL = load_queries("codebase_mcp.records", "tasks.sql")


def _showing(found: LiteralString) -> LiteralString:
    """A statement that shows the tasks which another one finds."""
    return "WITH found AS (\n" + found + "\n)\n" + _SQL["shown"]


_ONE = _showing(_SQL["one_task"])
_NEWEST = _showing(_SQL["newest_tasks"])
_NEWEST_OF_BRANCH = _showing(_SQL["newest_tasks_of_branch"])


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A change of a task's status, branch or commit; the first one is its creation."""

    at: datetime
    field: Literal["status", "branch", "commit"]
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Task:
    """A task. Branches and commits are in the order in which they were linked.

    ``history`` is None in lists.
    """

    id: UUID
    title: str
    description: str | None
    notes: str | None
    status: TaskStatus
    created_at: datetime
    updated_at: datetime
    planning_references: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    history: tuple[TaskEvent, ...] | None = None
    anchors: tuple[Anchor, ...] = ()

    @classmethod
    def from_row(cls, row: Row) -> Task:
        """From the columns that are shown, the last of which says whether it has anchors."""
        *fields, references, branches, commits, _ = row
        task = cls(*fields)
        return replace(
            task,
            planning_references=tuple(references),
            branches=tuple(branches),
            commits=tuple(commits),
        )

    @property
    def branch(self) -> str | None:
        """The last one that was linked."""
        return self.branches[-1] if self.branches else None

    @property
    def commit(self) -> str | None:
        """The last one that was linked."""
        return self.commits[-1] if self.commits else None


class TaskChanges(TypedDict, total=False):
    """The fields of an update; None clears an optional field, and unlinks all of a kind."""

    title: str
    description: str | None
    notes: str | None
    status: TaskStatus
    branch: str | None
    commit: str | None
    planning_references: Sequence[str] | None
    anchors: Sequence[CodeReference] | None


async def create_task(
    tx: Transaction,
    title: str,
    *,
    description: str | None = None,
    notes: str | None = None,
    planning_references: Sequence[str] = (),
    places: Sequence[CodeReference] = (),
    owner: str | None = None,
) -> Task:
    """Store a new task; it belongs to the session that its owner has open, if any.

    Raises:
        InvalidInput: one of the places cannot be an anchor.
    """
    identity = uuid4()
    status: TaskStatus = "need to be done"
    row = await tx.fetch_one(
        _SQL["create_task"],
        id=identity,
        title=title,
        description=description,
        notes=notes,
        status=status,
        planning_references=list(planning_references),
        owner=owner,
    )
    assert row is not None
    [now] = row
    task = Task(
        identity,
        title,
        description,
        notes,
        status,
        created_at=now,
        updated_at=now,
        planning_references=tuple(planning_references),
        history=(TaskEvent(now, "status", None, status),),
    )
    if places:
        await set_anchors(tx, "task", identity, places)
        anchors = await anchors_of(tx, [identity])
        task = replace(task, anchors=anchors[identity])
    return task


async def get_task(tx: Transaction, task_id: UUID) -> Task:
    """A task with its history.

    Raises:
        NotFound: there is no task with this id.
    """
    params = {"id": task_id}
    found, history = await tx.fetch_many([(_ONE, params), (_SQL["history"], params)])
    return await _whole(tx, _only(found, task_id), history)


async def list_tasks(
    tx: Transaction,
    paging: Paging,
    *,
    status: TaskStatus | None = None,
    branch: str | None = None,
) -> Page[Task]:
    """A page of the tasks of a status, and of branches whose names begin so; newest first."""
    params = {**paging.parameters(), "status": status, "branch": branch}
    _, rows, [[total]] = await tx.fetch_many(
        [
            (_SQL["plan_for_values"], {}),
            (_NEWEST if branch is None else _NEWEST_OF_BRANCH, params),
            (_SQL["count_tasks" if branch is None else "count_tasks_of_branch"], params),
        ]
    )
    anchors = await anchors_of(tx, [row[0] for row in rows if row[-1]])
    tasks = [replace(Task.from_row(row), anchors=anchors[row[0]]) for row in rows]
    return paging.page(tasks, total, lambda task: Cursor(task.created_at, task.id))


async def update_task(
    tx: Transaction, task_id: UUID, changes: TaskChanges, *, owner: str | None = None
) -> Task:
    """Change what is given of a task; it was touched in the session that its owner has open.

    Raises:
        NotFound: there is no task with this id.
        InvalidInput: one of the places cannot be an anchor.
    """
    params = {
        "id": task_id,
        "given": list(changes),
        "title": changes.get("title"),
        "description": changes.get("description"),
        "notes": changes.get("notes"),
        "status": changes.get("status"),
        "branch": changes.get("branch"),
        "commit": changes.get("commit"),
        "planning_references": list(changes.get("planning_references") or ()),
        "owner": owner,
    }
    _, _, found, history = await tx.fetch_many(
        [
            (_SQL["lock_task"], params),
            (_SQL["update_task"], params),
            (_ONE, params),
            (_SQL["history"], params),
        ]
    )
    row = _only(found, task_id)
    if "anchors" in changes:
        places = changes["anchors"] or ()
        await set_anchors(tx, "task", task_id, places)
        row = (*row[:-1], bool(places))
    return await _whole(tx, row, history)


def _only(found: Sequence[Row], task_id: UUID) -> Row:
    if not found:
        raise NotFound(
            "Task not found",
            hint="Take task_id from list_tasks; a task is known in its own project only.",
            details={"task_id": str(task_id)},
        )
    return found[0]


async def _whole(tx: Transaction, row: Row, history: Sequence[Row]) -> Task:
    """A task with its history, and with its anchors where it has any."""
    task = replace(Task.from_row(row), history=tuple(TaskEvent(*event) for event in history))
    if not row[-1]:
        return task
    anchors = await anchors_of(tx, [task.id])
    return replace(task, anchors=anchors[task.id])
