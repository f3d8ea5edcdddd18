"""Which keys do the lines of a configuration without a grammar have? INI, properties and .env."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from codebase_mcp.model import Symbol

LANGUAGES = frozenset({"ini", "properties"})

_LINE = re.compile(
    r"\[(?P<section>[^\]\n]{1,100})\]|(?:export[ \t]+)?(?P<key>[A-Za-z_][\w.-]{0,99})[ \t]*[=:]"
)


def find_entries(lines: Iterable[str]) -> Iterator[Symbol]:
    """The keys, each with its section."""
    section = ""
    for number, line in enumerate(lines, 1):
        match = _LINE.match(line)
        if match is None:
            continue
        if match["section"]:
            section = match["section"].strip()
        else:
            qualified = f"{section}.{match['key']}" if section else match["key"]
            name = qualified.rpartition(".")[2]
            yield Symbol(name, qualified, "entry", number, number, int(bool(section)))
