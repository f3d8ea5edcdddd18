"""A hierarchy of work items in five levels.

Each item holds its path, the ids from the root to itself, so that what is below an item is a range
of paths, and what is above it stands in its own. Neither type nor parent of an item ever changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypedDict, get_args
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.errors import CodebaseError, InvalidInput, NotFound
from codebase_mcp.records.anchors import Anchor, CodeReference, anchors_of, set_anchors
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.vocabulary import WorkItemStatus, WorkItemType

_SQL = load_queries("codebase_mcp.records", "work_items.sql")

# From the highest to the lowest.
LEVELS: tuple[WorkItemType, ...] = get_args(WorkItemType)

# A larger part of a tree is not useful in one reply.
MAX_DESCENDANTS = 1_000


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A work item; ``path`` are the ids from the root to itself."""

    id: UUID
    item_type: WorkItemType
    title: str
    description: str | None
    status: WorkItemStatus
    parent_id: UUID | None
    path: str
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    anchors: tuple[Anchor, ...] = ()

    @property
    def depth(self) -> int:
        """How many ancestors it has."""
        return self.path.count("/") - 1


class WorkItemChanges(TypedDict, total=False):
    """The fields of an update; None clears the description or the anchors."""

    title: str
    description: str | None
    status: WorkItemStatus
    anchors: Sequence[CodeReference] | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which items are asked for; of a parent its children, or with ``below`` all below it."""

    status: WorkItemStatus | None = None
    item_type: WorkItemType | None = None
    parent_id: UUID | None = None
    below: bool = False


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """An item, what is above it (the root first), and what is below it, level by level.

    ``descendants_total`` may be more than are named.
    """

    item: WorkItem
    ancestors: list[WorkItem]
    children: list[WorkItem]
    descendants: list[WorkItem]
    descendants_total: int


async def create_work_item(
    tx: Transaction,
    item_type: WorkItemType,
    title: str,
    *,
    description: str | None = None,
    status: WorkItemStatus = "planned",
    parent_id: UUID | None = None,
    places: Sequence[CodeReference] = (),
) -> WorkItem:
    """Store a new item, at the root or below a parent of a higher level.

    Raises:
        NotFound: there is no such parent.
        InvalidInput: the parent does not stand above such an item; or one of the places cannot be
            an anchor.
    """
    identity = uuid4()
    row = await tx.fetch_one(
        _SQL["create_work_item"],
        id=identity,
        item_type=item_type,
        title=title,
        description=description,
        status=status,
        parent_id=parent_id,
        above=list(LEVELS[: LEVELS.index(item_type)]),
    )
    assert row is not None
    parent_type, path, created_at, completed_at = row
    if path is None:
        assert parent_id is not None
        if parent_type is None:
            raise _not_found("Parent work item not found", "parent_id", parent_id)
        raise _not_above(parent_id, parent_type, item_type)
    item = WorkItem(
        identity,
        item_type,
        title,
        description,
        status,
        parent_id,
        path,
        created_at=created_at,
        updated_at=created_at,
        completed_at=completed_at,
    )
    if not places:
        return item
    await set_anchors(tx, "work_item", identity, places)
    return replace(item, anchors=(await anchors_of(tx, [identity]))[identity])


async def update_work_item(tx: Transaction, item_id: UUID, changes: WorkItemChanges) -> WorkItem:
    """Change what is given of an item.

    Raises:
        NotFound: there is no item with this id.
        InvalidInput: one of the places cannot be an anchor.
    """
    row = await tx.fetch_one(
        _SQL["update_work_item"],
        id=item_id,
        given=list(changes),
        title=changes.get("title"),
        description=changes.get("description"),
        status=changes.get("status"),
    )
    if row is None:
        raise _not_found("Work item not found", "work_item_id", item_id)
    if "anchors" in changes:
        places = changes["anchors"] or ()
        await set_anchors(tx, "work_item", item_id, places)
        row = (*row[:-1], bool(places))
    [item] = await _items(tx, [row])
    return item


async def query_work_items(tx: Transaction, wanted: Wanted, paging: Paging) -> Page[WorkItem]:
    """A page of the items that are asked for, newest first.

    Raises:
        NotFound: there is no such parent.
    """
    params = {
        **paging.parameters(),
        "status": wanted.status,
        "item_type": wanted.item_type,
        "parent_id": None if wanted.below else wanted.parent_id,
        "below": wanted.parent_id if wanted.below else None,
    }
    _, rows, [[total]], parent = await tx.fetch_many(
        [
            (_SQL["plan_for_values"], {}),
            (_SQL["page"], params),
            (_SQL["total"], params),
            (_SQL["known"], {"id": wanted.parent_id}),
        ]
    )
    if wanted.parent_id is not None and not parent:
        raise _not_found("Work item not found", "parent_id", wanted.parent_id)
    items = await _items(tx, rows)
    return paging.page(items, total, lambda item: Cursor(item.created_at, item.id))


async def get_hierarchy(tx: Transaction, item_id: UUID) -> Hierarchy:
    """An item with what is above and below it.

    Raises:
        NotFound: there is no item with this id.
    """
    params = {"id": item_id, "limit": MAX_DESCENDANTS}
    lineage, below, [[total]] = await tx.fetch_many(
        [(_SQL[name], params) for name in ("lineage", "descendants", "count_descendants")]
    )
    if not lineage:
        raise _not_found("Work item not found", "work_item_id", item_id)
    items = await _items(tx, [*lineage, *below])
    *ancestors, item = items[: len(lineage)]
    descendants = items[len(lineage) :]
    return Hierarchy(
        item,
        ancestors,
        children=[child for child in descendants if child.parent_id == item.id],
        descendants=descendants,
        descendants_total=total,
    )


@dataclass(frozen=True, slots=True)
class Tree:
    """An item without a parent, with what is below it, in the order of reading.

    ``left_out`` others are below it; those at the bottom are left out first.
    """

    items: list[WorkItem]
    left_out: int


async def page_of_trees(tx: Transaction, paging: Paging, most: int) -> Page[Tree]:
    """A page of trees, the newest first, with this many items of each at most."""
    roots, [[total]] = await tx.fetch_many(
        [(_SQL["root_page"], paging.parameters()), (_SQL["count_roots"], {})]
    )
    page = paging.page(roots, total, lambda row: Cursor(row[1], row[0]))
    rows = await tx.fetch_all(_SQL["trees"], roots=[row[0] for row in page.items], most=most)
    trees: dict[str, list[WorkItem]] = defaultdict(list)
    for item in await _items(tx, rows):
        trees[item.path.partition("/")[0]].append(item)
    found = [
        Tree(in_order(items), below + 1 - len(items))
        for root, _, below in page.items
        for items in [trees[str(root)]]
    ]
    return Page(found, page.total, page.next_cursor)


def in_order(items: Sequence[WorkItem]) -> list[WorkItem]:
    """An item and what is below it, each before its own, and of siblings the oldest first."""
    made = {str(one.id): one.created_at for one in items}
    return sorted(
        items, key=lambda one: [(made[id], id) for id in one.path.split("/") if id in made]
    )


async def root_ids(tx: Transaction, limit: int) -> list[UUID]:
    """The items without a parent, oldest first."""
    return [row[0] for row in await tx.fetch_all(_SQL["roots"], limit=limit)]


async def _items(tx: Transaction, rows: Sequence[Row]) -> list[WorkItem]:
    """Items of rows whose last column says whether there are anchors."""
    anchors = await anchors_of(tx, [row[0] for row in rows if row[-1]])
    return [WorkItem(*(*row[:-1], anchors[row[0]])) for row in rows]


def _not_found(message: str, field: str, item_id: UUID) -> NotFound:
    return NotFound(
        message,
        hint="Take the id from query_work_items; an item is known in its own project only.",
        details={field: str(item_id)},
    )


def _not_above(
    parent_id: UUID, parent_type: WorkItemType, item_type: WorkItemType
) -> CodebaseError:
    """Why an item cannot stand below this parent, and what can be done about it."""
    above = LEVELS[: LEVELS.index(item_type)]
    below = LEVELS[LEVELS.index(parent_type) + 1 :]
    ways = [f"take a parent_id of type {' or '.join(above)}"] if above else ["omit parent_id"]
    if below:
        ways.append(f"make item_type {' or '.join(below)}")
    return InvalidInput.of(
        "parent_id",
        str(parent_id),
        f"An item_type {item_type!r} is not allowed below a parent_id of type {parent_type!r}",
        rule="a child strictly below its parent: " + " > ".join(LEVELS),
        hint=f"{', or '.join(ways).capitalize()}.",
    )
