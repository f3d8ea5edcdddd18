"""Finds a record by a prefix of its id: people type eight digits instead of thirty-two."""

from __future__ import annotations

import re
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import InvalidInput, NotFound

_SQL = load_queries("codebase_mcp.records", "ids.sql")

Shown = Literal["task", "observation", "work_item"]

MIN_DIGITS = 4


async def whole_id(tx: Transaction, kind: Shown, beginning: str) -> UUID:
    """The id with this prefix.

    Raises:
        InvalidInput: it is not a prefix of an id, or of several ids.
        NotFound: it is not the prefix of an existing id.
    """
    digits = beginning.replace("-", "").lower()
    label = kind.replace("_", " ")
    if not re.fullmatch(rf"[0-9a-f]{{{MIN_DIGITS},32}}", digits):
        message = f"{beginning[:60]!r} is not an id of a {label} or a prefix of one"
        raise InvalidInput.of("id", beginning[:60], message, rule=f"{MIN_DIGITS} or more digits")
    rows = await tx.fetch_all(
        _SQL[f"{kind}_ids"], first=digits.ljust(32, "0"), last=digits.ljust(32, "f")
    )
    if not rows:
        raise NotFound(f"{label.capitalize()} not found", details={"id": beginning})
    if len(rows) > 1:
        message = f"The ids of {len(rows)} or more {label}s begin with {beginning}"
        raise InvalidInput.of("id", beginning, message, rule="one record", hint="Give more digits.")
    identity: UUID = rows[0][0]
    return identity
