"""How do values become HTML? Jinja2 escapes all of them; a missing value is an error."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from codebase_mcp.printable import printable, printable_line

_UNITS = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"), (3_600, "hour"))


@cache
def environment() -> Environment:
    """The templates of this package, with the filters that they use."""
    made = Environment(
        loader=PackageLoader("codebase_mcp.web.pages"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "line": lambda text: printable_line(str(text)),
        "lines": lambda text: printable(str(text)),
        "ago": ago,
        "moment": moment,
        "size": size,
        "count": lambda number: f"{number:,}".replace(",", "\u202f"),
        "clip": clip,
        "tail": tail,
        "href": href,
    }
    made.tests["commit_hash"] = re.compile("[0-9a-f]{40}").fullmatch
    return made


def moment(at: datetime | str | None) -> str:
    """A time in UTC, to the second."""
    time = _time(at)
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def ago(at: datetime | str | None) -> str:
    """How long ago a time is."""
    time = _time(at)
    if time is None:
        return "never"
    seconds = (datetime.now(UTC) - time).total_seconds()
    for length, unit in (*_UNITS, (60, "minute")):
        if seconds >= length:
            number = int(seconds // length)
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def size(count: int) -> str:
    """A number of bytes."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def clip(text: Any, most: int) -> str:
    """The beginning of a text, in a line."""
    line = printable_line(" ".join(str(text).split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def tail(text: str, most: int) -> str:
    """The end of a path."""
    line = printable_line(text)
    return line if len(line) <= most else "…" + line[1 - most :]


def href(url: str) -> Markup:
    """The attribute of a link; nothing where there is no address."""
    return Markup(' href="{}"').format(url) if url else Markup()


def _time(at: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(at) if isinstance(at, str) else at
