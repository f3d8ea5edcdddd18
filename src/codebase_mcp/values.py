"""Can PostgreSQL and JSON hold this value? Asked at every edge where values come in."""

from __future__ import annotations

import math
from typing import Any

from codebase_mcp.errors import InvalidInput

MAX_SHOWN_CHARS = 80


def require_storable(field: str, value: Any) -> None:
    """Refuse text that PostgreSQL cannot hold, and numbers that JSON cannot, at any depth.

    Raises:
        InvalidInput: naming the place.
    """
    places: list[tuple[str, Any]] = [(field, value)]
    while places:
        where, part = places.pop()
        if isinstance(part, dict):
            places += [(f"{where} (a key)", key) for key in part]
            places += [(f"{where}.{key}", inner) for key, inner in part.items()]
        elif isinstance(part, list):
            places += [(f"{where}.{i}", inner) for i, inner in enumerate(part)]
        elif isinstance(part, str) and not _is_storable(part):
            message = f"{where} must be valid Unicode without NUL characters"
            shown = part[:MAX_SHOWN_CHARS].encode(errors="backslashreplace").decode()
            raise InvalidInput.of(where, shown, message, rule="no NUL, no lone surrogates")
        elif isinstance(part, float) and not math.isfinite(part):
            message = f"{where} must be a finite number"
            raise InvalidInput.of(where, str(part), message, rule="a finite number")


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
