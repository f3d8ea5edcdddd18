"""Groups and selects values, and checks that PostgreSQL and JSON can hold those that come in."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from codebase_mcp.errors import InvalidInput

MAX_SHOWN_CHARS = 80

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> defaultdict[Key, list[Value]]:
    """The values of each key, in their order; an unknown key has none."""
    groups: defaultdict[Key, list[Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether one of the names fits the patterns, in any case: ``*``, ``?``, ``[…]``.

    Patterns with ``!`` exclude; without any other pattern all names fit.
    """
    lowered = [name.casefold() for name in names]

    def fits(pattern: str) -> bool:
        return any(fnmatchcase(name, pattern.casefold()) for name in lowered)

    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    excluded = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    return (not wanted or any(map(fits, wanted))) and not any(map(fits, excluded))


def require_storable(field: str, value: Any) -> None:
    """Refuse text that PostgreSQL cannot hold, and numbers that JSON cannot, at any depth.

    Raises:
        InvalidInput: with the path of the value.
    """
    # Paths are written out only in an error: keys may be a megabyte long.
    pending: list[tuple[tuple[str | int, ...], Any]] = [((field,), value)]
    while pending:
        path, part = pending.pop()
        if isinstance(part, dict):
            for key in part:
                if not _is_storable(key):
                    raise _not_storable(f"{_shown(path)} (a key)", key)
            pending += [((*path, key), inner) for key, inner in part.items()]
        elif isinstance(part, list):
            pending += [((*path, i), inner) for i, inner in enumerate(part)]
        elif isinstance(part, str) and not _is_storable(part):
            raise _not_storable(_shown(path), part)
        elif isinstance(part, float) and not math.isfinite(part):
            message = f"{_shown(path)} must be a finite number"
            raise InvalidInput.of(_shown(path), str(part), message, rule="a finite number")


def _not_storable(path: str, text: str) -> InvalidInput:
    message = f"{path} must be valid Unicode without NUL characters"
    return InvalidInput.of(path, _cut(text), message, rule="no NUL, no lone surrogates")


def _shown(path: tuple[str | int, ...]) -> str:
    return ".".join(_cut(str(step)) for step in path)


def _cut(text: str) -> str:
    return text[:MAX_SHOWN_CHARS].encode(errors="backslashreplace").decode()


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
