"""Can PostgreSQL and JSON hold this value? Asked at every edge where values come in."""

from __future__ import annotations

import math
from typing import Any

from codebase_mcp.errors import InvalidInput

MAX_SHOWN_CHARS = 80

# A step below another place; None is a key itself. Written out only where something is wrong: keys
# may be a megabyte long, and hold a million parts.
_Place = tuple["_Place | None", "str | int | None"]


def require_storable(field: str, value: Any) -> None:
    """Refuse text that PostgreSQL cannot hold, and numbers that JSON cannot, at any depth.

    Raises:
        InvalidInput: naming the place.
    """
    places: list[tuple[_Place, Any]] = [((None, field), value)]
    while places:
        place, part = places.pop()
        if isinstance(part, dict):
            places += [((place, None), key) for key in part]
            places += [((place, key), inner) for key, inner in part.items()]
        elif isinstance(part, list):
            places += [((place, i), inner) for i, inner in enumerate(part)]
        elif isinstance(part, str) and not _is_storable(part):
            where = _path(place)
            message = f"{where} must be valid Unicode without NUL characters"
            raise InvalidInput.of(where, _cut(part), message, rule="no NUL, no lone surrogates")
        elif isinstance(part, float) and not math.isfinite(part):
            where = _path(place)
            message = f"{where} must be a finite number"
            raise InvalidInput.of(where, str(part), message, rule="a finite number")


def _path(place: _Place | None) -> str:
    steps: list[str] = []
    suffix = ""
    while place is not None:
        place, step = place
        if step is None:
            suffix = " (a key)"
        else:
            steps.append(_cut(str(step)))
    return ".".join(reversed(steps)) + suffix


def _cut(text: str) -> str:
    return text[:MAX_SHOWN_CHARS].encode(errors="backslashreplace").decode()


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
