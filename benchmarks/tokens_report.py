"""The figures of ``tokens.py`` as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from tokens_scoring import BUDGETS, MISS_TOKENS, Cost, Figures, Lines, figures_of

HEADINGS = {
    "development": "Development part, by file",
    "everyday": "Everyday questions, by file",
    "lines": "Everyday questions, by the lines of the answer",
}


@dataclass(frozen=True, slots=True)
class Record:
    """What a question cost with one tool; by the lines only where its targets have some."""

    tool: str
    set: str
    repository: str
    question: str
    by_file: Cost
    by_lines: Cost | None = None
    lines: Lines | None = None


def page(records: Sequence[Record]) -> list[str]:
    """All tables."""
    written: list[str] = []
    for key, some in tables_of(records).items():
        figures = {tool: figures_of(costs) for tool, costs in some.items()}
        count = next(iter(figures.values())).questions
        written += ["", f"{HEADINGS[key]} (questions: {count})", "", *cost_lines(figures)]
    if shares := line_shares(records):
        written += ["", "Everyday answers that are in the whole reply", "", *share_lines(shares)]
    return written[1:]


def tables_of(records: Sequence[Record]) -> dict[str, dict[str, list[Cost]]]:
    """The costs of each tool for each table that has any."""
    made: dict[str, dict[str, list[Cost]]] = {}
    for one in records:
        made.setdefault(one.set, {}).setdefault(one.tool, []).append(one.by_file)
        if one.by_lines is not None:
            made.setdefault("lines", {}).setdefault(one.tool, []).append(one.by_lines)
    return made


def line_shares(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """For each tool how often the lines were shown, named, or in some range."""
    by_tool: dict[str, list[Lines]] = {}
    for one in records:
        if one.lines is not None:
            by_tool.setdefault(one.tool, []).append(one.lines)
    return {
        tool: {
            "shown": fmean(one.shown for one in some),
            "shown or named": fmean(one.shown or one.named for one in some),
            "shown or in a range": fmean(one.shown or one.in_range for one in some),
        }
        for tool, some in by_tool.items()
    }


def cost_lines(figures: Mapping[str, Figures]) -> list[str]:
    """A table of tokens; beside the share of the questions, in brackets, that of all targets."""
    budgets = [f"within {budget:,}" for budget in BUDGETS]
    head = ["", "expected", "misses", "where found", *budgets, "whole reply"]
    rows = [
        [
            tool,
            f"{one.expected:,.0f}",
            str(one.misses),
            f"{one.found:,.0f}",
            *(f"{one.within[budget]:.3f} ({one.recall[budget]:.3f})" for budget in BUDGETS),
            f"{one.whole:,.0f}",
        ]
        for tool, one in figures.items()
    ]
    return table([head, *rows])


def share_lines(shares: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A table of how often an answer was there."""
    head = ["", *next(iter(shares.values()))]
    return table(
        [head, *([tool, *map("{:.3f}".format, of.values())] for tool, of in shares.items())]
    )


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) + " |"
        for row in rows
    ]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|"
    return [lines[0], rule, *lines[1:]]


def written(records: Sequence[Record]) -> dict[str, Any]:
    """Everything, for ``--json``."""
    return {
        "miss_tokens": MISS_TOKENS,
        "figures": {
            key: {tool: asdict(figures_of(costs)) for tool, costs in some.items()}
            for key, some in tables_of(records).items()
        },
        "answers": line_shares(records),
        "questions": [asdict(one) for one in records],
    }
