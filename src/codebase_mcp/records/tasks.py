"""Tasks with status, branches and commits.

A task's history begins with its creation and holds each change of its status, branch and commit.
Whatever an update changes, it changes while it holds the task's row, so that histories of updates
at the same time follow each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.errors import NotFound
from codebase_mcp.records.anchoring import Anchor, CodeReference
from codebase_mcp.records.anchors import anchors_from, set_anchors
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.vocabulary import TaskStatus

_SQL = load_queries("codebase_mcp.records", "tasks.sql")


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A change of a task's status, branch or commit; the first is its creation."""

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
    anchors: tuple[Anchor, ...] = ()
    history: tuple[TaskEvent, ...] | None = None

    @classmethod
    def from_row(cls, row: Row) -> Task:
        """From a row whose last column are the anchors."""
        *fields, references, branches, commits, anchors = row
        lists = tuple(references), tuple(branches), tuple(commits), anchors_from(anchors)
        return cls(*(*fields, *lists))

    @property
    def branch(self) -> str | None:
        """The last branch that was linked."""
        return self.branches[-1] if self.branches else None

    @property
    def commit(self) -> str | None:
        """The last commit that was linked."""
        return self.commits[-1] if self.commits else None


# What an update may change.
_CHANGEABLE = (
    "title", "description", "notes", "status", "branch", "commit", "planning_references", "anchors",
)  # fmt: skip


async def create_task(
    tx: Transaction,
    title: str,
    *,
    description: str | None = None,
    notes: str | None = None,
    planning_references: Sequence[str] = (),
    anchors: Sequence[CodeReference] = (),
    owner: str | None = None,
) -> Task:
    """Store a new task; it belongs to the session that its owner has open, if any.

    Raises:
        InvalidInput: an anchor cannot be resolved.
    """
    params = {
        "id": uuid4(),
        "title": title,
        "description": description,
        "notes": notes,
        "status": "need to be done",
        "planning_references": list(planning_references),
        "owner": owner,
    }
    return await _written(tx, ["create_task", "begin_history"], params, anchors or None)


async def get_task(tx: Transaction, task_id: UUID) -> Task:
    """A task with its history.

    Raises:
        NotFound: there is no task with this id.
    """
    return await _written(tx, [], {"id": task_id}, None)


async def list_tasks(
    tx: Transaction,
    paging: Paging,
    *,
    status: TaskStatus | None = None,
    branch: str | None = None,
) -> Page[Task]:
    """A page of the tasks with a status and with a branch of this prefix, newest first."""
    params = {**paging.parameters(), "status": status, "branch": branch}
    _, rows, [[total]] = await tx.fetch_many(
        [
            (_SQL["plan_for_values"], {}),
            (_SQL["newest_tasks" if branch is None else "newest_tasks_of_branch"], params),
            (_SQL["count_tasks" if branch is None else "count_tasks_of_branch"], params),
        ]
    )
    return paging.page(
        [Task.from_row(row) for row in rows], total, lambda task: Cursor(task.created_at, task.id)
    )


async def update_task(
    tx: Transaction, task_id: UUID, changes: Mapping[str, Any], *, owner: str | None = None
) -> Task:
    """Change the given fields of a task, in the session that its owner has open, if any.

    None clears a field, or unlinks all branches or commits.

    Raises:
        NotFound: there is no task with this id.
        InvalidInput: an anchor cannot be resolved.
    """
    references = list(changes.get("planning_references") or ())
    params = {
        **dict.fromkeys(_CHANGEABLE),
        **changes,
        "planning_references": references,
        "id": task_id,
        "given": list(changes),
        "owner": owner,
    }
    anchors = (changes["anchors"] or ()) if "anchors" in changes else None
    _, rows = await tx.fetch_many([(_SQL["lock_task"], params), (_SQL["before_update"], params)])
    if not rows:
        return await _written(tx, [], params, None)
    status, branch, commit, is_edited, last, session_id, now, linked_at = rows[0]
    before = {"status": status, "branch": branch, "commit": commit}
    events = [
        (field, old, changes[field])
        for field, old in before.items()
        if field in changes and changes[field] != old
    ]
    links = [(field, new) for field, _, new in events if field != "status"]
    linked = [(field, new) for field, new in links if new is not None]
    statements = ["unlink", "link", "update_task"] if events or is_edited else []
    if not events and is_edited and session_id is not None:
        events = [("text", None, None)]
    params |= {
        "unlinked": [field for field, new in links if new is None],
        "linked": [field for field, _ in linked],
        "values": [new for _, new in linked],
        "fields": [field for field, _, _ in events],
        "olds": [old for _, old, _ in events],
        "news": [new for _, _, new in events],
        "last": last,
        "session_id": session_id,
        "now": now,
        "linked_at": linked_at,
    }
    return await _written(tx, [*statements, *(["add_events"] if events else [])], params, anchors)


async def _written(
    tx: Transaction,
    statements: Sequence[str],
    params: Mapping[str, Any],
    anchors: Sequence[CodeReference] | None,
) -> Task:
    """A task with its history, as these statements leave it, with its new anchors if given."""
    *_, rows, events = await tx.fetch_many(
        [(_SQL[name], params) for name in (*statements, "task", "history")]
    )
    if not rows:
        raise NotFound(
            "Task not found",
            hint="Take task_id from list_tasks; a task is known in its own project only.",
            details={"task_id": str(params["id"])},
        )
    task = replace(Task.from_row(rows[0]), history=tuple(TaskEvent(*event) for event in events))
    if anchors is not None:
        task = replace(task, anchors=await set_anchors(tx, "task", task.id, anchors))
    return task
