"""The table of signals in ``docs/search-quality.md`` matches the code.

``python -m tests.unit.search.test_signals_reference`` from the root updates it.
"""

from __future__ import annotations

import re
from pathlib import Path

from codebase_mcp.search.signals import SIGNALS

PAGE = Path(__file__).parents[3] / "docs" / "search-quality.md"
TABLE = re.compile(r"(?<=<!-- signals -->\n).*?(?=<!-- end of signals -->)", re.DOTALL)


def table() -> str:
    """The signals with their weights and what they measure, in the order of the code."""
    rows = [f"| `{one.name}` | {one.weight:+g} | {one.measures} |" for one in SIGNALS]
    return "\n".join(["| signal | weight | what it measures |", "|---|---|---|", *rows, ""])


def test_the_documented_signals_are_those_of_the_code() -> None:
    assert TABLE.findall(PAGE.read_text(encoding="utf-8")) == [table()]


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), "utf-8")
