"""Validates user-defined JSON Schemas and the values described by them, and compares versions.

The schemas are untrusted: the number of steps of every check is limited, and external references
are not fetched.
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
