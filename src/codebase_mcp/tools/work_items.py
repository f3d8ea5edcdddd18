"""The toolset ``work_items``: work in five levels."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.page import Paging
from codebase_mcp.records.vocabulary import WorkItemStatus, WorkItemType
from codebase_mcp.tools import fields
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.reply import ReplyPart
from codebase_mcp.tools.rules import record_id, text
from codebase_mcp.tools.text import INDENT, body, joined, page
from codebase_mcp.tools.toolset import READS, Caller, Hints, Toolset

TOOLSET = Toolset("work_items", "Work in five levels: query_work_items, get_work_item_hierarchy.")

MAX_TITLE_CHARS = 200
PARENT_ID = record_id("Parent")

WorkItemId = Annotated[UUID, record_id("Work item"), Field(description="Id of the item (UUID).")]
Title = Annotated[str, text(MAX_TITLE_CHARS), Field(description="In short.")]
Description = Annotated[
    str | None,
    Field(description="What belongs to it, and how to see that it is done.", max_length=2_000),
]


class CreateWorkItem(Arguments):
    item_type: Annotated[
        WorkItemType,
        Field(description="From the highest: project, session, task, research, subtask."),
    ]
    title: Title
    description: Description = None
    status: Annotated[WorkItemStatus, Field(description="How far it is.")] = "planned"
    parent_id: Annotated[
        UUID | None, PARENT_ID, Field(description="The item it is a part of; none: a root.")
    ] = None
    anchors: fields.Anchors = None
    project_id: fields.ProjectId = None


class UpdateWorkItem(Arguments):
    model_config = ConfigDict(json_schema_extra=fields.publish_no_defaults)

    work_item_id: WorkItemId
    title: Title = ""
    description: Description = None
    status: Annotated[WorkItemStatus, Field(description="How far it is.")] = "planned"
    anchors: fields.Anchors = None
    project_id: fields.ProjectId = None


class QueryWorkItems(Arguments):
    status: Annotated[WorkItemStatus | None, Field(description="Only this status.")] = None
    item_type: Annotated[WorkItemType | None, Field(description="Only this level.")] = None
    parent_id: Annotated[
        UUID | None, PARENT_ID, Field(description="Only what is below this item.")
    ] = None
    include_descendants: Annotated[
        bool, Field(description="With parent_id: everything below, not only children.")
    ] = False
    limit: Annotated[int, Field(ge=1, le=100, description="Items at most.")] = 50
    offset: fields.Offset = 0
    cursor: fields.PageCursor = None
    project_id: fields.ProjectId = None


class GetWorkItemHierarchy(Arguments):
    work_item_id: WorkItemId
    project_id: fields.ProjectId = None


class WorkItemPart(ReplyPart):
    """A piece of work, and where in the tree it stands."""

    id: UUID
    item_type: WorkItemType
    title: str
    description: str | None
    status: WorkItemStatus
    parent_id: UUID | None
    path: str = Field(description="The ids from the root to itself, each followed by a slash.")
    depth: int = Field(description="How many ancestors it has.")
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = Field(description="null unless its status is completed.")
    anchors: list[fields.AnchorReply]

    def line(self) -> str:
        review = any(anchor.state == "needs_review" for anchor in self.anchors)
        return joined(
            str(self.id),
            self.item_type,
            self.status,
            self.title,
            "needs_review" if review else None,
        )


class WorkItemReply(fields.RecordReply, WorkItemPart):
    """A new or changed work item."""

    def text_lines(self) -> Iterator[str]:
        yield self.line()
        yield from fields.anchor_lines(self.anchors)


class WorkItemsReply(fields.ProjectReply):
    work_items: list[WorkItemPart] = Field(default=[], description="Newest first.")
    total: int = Field(default=0, description="Matching items in all, whatever the limit.")
    next_cursor: str | None = Field(default=None, description="For the next page; null: no more.")

    def text_lines(self) -> Iterator[str]:
        yield page(len(self.work_items), self.total, "work items", self.next_cursor)
        yield from (item.line() for item in self.work_items)


class HierarchyReply(fields.ProjectReply):
    work_item: WorkItemPart
    ancestors: list[WorkItemPart] = Field(description="The root first.")
    children: list[WorkItemPart] = Field(description="Oldest first.")
    descendants: list[WorkItemPart] = Field(
        description="All that is below it, the children too: level by level, oldest first."
    )
    descendants_total: int = Field(description="How many are below it in all.")
    truncated: bool = Field(description="Whether that is more than are named.")

    def text_lines(self) -> Iterator[str]:
        """The tree, a line an item, each further in than its parent; of the item all is said."""
        below: dict[UUID | None, list[WorkItemPart]] = {}
        for item in self.descendants:
            below.setdefault(item.parent_id, []).append(item)
        chain = [*self.ancestors, self.work_item]
        for depth, item in enumerate(chain):
            yield INDENT * depth + item.line()
        lead = INDENT * len(chain)
        yield from (lead + line for line in body("description", self.work_item.description))
        yield from (lead + line for line in fields.anchor_lines(self.work_item.anchors))
        open_items = [(len(chain), item) for item in reversed(below.get(self.work_item.id, []))]
        while open_items:
            depth, item = open_items.pop()
            yield INDENT * depth + item.line()
            open_items += [(depth + 1, part) for part in reversed(below.get(item.id, []))]
        if self.truncated:
            yield f"{len(self.descendants)} of {self.descendants_total} items below are shown"


@TOOLSET.tool("Create a work item")
async def create_work_item(caller: Caller, arguments: CreateWorkItem) -> WorkItemReply:
    """Add work to a tree of five levels: project, session, task, research, subtask.

    First the whole, then its parts, on lower levels, with parent_id; type and parent stay. For a
    flat list use create_task.
    """
    from codebase_mcp.records.work_items import create_work_item as create  # noqa: PLC0415

    async with caller.enter(arguments.project_id) as project:
        item = await create(
            project.tx,
            arguments.item_type,
            arguments.title,
            description=arguments.description,
            status=arguments.status,
            parent_id=arguments.parent_id,
            anchors=fields.places_of(arguments.anchors),
        )
    return WorkItemReply.of(project, item)


@TOOLSET.tool("Change a work item", Hints(destroys=True, repeats=True))
async def update_work_item(caller: Caller, arguments: UpdateWorkItem) -> WorkItemReply:
    """Change a work item: only what you give; null clears the description. Parents and children
    keep their status.
    """
    from codebase_mcp.records.work_items import update_work_item as update  # noqa: PLC0415

    changes = fields.changes_in(arguments, "work_item_id")
    async with caller.enter(arguments.project_id) as project:
        item = await update(project.tx, arguments.work_item_id, changes)
    return WorkItemReply.of(project, item)


@TOOLSET.tool("List work items", READS)
async def query_work_items(caller: Caller, arguments: QueryWorkItems) -> WorkItemsReply:
    """List work items, newest first. For a whole tree use get_work_item_hierarchy."""
    from codebase_mcp.records.work_items import query_work_items as find  # noqa: PLC0415

    if arguments.include_descendants and arguments.parent_id is None:
        message = "Field required with include_descendants: parent_id"
        hint = "Without include_descendants all items are listed, whatever they are below."
        rule = "required with include_descendants"
        raise InvalidInput.of("parent_id", None, message, rule=rule, hint=hint)
    paging = Paging.asked(arguments.limit, arguments.offset, arguments.cursor)
    async with caller.enter(arguments.project_id, readonly=True) as project:
        page = await find(
            project.tx,
            paging,
            status=arguments.status,
            item_type=arguments.item_type,
            parent_id=arguments.parent_id,
            below=arguments.include_descendants,
        )
    return WorkItemsReply.of(project, page, work_items=page.items)


@TOOLSET.tool("Show a work item's tree", READS)
async def get_work_item_hierarchy(
    caller: Caller, arguments: GetWorkItemHierarchy
) -> HierarchyReply:
    """Show what a work item is part of, and everything below it (1,000 at most; query_work_items
    pages through all).
    """
    from codebase_mcp.records.work_items import get_hierarchy  # noqa: PLC0415

    async with caller.enter(arguments.project_id, readonly=True) as project:
        tree = await get_hierarchy(project.tx, arguments.work_item_id)
    is_cut = tree.descendants_total > len(tree.descendants)
    return HierarchyReply.of(project, tree, work_item=tree.item, truncated=is_cut)
