"""What was measured on one tree, as Markdown, and which goals it meets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from latency import Latencies

NO_FILTER = "no filter"
COMMON_WORDS = "no filter: only common words"
RIGHT_AFTER = "right after that"
SMALL_DIRECTORY = "a small directory"

# The goals are those of an index with this number of chunks.
GOAL_CHUNKS = 60_000


@dataclass(slots=True)
class Findings:
    """Latencies and shares found by name, and what is to be said beside them."""

    chunks: int
    tree: dict[str, Any] = field(default_factory=dict)
    latencies: dict[str, dict[str, float]] = field(default_factory=dict)
    recalls: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, label: str, latencies: Latencies) -> None:
        """Keep some latencies, and tell those that wait."""
        self.latencies[label] = latencies.facts()
        print(f"  {label}: {self.latencies[label]}", file=sys.stderr, flush=True)

    def add_recall(self, label: str, facts: dict[str, Any]) -> None:
        """The same of what was found."""
        self.recalls[label] = facts
        print(f"  {label}: {facts}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of the findings that should not be above, or not below, a bound."""

    name: str
    bound: float
    is_least: bool
    figure: Callable[[Findings], float | None]

    def is_met(self, value: float) -> bool:
        """Whether a value will do."""
        return value >= self.bound if self.is_least else value <= self.bound


def _latency(label: str, name: str) -> Callable[[Findings], float | None]:
    return lambda findings: findings.latencies.get(label, {}).get(name)


def _share(label: str, name: str) -> Callable[[Findings], float | None]:
    return lambda findings: findings.recalls.get(label, {}).get(name)


GOALS = (
    Goal("p50 alone, ms", 5, False, _latency(NO_FILTER, "p50_ms")),
    Goal("p95 alone, ms", 15, False, _latency(NO_FILTER, "p95_ms")),
    Goal("p95 right after a re-index, ms", 15, False, _latency(RIGHT_AFTER, "p95_ms")),
    Goal("p95 of only common words, ms", 30, False, _latency(COMMON_WORDS, "p95_ms")),
    Goal("recall@10, settled", 0.99, True, _share(NO_FILTER, "nearest")),
    Goal("recall@10, right after a re-index", 0.99, True, _share(RIGHT_AFTER, "nearest")),
    Goal("full limit in a small directory", 1, True, _share(SMALL_DIRECTORY, "filled")),
)


def show(findings: Findings) -> None:
    """Print everything."""
    tree = findings.tree
    print(
        f"\n### {findings.chunks:,} chunks\n\n{tree['chunks']:,} chunks of {tree['files']:,} files,"
        f" {tree['mb']} MB, two repositories; {tree['questions']} questions.\n"
    )
    print(
        "Work is processor time in ms, which other programs on the machine hardly change.\n\n"
        "| ms | p50 | p95 | max | calls/s | work, p50, p95 | mean work of Python, database |\n"
        "|---|---|---|---|---|---|---|"
    )
    for label, facts in findings.latencies.items():
        print(f"| {label} | {_latency_cells(facts)} |")
    print("\n| found of what an exact search finds | 10 nearest | first 10 files | limit filled |")
    print("|---|---|---|---|")
    for label, facts in findings.recalls.items():
        files = f"{facts['files']:.3f}" if "files" in facts else ""
        filled = f"{facts['filled']:.3f} of {facts['full']}" if facts.get("full") else ""
        print(f"| {label} | {facts['nearest']:.3f} | {files} | {filled} |")
    if findings.chunks == GOAL_CHUNKS:
        _show_goals(findings)
    print()
    for note in findings.notes:
        print(f"- {note}")
    sys.stdout.flush()


def _latency_cells(facts: Mapping[str, float]) -> str:
    if not facts["calls"]:
        return "- | - | - | | | "
    times = " | ".join(f"{facts[name]:.1f}" for name in ("p50_ms", "p95_ms", "max_ms"))
    rate = f"{facts['per_s']:,.0f}" if "per_s" in facts else ""
    work = spread = ""
    if "python_work_ms" in facts:
        work = f"{facts['python_work_ms']:.1f}, {facts['database_work_ms']:.1f}"
    if "work_p50_ms" in facts:
        spread = f"{facts['work_p50_ms']:.1f}, {facts['work_p95_ms']:.1f}"
    return f"{times} | {rate} | {spread} | {work}"


def _show_goals(findings: Findings) -> None:
    print("\n| goal | bound | measured | |\n|---|---|---|---|")
    for goal in GOALS:
        value = goal.figure(findings)
        verdict = "not measured" if value is None else "met" if goal.is_met(value) else "MISSED"
        shown = "" if value is None else f"{value:.3f}" if goal.is_least else f"{value:.1f}"
        sign = "at least" if goal.is_least else "at most"
        print(f"| {goal.name} | {sign} {goal.bound:g} | {shown} | {verdict} |")
