"""A hierarchy of work items in five levels.

Each item stores its path, the ids from the root to itself: the descendants of an item are a range
of paths, and its own path names its ancestors. Type and parent of an item never change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, get_args
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.errors import CodebaseError, InvalidInput, NotFound
from codebase_mcp.records.anchoring import Anchor, CodeReference
from codebase_mcp.records.anchors import anchors_from, set_anchors
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.vocabulary import WorkItemStatus, WorkItemType
from codebase_mcp.values import grouped

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

    @classmethod
    def from_row(cls, row: Row) -> WorkItem:
        """From a row whose last column are the anchors."""
        return cls(*(*row[:-1], anchors_from(row[-1])))

    @property
    def depth(self) -> int:
        """How many ancestors it has."""
        return self.path.count("/") - 1


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """An item, its ancestors (the root first) and its descendants, level by level.

    ``descendants_total`` also counts the descendants that are left out.
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
    anchors: Sequence[CodeReference] = (),
) -> WorkItem:
    """Store a new item, at the root or below a parent of a higher level.

    Raises:
        NotFound: there is no such parent.
        InvalidInput: the parent's type is not above the item's, or an anchor cannot be resolved.
    """
    [(parent_type, *columns)] = await tx.fetch_all(
        _SQL["create_work_item"],
        id=uuid4(),
        item_type=item_type,
        title=title,
        description=description,
        status=status,
        parent_id=parent_id,
        above=list(LEVELS[: LEVELS.index(item_type)]),
    )
    if columns[0] is None:
        assert parent_id is not None
        if parent_type is None:
            raise _not_found("Parent work item not found", "parent_id", parent_id)
        raise _not_above(parent_id, parent_type, item_type)
    return await _with_new_anchors(tx, tuple(columns), anchors or None)


async def update_work_item(tx: Transaction, item_id: UUID, changes: Mapping[str, Any]) -> WorkItem:
    """Change the given fields of an item: title, description, status, anchors. None clears a field.

    Raises:
        NotFound: there is no item with this id.
        InvalidInput: an anchor cannot be resolved.
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
    return await _with_new_anchors(
        tx, row, (changes["anchors"] or ()) if "anchors" in changes else None
    )


async def query_work_items(
    tx: Transaction,
    paging: Paging,
    *,
    status: WorkItemStatus | None = None,
    item_type: WorkItemType | None = None,
    parent_id: UUID | None = None,
    below: bool = False,
) -> Page[WorkItem]:
    """A page of the items with these fields, newest first.

    Of a parent its children are listed, with ``below`` all its descendants.

    Raises:
        NotFound: there is no such parent.
    """
    params = {
        **paging.parameters(),
        "status": status,
        "item_type": item_type,
        "parent_id": None if below else parent_id,
        "below": parent_id if below else None,
    }
    _, rows, [[total]], parent = await tx.fetch_many(
        [
            (_SQL["plan_for_values"], {}),
            (_SQL["page"], params),
            (_SQL["total"], params),
            (_SQL["exists"], {"id": parent_id}),
        ]
    )
    if parent_id is not None and not parent:
        raise _not_found("Work item not found", "parent_id", parent_id)
    items = [WorkItem.from_row(row) for row in rows]
    return paging.page(items, total, lambda item: Cursor(item.created_at, item.id))


async def get_hierarchy(tx: Transaction, item_id: UUID) -> Hierarchy:
    """An item with its ancestors and descendants.

    Raises:
        NotFound: there is no item with this id.
    """
    params = {"id": item_id, "limit": MAX_DESCENDANTS}
    lineage, below, [[total]] = await tx.fetch_many(
        [(_SQL[name], params) for name in ("lineage", "descendants", "count_descendants")]
    )
    if not lineage:
        raise _not_found("Work item not found", "work_item_id", item_id)
    items = [WorkItem.from_row(row) for row in (*lineage, *below)]
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
    """An item without a parent, and its descendants, each after its parent.

    ``left_out`` descendants are missing, of the lowest levels.
    """

    items: list[WorkItem]
    left_out: int


async def page_of_trees(tx: Transaction, paging: Paging, most: int) -> Page[Tree]:
    """A page of trees, the newest first, with at most this many items of each."""
    roots, [[total]] = await tx.fetch_many(
        [(_SQL["root_page"], paging.parameters()), (_SQL["count_roots"], {})]
    )
    page = paging.page(roots, total, lambda row: Cursor(row[1], row[0]))
    rows = await tx.fetch_all(_SQL["trees"], roots=[row[0] for row in page.items], most=most)
    trees = grouped((i.path.partition("/")[0], i) for i in map(WorkItem.from_row, rows))
    listed = [
        Tree(in_order(items), below + 1 - len(items))
        for root, _, below in page.items
        for items in [trees[str(root)]]
    ]
    return Page(listed, page.total, page.next_cursor)


def in_order(items: Sequence[WorkItem]) -> list[WorkItem]:
    """The items of a tree, each after its parent, siblings by age, the oldest first."""
    created = {str(item.id): item.created_at for item in items}
    return sorted(
        items, key=lambda item: [(created[id], id) for id in item.path.split("/") if id in created]
    )


async def root_ids(tx: Transaction, limit: int) -> list[UUID]:
    """The items without a parent, oldest first."""
    return [row[0] for row in await tx.fetch_all(_SQL["roots"], limit=limit)]


async def _with_new_anchors(
    tx: Transaction, row: Row, anchors: Sequence[CodeReference] | None
) -> WorkItem:
    item = WorkItem.from_row(row)
    if anchors is not None:
        item = replace(item, anchors=await set_anchors(tx, "work_item", item.id, anchors))
    return item


def _not_found(message: str, field: str, item_id: UUID) -> NotFound:
    return NotFound(
        message,
        hint="Take the id from query_work_items; an item is known in its own project only.",
        details={field: str(item_id)},
    )


def _not_above(
    parent_id: UUID, parent_type: WorkItemType, item_type: WorkItemType
) -> CodebaseError:
    """The error for a parent whose type is not above the item's."""
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
