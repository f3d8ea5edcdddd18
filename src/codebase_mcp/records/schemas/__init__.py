"""Schemas of the user's own: is this one that we accept, does this value fit it, what changed?

Our own, and not the library that checks the arguments of tools: that one recurses without end,
compares lists item by item, runs regular expressions that never end and fetches what a schema
refers to. Here every check is bounded, and nothing is fetched.
"""

from __future__ import annotations

from codebase_mcp.records.schemas.compatibility import Change, changes_between
from codebase_mcp.records.schemas.documents import (
    Schema,
    accept_schema,
    and_more,
    as_details,
    require_size,
    stored_schema,
)
from codebase_mcp.records.schemas.nodes import Problem

__all__ = [
    "Change",
    "Problem",
    "Schema",
    "accept_schema",
    "and_more",
    "as_details",
    "changes_between",
    "require_size",
    "stored_schema",
]
