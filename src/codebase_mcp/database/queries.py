"""Where is the SQL of a module? In the ``.sql`` file next to it, each statement under its name.

A statement is headed by ``-- name: get_task`` and a comment on its purpose, and takes named
parameters (``%(task_id)s``). Statements are constants of the package, so they count as literal
strings for the type checker: user input cannot become part of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import LiteralString

_HEADING = re.compile(r"^-- name: *(\w+) *$", re.MULTILINE)


@cache
def load_queries(package: str, name: str) -> Mapping[str, LiteralString]:
    """Read the named statements of one file, ``load_queries("codebase_mcp.search", "search.sql")``.

    Raises:
        ValueError: the file has text before its first name, the same name twice, or an empty
            statement.
    """
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    preamble, *parts = _HEADING.split(text)
    if strip_comments(preamble):
        raise ValueError(f"{name}: a statement before the first name")
    queries: dict[str, LiteralString] = {}
    for query_name, body in zip(parts[::2], parts[1::2], strict=True):
        statement = strip_comments(body).rstrip(";")
        if not statement or query_name in queries:
            raise ValueError(f"{name}: {query_name} is empty or there twice")
        queries[query_name] = statement
    return MappingProxyType(queries)


def strip_comments(text: str) -> str:
    """The text without its comment lines, which the server need not parse."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip()
