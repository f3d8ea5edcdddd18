"""Where is the SQL of a module? In the ``.sql`` file next to it, each statement under its name.

A statement is headed by ``-- name: get_task`` and a comment on its purpose, and takes named
parameters (``%(task_id)s``). Parts that several statements share precede them under
``-- fragment: is_open``, and replace ``{is_open}`` in a statement. Where a fragment has a variant,
``-- fragment: is_open/late``, a statement ``tasks`` with it has one too, ``tasks_late``. Statements
are constants of the package, so they count as literal strings for the type checker: no text of a
user can become part of a statement. `write_numbers` writes a number in place of ``{name}`` where
PostgreSQL accepts no parameter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import LiteralString

_HEADING = re.compile(r"^-- (name|fragment): *(\w+(?:/\w+)?) *$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@cache
def load_queries(package: str, name: str) -> Mapping[str, LiteralString]:
    """Read the named statements of a file, ``load_queries("codebase_mcp.search", "search.sql")``.

    Raises:
        ValueError: the file has text before its first name, a name twice, or an empty statement.
    """
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    preamble, *parts = _HEADING.split(text)
    if strip_comments(preamble):
        raise ValueError(f"{name}: a statement before the first name")
    fragments: dict[str, dict[str, LiteralString]] = {}
    queries: dict[str, LiteralString] = {}
    for kind, heading, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        own, _, variant = heading.partition("/")
        statement = strip_comments(body).rstrip(";")
        if not statement or variant in fragments.get(own, {}) or heading in queries:
            raise ValueError(f"{name}: {heading} is empty or there twice")
        forms: dict[str, LiteralString] = {"": statement}
        for fragment, variants in fragments.items():
            place = f"{{{fragment}}}"
            if place in forms[""] and len(variants) > 1:
                forms = dict.fromkeys(variants, forms[""])
            forms = {
                form: text.replace(place, variants.get(form, variants[""]))
                for form, text in forms.items()
            }
        if kind == "fragment":
            fragments.setdefault(own, {})[variant] = forms[""]
        else:
            queries |= {f"{own}_{form}" if form else own: text for form, text in forms.items()}
    return MappingProxyType(queries)


def write_numbers(statement: LiteralString, **numbers: int) -> LiteralString:
    """A statement with these numbers written in place of their ``{names}``.

    Raises:
        ValueError: the names in the statement differ from these.
    """
    names = set(_PLACEHOLDER.findall(statement))
    if names != numbers.keys():
        raise ValueError(f"the statement takes {sorted(names)}, not {sorted(numbers)}")
    return _PLACEHOLDER.sub(lambda match: str(int(numbers[match[1]])), statement)


def strip_comments(text: str) -> str:
    """The text without its comment lines, which the server need not parse."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines).strip()
