"""What does each signal contribute? The order of the candidates without it. Pure.

Nothing is indexed or searched again: what a signal added to a score is subtracted, and the
candidates are sorted again. This is by file and without the floor, so the figures are a little
above those of the answers; development, unnamed and forms as NDCG@10, everyday and phrased as
MRR@10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quality_dump import Dump, Numbers
from quality_scoring import grouped, mean_of_means

Question = Mapping[str, Any]

COLUMNS: Mapping[str, Callable[[Question], bool]] = {
    "development": lambda q: q["set"] == "development",
    "unnamed": lambda q: q["set"] == "unnamed",
    "forms": lambda q: q["set"] == "forms",
    "everyday tune": lambda q: q["set"] == "everyday" and q["split"] == "tune",
    "everyday check": lambda q: q["set"] == "everyday" and q["split"] == "check",
    "phrased": lambda q: q["set"] == "phrased" and q["form"] == "both",
}


def without(dump: Dump, is_dropped: Callable[[str], bool]) -> Numbers:
    """The scores without some signals."""
    columns = [number for number, name in enumerate(dump.names) if is_dropped(name)]
    scores: Numbers = dump.score - dump.added[:, columns].sum(axis=1)
    return scores


def value_of(dump: Dump, scores: Numbers, wanted: Callable[[Question], bool]) -> float:
    """The figure of an order over some questions: the mean over repositories of each one's mean."""
    chosen = dump.where(wanted)
    values = [(dump.questions[n]["repository"], dump.value(scores, n)) for n in chosen]
    return mean_of_means(grouped(values).values())


def orders(dump: Dump) -> dict[str, Numbers]:
    """The scores of each ablation by its name."""
    return {
        "all signals": dump.score,
        "words only": without(
            dump, lambda name: name in {"meaning", "meaning_unnamed", "standing_out"}
        ),
        "meaning only": dump.facts["best_meaning"],
        **{
            f"without {name}": without(dump, lambda other, name=name: other == name)  # type: ignore[misc]
            for name in dump.names
        },
    }


def ablations(dump: Dump) -> dict[str, dict[str, float]]:
    """For each ablation its figure on each set that was asked."""
    asked = {name: wanted for name, wanted in COLUMNS.items() if dump.where(wanted)}
    return {
        order: {column: value_of(dump, scores, wanted) for column, wanted in asked.items()}
        for order, scores in orders(dump).items()
    }


def table_lines(table: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The ablations as lines, each with its difference to all signals."""
    base = table["all signals"]
    lines = ["by file, no floor".ljust(22) + "".join(f"{column:>16}" for column in base)]
    for name, row in table.items():
        cells = (f"{value:.3f} {value - base[column]:+.3f}" for column, value in row.items())
        lines.append(name.ljust(22) + "".join(f"{cell:>16}" for cell in cells))
    return lines
