"""Which part of a long list does a page show? What fits the filter of the address, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.requests import Request

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Listed(Generic[Item]):
    """A page of a list: ``fitting`` of ``total`` items fit the filter; ``page`` begins at 1."""

    items: Sequence[Item]
    fitting: int
    total: int
    page: int
    pages: int


def listed(
    request: Request, items: Sequence[Item], texts: Callable[[Item], Iterable[str]], size: int
) -> Listed[Item]:
    """The page of the address (``page``), of the items that hold its text (``match``) anywhere."""
    text = request.query_params.get("match", "").strip().casefold()
    fitting = [item for item in items if any(text in part.casefold() for part in texts(item))]
    pages = max(-(-len(fitting) // size), 1)
    asked = request.query_params.get("page", "")
    page = min(max(int(asked), 1), pages) if asked.isdecimal() and len(asked) < 10 else 1
    start = (page - 1) * size
    return Listed(fitting[start : start + size], len(fitting), len(items), page, pages)
