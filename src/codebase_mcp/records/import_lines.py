"""Stores exported records, each statement in one table, as Citus needs it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries

_SQL = load_queries("codebase_mcp.records", "transfer.sql")

# What belongs to imported records, and lies in other tables: the statements that import it.
_PARTS = {"task": ("import_links", "import_events"), "entity_type": ("import_versions",)}


async def insert_lines(
    tx: Transaction, kind: str, contents: Sequence[Mapping[str, Any]], above: Sequence[str]
) -> set[str]:
    """Store records of one kind that do not exist yet; returns their ids.

    Records without the record that they belong to are left out; ``above`` are the types that the
    parent of a work item may have.
    """
    if f"find_{kind}" in _SQL:
        rows = await tx.fetch_all(_SQL[f"find_{kind}"], lines=json.dumps(contents), above=above)
        found: dict[str, Any] = dict(rows)
        contents = [{**c, "found": found[c["id"]]} for c in contents if c["id"] in found]
    rows = await tx.fetch_all(_SQL[f"import_{kind}"], lines=json.dumps(contents))
    stored = {row[0] for row in rows}
    new = {c["id"]: c for c in reversed(contents) if c["id"] in stored}
    bound = {"lines": json.dumps(list(new.values()))}
    await tx.fetch_many([(_SQL[name], bound) for name in _PARTS.get(kind, ())])
    return stored
