"""Tasks in the database: what an update leaves behind, alone and beside others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.records.anchoring import CodeReference
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.tasks import (
    Task,
    TaskEvent,
    TaskStatus,
    create_task,
    get_task,
    list_tasks,
    update_task,
)

pytestmark = pytest.mark.anyio

STATUSES: tuple[TaskStatus, ...] = ("need to be done", "in-progress", "complete")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class TaskStore:
    """Each operation in a transaction of its own, as tools do it."""

    def __init__(self, database: Database, project: Project) -> None:
        self._database = database
        self._project = project

    async def create(self, title: str = "Task", **given: Any) -> Task:
        async with self._database.transaction(self._project) as tx:
            return await create_task(tx, title, **given)

    async def get(self, task_id: UUID) -> Task:
        async with self._database.transaction(self._project, readonly=True) as tx:
            return await get_task(tx, task_id)

    async def update(self, task_id: UUID, *, owner: str | None = None, **changes: Any) -> Task:
        async with self._database.transaction(self._project) as tx:
            return await update_task(tx, task_id, changes, owner=owner)

    async def list(self, limit: int = 20, cursor: str | None = None, **wanted: Any) -> Page[Task]:
        paging = Paging(limit, cursor=None if cursor is None else Cursor.decoded(cursor))
        async with self._database.transaction(self._project, readonly=True) as tx:
            return await list_tasks(tx, paging, **wanted)

    async def execute(self, query: str, **params: object) -> None:
        async with self._database.transaction(self._project) as tx:
            await tx.execute(query, **params)

    async def events(self, task_id: UUID) -> list[tuple[Any, ...]]:
        async with self._database.transaction(self._project, readonly=True) as tx:
            return await tx.fetch_all(
                "SELECT ordinal, field, session_id FROM task_event WHERE task_id = %(id)s"
                " ORDER BY ordinal",
                id=task_id,
            )


@pytest.fixture
def store(database: Database, project: Project) -> TaskStore:
    return TaskStore(database, project)


def moves(task: Task, field: str) -> list[tuple[str | None, str | None]]:
    """A field's history."""
    return [(event.old, event.new) for event in task.history or () if event.field == field]


def assert_chain(steps: Sequence[tuple[str | None, str | None]], end: str | None) -> None:
    """Each step begins where the one before ended, the first at nothing, and none stands still."""
    assert [old for old, _ in steps] == [None, *(new for _, new in steps[:-1])]
    assert all(old != new for old, new in steps)
    assert steps[-1][1] == end


async def assert_gapless(store: TaskStore, task_id: UUID) -> None:
    ordinals = [ordinal for ordinal, _, _ in await store.events(task_id)]
    assert ordinals == list(range(1, len(ordinals) + 1))


async def test_a_new_task_was_created_and_changed_at_one_moment(store: TaskStore) -> None:
    task = await store.create(planning_references=["specs/a.md"], notes="n")
    assert task.created_at == task.updated_at
    assert task.history == (TaskEvent(task.created_at, "status", None, "need to be done"),)
    assert await store.get(task.id) == task


async def test_what_is_not_there_is_not_found(store: TaskStore) -> None:
    unknown = uuid4()
    for operation in (store.get(unknown), store.update(unknown, title="x", anchors=[])):
        with pytest.raises(NotFound, match=r"^Task not found$") as caught:
            await operation
        assert caught.value.details == {"task_id": str(unknown)}
        assert caught.value.hint


async def test_statuses_set_at_the_same_time_leave_a_chain(store: TaskStore) -> None:
    task = await store.create()
    wanted = [STATUSES[n % 3] for n in range(30)]
    await asyncio.gather(*(store.update(task.id, status=status) for status in wanted))
    after = await store.get(task.id)
    steps = moves(after, "status")
    assert_chain(steps, after.status)
    assert {new for _, new in steps} == set(STATUSES)
    await assert_gapless(store, task.id)


async def test_one_branch_linked_by_many_at_once_is_linked_once(store: TaskStore) -> None:
    task = await store.create()
    await asyncio.gather(*(store.update(task.id, branch="main", commit=COMMIT) for _ in range(20)))
    after = await store.get(task.id)
    assert (after.branches, after.commits) == (("main",), (COMMIT,))
    assert moves(after, "branch") == [(None, "main")]
    assert moves(after, "commit") == [(None, COMMIT)]
    await assert_gapless(store, task.id)


async def test_branches_linked_at_once_are_all_kept_in_the_order_of_the_history(
    store: TaskStore,
) -> None:
    task = await store.create()
    names = [f"feature/{n}" for n in range(20)]
    await asyncio.gather(*(store.update(task.id, branch=name) for name in names))
    after = await store.get(task.id)
    assert sorted(after.branches) == sorted(names)
    assert after.branches == tuple(new for _, new in moves(after, "branch"))
    assert_chain(moves(after, "branch"), after.branch)


async def test_updates_of_different_fields_at_once_lose_nothing(store: TaskStore) -> None:
    task = await store.create()
    changes: list[dict[str, Any]] = [
        {"title": "New"},
        {"description": "d"},
        {"notes": "n"},
        {"status": "complete"},
        {"branch": "b"},
        {"commit": COMMIT},
        {"planning_references": ["p"]},
        {"anchors": [CodeReference(commit=COMMIT)]},
    ]
    await asyncio.gather(*(store.update(task.id, **change) for change in changes))
    after = await store.get(task.id)
    assert (after.title, after.description, after.notes) == ("New", "d", "n")
    assert (after.status, after.branch, after.commit) == ("complete", "b", COMMIT)
    assert after.planning_references == ("p",)
    assert [anchor.commit for anchor in after.anchors] == [COMMIT]
    await assert_gapless(store, task.id)


async def test_an_update_replies_with_what_it_made(store: TaskStore) -> None:
    task = await store.create(notes="n")
    reply = await store.update(
        task.id, status="complete", branch="b", notes=None, anchors=[CodeReference(commit=COMMIT)]
    )
    assert reply == await store.get(task.id)
    assert reply.updated_at > reply.created_at


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"title": "Task"},
        {"description": None},
        {"notes": "n", "planning_references": ["p"]},
        {"status": "in-progress"},
        {"branch": "b"},
        {"commit": None},
    ],
)
async def test_what_is_there_already_changes_nothing(
    store: TaskStore, same: dict[str, Any]
) -> None:
    task = await store.create(notes="n", planning_references=["p"])
    before = await store.update(task.id, status="in-progress", branch="b")
    assert await store.update(task.id, **same) == before


async def test_linking_an_older_branch_again_makes_it_the_latest(store: TaskStore) -> None:
    task = await store.create()
    for branch in ("a", "b", "a"):
        await store.update(task.id, branch=branch)
    after = await store.get(task.id)
    assert (after.branch, after.branches) == ("a", ("b", "a"))
    assert moves(after, "branch") == [(None, "a"), ("a", "b"), ("b", "a")]


async def test_unlinking_takes_all_of_a_kind_and_the_history_remembers(
    store: TaskStore,
) -> None:
    task = await store.create()
    for branch in ("a", "b"):
        await store.update(task.id, branch=branch, commit=COMMIT)
    await store.update(task.id, branch=None)
    after = await store.get(task.id)
    assert (after.branch, after.branches) == (None, ())
    assert (after.commit, after.commits) == (COMMIT, (COMMIT,))
    assert moves(after, "branch") == [(None, "a"), ("a", "b"), ("b", None)]
    assert moves(after, "commit") == [(None, COMMIT)]


async def test_a_link_is_the_latest_even_after_one_from_the_future(store: TaskStore) -> None:
    task = await store.create()
    await store.execute(
        "INSERT INTO task_link (task_id, kind, value, linked_at)"
        " VALUES (%(id)s, 'branch', 'imported', now() + interval '1 day')",
        id=task.id,
    )
    await store.update(task.id, branch="ours")
    assert (await store.get(task.id)).branches == ("imported", "ours")


async def test_an_update_that_fails_changes_nothing(store: TaskStore) -> None:
    task = await store.create()
    with pytest.raises(InvalidInput):
        await store.update(
            task.id,
            title="x",
            status="complete",
            branch="b",
            anchors=[CodeReference(file="/nowhere/a.py")],
        )
    assert await store.get(task.id) == task


async def test_events_belong_to_the_session_that_their_owner_has_open(
    store: TaskStore,
) -> None:
    insert = (
        "INSERT INTO session (id, owner, started_at, ended_at) VALUES (%(id)s, %(owner)s,"
        " now() - make_interval(hours => %(hours)s),"
        " CASE WHEN %(is_over)s THEN now() END)"
    )
    for row in (
        {"id": "older", "owner": "me", "hours": 5, "is_over": False},
        {"id": "mine", "owner": "me", "hours": 3, "is_over": False},
        {"id": "over", "owner": "me", "hours": 1, "is_over": True},
        {"id": "other", "owner": "you", "hours": 0, "is_over": False},
        {"id": "nobody's", "owner": None, "hours": 0, "is_over": False},
    ):
        await store.execute(insert, **row)
    task = await store.create(owner="me")
    await store.update(task.id, owner="me", status="in-progress", notes="both")
    await store.update(task.id, owner="me", notes="only this")
    await store.update(task.id, owner="me", notes="only this")
    await store.update(task.id, owner="me", anchors=[])
    await store.update(task.id, status="complete")
    await store.update(task.id, notes="nobody knows who")
    assert await store.events(task.id) == [
        (1, "status", "mine"),
        (2, "status", "mine"),
        (3, "text", "mine"),
        (4, "text", "mine"),
        (5, "status", None),
    ]
    assert [event.field for event in (await store.get(task.id)).history or ()] == ["status"] * 3


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("feature/", {"feature/a", "feature/b", "feature/100%"}),
        ("feature/a", {"feature/a"}),
        ("feature/100%", {"feature/100%"}),
        ("%", set()),
        ("feature_", set()),
        ("f_x", {"f_x"}),
        ("FEATURE", set()),
        ("fix\\", {"fix\\n"}),
        ("ä", {"ä/ö"}),
        ("feature/\U0001f389", set()),
        ("zzz", set()),
    ],
)
async def test_a_branch_is_found_by_the_beginning_of_its_name_letter_by_letter(
    store: TaskStore, prefix: str, found: set[str]
) -> None:
    for branch in (
        "feature/a", "feature/b", "feature/100%", "features", "feature", "f_x", "fax", "fix\\n",
        "ä/ö",
    ):  # fmt: skip
        task = await store.create(branch)
        await store.update(task.id, branch=branch)
    page = await store.list(branch=prefix)
    assert {task.title for task in page.items} == found
    assert page.total == len(found)


async def test_a_task_is_found_once_by_any_of_its_branches_but_not_by_commits(
    store: TaskStore,
) -> None:
    task = await store.create()
    for branch in ("feature/a", "feature/b", "main"):
        await store.update(task.id, branch=branch, commit=COMMIT)
    for prefix in ("feature/", "main"):
        page = await store.list(branch=prefix)
        assert ([found.id for found in page.items], page.total) == ([task.id], 1)
    assert (await store.list(branch=COMMIT[:4])).total == 0


async def test_status_and_branch_filter_together(store: TaskStore) -> None:
    for status in STATUSES:
        for branch in ("a/1", "b/1"):
            task = await store.create(f"{status} {branch}")
            await store.update(task.id, status=status, branch=branch)
    page = await store.list(status="complete", branch="a/")
    assert ([task.title for task in page.items], page.total) == (["complete a/1"], 1)
    assert (await store.list(status="complete")).total == 2
    assert (await store.list()).total == 6


async def test_tasks_of_one_moment_are_paged_by_their_ids(store: TaskStore) -> None:
    for _ in range(7):
        await store.create()
    await store.execute("UPDATE task SET created_at = '2024-01-15T10:00:00Z'")
    whole = await store.list(limit=100)
    ids = [task.id for task in whole.items]
    assert ids == sorted(ids, reverse=True)
    assert whole.next_cursor is None
    paged: list[UUID] = []
    page = await store.list(limit=2)
    while page.next_cursor is not None:
        paged += [task.id for task in page.items]
        page = await store.list(limit=2, cursor=page.next_cursor)
    assert [*paged, *(task.id for task in page.items)] == ids


async def test_a_list_shows_tasks_whole_but_for_their_history(store: TaskStore) -> None:
    task = await store.create(notes="n", anchors=[CodeReference(commit=COMMIT)])
    await store.update(task.id, branch="b", commit=COMMIT)
    bare = await store.create("Bare")
    page = await store.list()
    assert [found.id for found in page.items] == [bare.id, task.id]
    for found in page.items:
        whole = await store.get(found.id)
        assert whole.history
        assert found.history is None
        for field in ("notes", "branches", "commits", "anchors", "updated_at", "created_at"):
            assert getattr(found, field) == getattr(whole, field)


async def test_a_page_and_its_total_are_of_one_moment_while_others_add(
    store: TaskStore,
) -> None:
    async def add() -> None:
        for n in range(20):
            task = await store.create()
            await store.update(task.id, status=STATUSES[n % 3], branch=f"b/{n}")

    async def look() -> None:
        for wanted in ({}, {"status": "complete"}, {"branch": "b/"}) * 5:
            page = await store.list(limit=100, **wanted)
            assert page.total == len(page.items)

    await asyncio.gather(add(), add(), look(), look())
    assert (await store.list()).total == 40


@pytest.mark.parametrize("wanted", [{}, {"status": "in-progress"}, {"branch": "main"}])
async def test_paging_by_cursor_sees_each_row_once_while_others_add(
    store: TaskStore, wanted: dict[str, Any]
) -> None:
    async def add() -> UUID:
        task = await store.create()
        await store.update(task.id, status="in-progress", branch="main")
        return task.id

    original = [await add() for _ in range(25)]
    is_done = asyncio.Event()

    async def keep_adding() -> None:
        while not is_done.is_set():
            await add()

    async def read() -> list[UUID]:
        page = await store.list(limit=4, **wanted)
        seen = [task.id for task in page.items]
        while page.next_cursor is not None:
            await add()
            page = await store.list(limit=4, cursor=page.next_cursor, **wanted)
            seen += [task.id for task in page.items]
        is_done.set()
        return seen

    seen, _ = await asyncio.gather(read(), keep_adding())
    assert len(seen) == len(set(seen))
    assert [task_id for task_id in reversed(seen) if task_id in original] == original


async def test_times_of_a_history_never_go_back(store: TaskStore) -> None:
    task = await store.create()
    for status in (*STATUSES[1:], *STATUSES):
        task = await store.update(task.id, status=status)
    times = [event.at for event in task.history or ()]
    assert times == sorted(times)
    assert times[-1] == task.updated_at
