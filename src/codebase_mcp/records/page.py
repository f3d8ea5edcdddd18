"""Which part of a long list is asked for, and what comes after it?

Lists are ordered by a time and an id, newest first. ``offset`` counts rows, so rows that are added
meanwhile shift what follows; a cursor names the last row that was seen, so they do not.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from codebase_mcp.errors import InvalidInput

Item = TypeVar("Item")

_LAST_ID = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: the time and the id that the list is ordered by."""

    at: datetime
    id: UUID

    def encoded(self) -> str:
        """As clients see it: opaque."""
        text = f"{self.at.isoformat()} {self.id.hex}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decoded(cls, text: str) -> Cursor:
        """What `encoded` made.

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
    """How many rows, after how many others or after which row."""

    limit: int
    offset: int = 0
    cursor: Cursor | None = None

    @classmethod
    def asked(cls, limit: int, offset: int, cursor: str | None) -> Paging:
        """As a client asks for it.

        Raises:
            InvalidInput: the cursor is invalid.
        """
        return cls(limit, offset, None if cursor is None else Cursor.decoded(cursor))

    def parameters(self) -> dict[str, object]:
        """For a statement that says ``(at, id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)``.

        One row more than the limit is asked for, to see whether the list goes on.
        """
        return {
            "limit": self.limit + 1,
            "offset": self.offset,
            "after_at": self.cursor.at.isoformat() if self.cursor else "infinity",
            "after_id": self.cursor.id if self.cursor else _LAST_ID,
        }

    def page(
        self, found: Sequence[Item], total: int, place: Callable[[Item], Cursor]
    ) -> Page[Item]:
        """A page of what such a statement found; ``place`` says where an item stands."""
        items = list(found[: self.limit])
        goes_on = len(found) > self.limit
        return Page(items, total, place(items[-1]).encoded() if goes_on and items else None)


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some items, how many there are in all, and where the next page begins, if there is one."""

    items: list[Item]
    total: int
    next_cursor: str | None
