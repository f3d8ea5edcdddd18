"""Which page of a long list does a client request, and which page is next? Which id is meant?

Lists are ordered by a time and an id, newest first. New rows shift the pages of an ``offset``. They
do not shift the pages of a cursor, which names the last row of the previous page. `whole_id` finds
an id by its prefix: people type eight digits instead of thirty-two.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, Literal, TypeVar
from uuid import UUID

from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from codebase_mcp.database.connection import Transaction

Item = TypeVar("Item")

_LAST_ID = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: the time and the id that the list is ordered by."""

    at: datetime
    id: UUID

    def encoded(self) -> str:
        """The opaque text for clients."""
        text = f"{self.at.isoformat()} {self.id.hex}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decoded(cls, text: str) -> Cursor:
        """The cursor of a text that `encoded` returned.

        Raises:
            InvalidInput: the cursor is invalid.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            at, _, identity = base64.urlsafe_b64decode(padded.encode()).decode().partition(" ")
            cursor = cls(datetime.fromisoformat(at), UUID(hex=identity))
            if cursor.at.tzinfo is None:
                raise ValueError("without a zone")
        except (ValueError, binascii.Error):
            raise InvalidInput.of(
                "cursor",
                text[:100],
                "Cursor is not one that this tool returned",
                rule="next_cursor of an earlier reply",
                hint="Leave it out to start at the first page.",
            ) from None
        return cursor


@dataclass(frozen=True, slots=True)
class Paging:
    """A request for a page: ``limit`` rows after ``offset`` rows, or after the row of a cursor."""

    limit: int
    offset: int = 0
    cursor: Cursor | None = None

    @classmethod
    def asked(cls, limit: int, offset: int, cursor: str | None) -> Paging:
        """The request of a client.

        Raises:
            InvalidInput: the cursor is invalid.
        """
        return cls(limit, offset, None if cursor is None else Cursor.decoded(cursor))

    def parameters(self) -> dict[str, object]:
        """For a statement with ``(at, id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)``.

        The limit is one more than requested, to see whether there is a next page.
        """
        return {
            "limit": self.limit + 1,
            "offset": self.offset,
            "after_at": self.cursor.at.isoformat() if self.cursor else "infinity",
            "after_id": self.cursor.id if self.cursor else _LAST_ID,
        }

    def page(
        self, rows: Sequence[Item], total: int, cursor_of: Callable[[Item], Cursor]
    ) -> Page[Item]:
        """The page from the result of such a statement."""
        items = list(rows[: self.limit])
        has_next = len(rows) > self.limit and items
        return Page(items, total, cursor_of(items[-1]).encoded() if has_next else None)


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """The items of a page, the length of the list, and the cursor of the next page, if any."""

    items: list[Item]
    total: int
    next_cursor: str | None


_IDS = load_queries("codebase_mcp.records", "ids.sql")

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
        _IDS[f"{kind}_ids"], first=digits.ljust(32, "0"), last=digits.ljust(32, "f")
    )
    if not rows:
        raise NotFound(f"{label.capitalize()} not found", details={"id": beginning})
    if len(rows) > 1:
        message = f"The ids of {len(rows)} or more {label}s begin with {beginning}"
        raise InvalidInput.of("id", beginning, message, rule="one record", hint="Give more digits.")
    identity: UUID = rows[0][0]
    return identity
