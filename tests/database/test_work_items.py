"""Work items in the database: paths, trees and their order, alone and beside others."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.records.anchoring import CodeReference
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.vocabulary import WorkItemType
from codebase_mcp.records.work_items import (
    LEVELS,
    MAX_DESCENDANTS,
    Hierarchy,
    WorkItem,
    create_work_item,
    get_hierarchy,
    query_work_items,
    root_ids,
    update_work_item,
)

pytestmark = pytest.mark.anyio

COMMIT = "0123456789abcdef0123456789abcdef01234567"

# Children of one parent, in one statement; their creation times are one second apart.
ADD_CHILDREN = """
INSERT INTO work_item (id, item_type, title, status, parent_id, path, created_at)
SELECT child.id, 'subtask', child.n::text, 'planned', parent.id, parent.path || child.id || '/',
       now() + make_interval(secs => child.n)
FROM work_item AS parent
CROSS JOIN LATERAL (
    SELECT gen_random_uuid() AS id, n FROM generate_series(1, %(count)s) AS n
) AS child
WHERE parent.id = %(parent_id)s
"""


class ItemStore:
    """Each operation in a transaction of its own, as tools do it."""

    def __init__(self, database: Database, project: Project) -> None:
        self._database = database
        self._project = project

    async def create(
        self, item_type: WorkItemType = "task", title: str = "Item", **given: Any
    ) -> WorkItem:
        async with self._database.transaction(self._project) as tx:
            return await create_work_item(tx, item_type, title, **given)

    async def update(self, item_id: UUID, **changes: Any) -> WorkItem:
        async with self._database.transaction(self._project) as tx:
            return await update_work_item(tx, item_id, changes)

    async def query(
        self, limit: int = 50, cursor: str | None = None, **wanted: Any
    ) -> Page[WorkItem]:
        paging = Paging(limit, cursor=None if cursor is None else Cursor.decoded(cursor))
        async with self._database.transaction(self._project, readonly=True) as tx:
            return await query_work_items(tx, paging, **wanted)

    async def hierarchy(self, item_id: UUID) -> Hierarchy:
        async with self._database.transaction(self._project, readonly=True) as tx:
            return await get_hierarchy(tx, item_id)

    async def roots(self, limit: int = 100) -> list[UUID]:
        async with self._database.transaction(self._project, readonly=True) as tx:
            return await root_ids(tx, limit)

    async def execute(self, query: str, **params: object) -> None:
        async with self._database.transaction(self._project) as tx:
            await tx.execute(query, **params)

    async def chain(self) -> list[WorkItem]:
        """One item of each level, each below the one before."""
        made: list[WorkItem] = []
        for level in LEVELS:
            parent_id = made[-1].id if made else None
            made.append(await self.create(level, level, parent_id=parent_id))
        return made


@pytest.fixture
def store(database: Database, project: Project) -> ItemStore:
    return ItemStore(database, project)


def ids(items: list[WorkItem]) -> list[UUID]:
    return [item.id for item in items]


async def test_a_path_leads_from_the_root_to_the_item(store: ItemStore) -> None:
    made = await store.chain()
    for depth, item in enumerate(made):
        assert item.path == "".join(f"{above.id}/" for above in made[: depth + 1])
        assert item.depth == depth
        assert item.parent_id == (made[depth - 1].id if depth else None)


@pytest.mark.parametrize("item_type", LEVELS)
@pytest.mark.parametrize("parent_type", LEVELS)
async def test_a_child_stands_strictly_below_its_parent(
    store: ItemStore, item_type: WorkItemType, parent_type: WorkItemType
) -> None:
    parent = await store.create(parent_type)
    if LEVELS.index(parent_type) < LEVELS.index(item_type):
        child = await store.create(item_type, parent_id=parent.id)
        assert child.path == f"{parent.id}/{child.id}/"
        return
    with pytest.raises(InvalidInput) as caught:
        await store.create(item_type, parent_id=parent.id)
    assert caught.value.details["field"] == "parent_id"
    for name in ("item_type", "parent_id", item_type, parent_type):
        assert name in caught.value.message
    assert (await store.query()).total == 1


async def test_an_unknown_parent_is_not_found_and_nothing_is_made(store: ItemStore) -> None:
    unknown = uuid4()
    with pytest.raises(NotFound, match=r"^Parent work item not found$") as caught:
        await store.create("project", parent_id=unknown)
    assert caught.value.details == {"parent_id": str(unknown)}
    assert (await store.query()).total == 0


async def test_what_is_not_there_is_not_found(store: ItemStore) -> None:
    unknown = uuid4()
    for operation in (
        store.update(unknown, title="x", anchors=[]),
        store.hierarchy(unknown),
        store.query(parent_id=unknown),
        store.query(parent_id=unknown, below=True),
    ):
        with pytest.raises(NotFound, match=r"^Work item not found$") as caught:
            await operation
        assert str(unknown) in caught.value.details.values()


async def test_children_made_at_once_have_right_paths(store: ItemStore) -> None:
    root = await store.create("project")

    async def add(number: int) -> None:
        child = await store.create("session", f"{number}", parent_id=root.id)
        await asyncio.gather(
            *(store.create("task", f"{number}.{n}", parent_id=child.id) for n in range(2))
        )

    await asyncio.gather(*(add(number) for number in range(15)))
    found = await store.hierarchy(root.id)
    by_id = {item.id: item for item in [root, *found.descendants]}
    assert len(by_id) == 1 + 15 + 30
    for item in found.descendants:
        assert item.parent_id is not None
        assert item.path == by_id[item.parent_id].path + f"{item.id}/"
    assert {item.title for item in found.children} == {str(number) for number in range(15)}
    assert all(item.item_type == "session" for item in found.children)


async def test_a_hierarchy_has_ancestors_from_the_root_and_descendants_by_level(
    store: ItemStore,
) -> None:
    root, session, task, research, subtask = await store.chain()
    later = await store.create("subtask", parent_id=task.id)
    sibling = await store.create("task", parent_id=session.id)
    await store.create("subtask", parent_id=sibling.id)
    await store.chain()
    found = await store.hierarchy(task.id)
    assert found.item == task
    assert found.ancestors == [root, session]
    assert found.children == [research, later]
    assert found.descendants == [research, later, subtask]
    assert found.descendants_total == 3
    leaf = await store.hierarchy(subtask.id)
    assert leaf.ancestors == [root, session, task, research]
    assert (leaf.children, leaf.descendants, leaf.descendants_total) == ([], [], 0)
    assert (await store.hierarchy(root.id)).ancestors == []


async def test_a_large_hierarchy_names_the_first_thousand_and_counts_all(
    store: ItemStore,
) -> None:
    root = await store.create("project")
    await store.execute(ADD_CHILDREN, parent_id=root.id, count=MAX_DESCENDANTS)
    whole = await store.hierarchy(root.id)
    assert (len(whole.descendants), whole.descendants_total) == (MAX_DESCENDANTS,) * 2
    session = await store.create("session", parent_id=root.id)
    await store.create("task", parent_id=session.id)
    found = await store.hierarchy(root.id)
    assert found.descendants_total == MAX_DESCENDANTS + 2
    assert found.descendants[0] == session  # the others were dated later
    oldest = [item.title for item in found.descendants[1:]]
    assert oldest == [str(n) for n in range(1, MAX_DESCENDANTS)]
    assert found.children == found.descendants


async def test_below_an_item_is_everything_but_itself_and_its_siblings(
    store: ItemStore,
) -> None:
    root, session, task, research, subtask = await store.chain()
    await store.create("session", parent_id=root.id)
    page = await store.query(parent_id=session.id, below=True)
    assert ids(page.items) == ids([subtask, research, task])
    assert page.total == 3
    children = await store.query(parent_id=session.id)
    assert (ids(children.items), children.total) == ([task.id], 1)
    nothing = await store.query(parent_id=subtask.id, below=True)
    assert (nothing.items, nothing.total) == ([], 0)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, {"p", "a1", "a2", "b1", "other"}),
        ({"status": "active"}, {"a1", "a2", "other"}),
        ({"item_type": "session"}, {"a1", "b1"}),
        ({"status": "active", "item_type": "session"}, {"a1"}),
        ({"parent": "p"}, {"a1", "b1"}),
        ({"parent": "p", "status": "active"}, {"a1"}),
        ({"parent": "p", "item_type": "task"}, set()),
        ({"parent": "p", "below": True}, {"a1", "a2", "b1"}),
        ({"parent": "p", "below": True, "status": "active"}, {"a1", "a2"}),
        ({"parent": "p", "below": True, "item_type": "task"}, {"a2"}),
        ({"parent": "p", "below": True, "item_type": "task", "status": "blocked"}, set()),
        ({"below": True, "status": "planned"}, {"p", "b1"}),
    ],
)
async def test_filters_leave_only_what_they_name(
    store: ItemStore, wanted: dict[str, Any], found: set[str]
) -> None:
    root = await store.create("project", "p")
    first = await store.create("session", "a1", parent_id=root.id, status="active")
    await store.create("task", "a2", parent_id=first.id, status="active")
    await store.create("session", "b1", parent_id=root.id)
    await store.create("task", "other", status="active")
    given = {name: value for name, value in wanted.items() if name != "parent"}
    parent_id = root.id if "parent" in wanted else None
    page = await store.query(parent_id=parent_id, **given)
    assert {item.title for item in page.items} == found
    assert page.total == len(found)


@pytest.mark.parametrize(
    "wanted", [{}, {"status": "planned"}, {"item_type": "task"}, {"parent": 1}, {"below": True}]
)
async def test_paging_by_cursor_sees_each_item_once_while_others_add(
    store: ItemStore, wanted: dict[str, Any]
) -> None:
    root = await store.create("project", status="active")
    original = [(await store.create(parent_id=root.id)).id for _ in range(11)]
    given: dict[str, Any] = {"parent_id": root.id} if {"parent", "below"} & wanted.keys() else {}
    given |= {name: value for name, value in wanted.items() if name != "parent"}
    page = await store.query(limit=3, **given)
    seen = ids(page.items)
    while page.next_cursor is not None:
        await asyncio.gather(*(store.create(parent_id=root.id) for _ in range(3)))
        page = await store.query(limit=3, cursor=page.next_cursor, **given)
        seen += ids(page.items)
    assert len(seen) == len(set(seen))
    assert [item_id for item_id in reversed(seen) if item_id in original] == original


async def test_a_page_and_its_total_are_of_one_moment_while_others_add(
    store: ItemStore,
) -> None:
    root = await store.create("project")

    async def add() -> None:
        for _ in range(20):
            await store.create(parent_id=root.id)

    async def look() -> None:
        for wanted in ({}, {"parent_id": root.id}, {"parent_id": root.id, "below": True}) * 5:
            page = await store.query(limit=100, **wanted)
            assert page.total == len(page.items)
            found = await store.hierarchy(root.id)
            assert found.descendants_total == len(found.descendants)

    await asyncio.gather(add(), add(), look())
    assert (await store.query()).total == 41


async def test_updates_at_once_lose_nothing_and_completion_follows_the_status(
    store: ItemStore,
) -> None:
    item = await store.create()

    async def toggle(status: str) -> None:
        after = await store.update(item.id, status=status)
        assert after.status == status
        assert (after.completed_at is not None) == (status == "completed")

    await asyncio.gather(
        *(toggle("completed" if n % 2 else "active") for n in range(20)),
        store.update(item.id, title="New"),
        store.update(item.id, description="d"),
    )
    [after] = (await store.query()).items
    assert (after.title, after.description) == ("New", "d")


async def test_completion_keeps_its_time_until_the_status_leaves_it(store: ItemStore) -> None:
    item = await store.create(status="completed")
    assert item.completed_at == item.created_at == item.updated_at
    again = await store.update(item.id, status="completed", title="New")
    assert again.completed_at == item.completed_at
    assert again.updated_at > item.updated_at
    reopened = await store.update(item.id, status="blocked")
    assert reopened.completed_at is None
    done = await store.update(item.id, status="completed")
    assert done.completed_at is not None
    assert done.completed_at > item.completed_at


@pytest.mark.parametrize(
    "same", [{}, {"title": "Item"}, {"description": "d"}, {"status": "active"}]
)
async def test_what_is_there_already_changes_nothing(
    store: ItemStore, same: dict[str, Any]
) -> None:
    item = await store.create(description="d", status="active")
    assert await store.update(item.id, **same) == item


async def test_anchors_come_with_items_wherever_they_are_shown(store: ItemStore) -> None:
    root = await store.create("project", anchors=[CodeReference(commit=COMMIT)])
    child = await store.create(parent_id=root.id)
    child = await store.update(child.id, anchors=[CodeReference(commit=COMMIT[::-1])])
    assert [anchor.commit for anchor in child.anchors] == [COMMIT[::-1]]
    found = await store.hierarchy(root.id)
    assert (found.item, found.descendants) == (root, [child])
    assert (await store.query()).items == [child, root]
    assert [anchor.commit for anchor in root.anchors] == [COMMIT]
    cleared = await store.update(root.id, anchors=None)
    assert cleared.anchors == ()
    assert (await store.hierarchy(root.id)).item == cleared


async def test_an_update_that_fails_changes_nothing(store: ItemStore) -> None:
    item = await store.create()
    with pytest.raises(InvalidInput):
        await store.update(item.id, title="x", anchors=[CodeReference(file="/nowhere/a.py")])
    assert (await store.query()).items == [item]


async def test_roots_come_oldest_first(store: ItemStore) -> None:
    roots = [await store.create("session") for _ in range(3)]
    await store.create("task", parent_id=roots[0].id)
    assert await store.roots() == ids(roots)
    assert await store.roots(limit=2) == ids(roots[:2])
