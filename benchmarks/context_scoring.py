"""The figures of rankings: reciprocal rank, recall, intervals of differences, calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from context_systems import SYSTEMS, Row

CUTS = (5, 10, 20)
RESAMPLES, SEED = 10_000, 1
BINS = 10
SURE = 0.8
FALSE_ALARMS = 0.05

Metric = Callable[[Row, str], float]


def reciprocal_rank(row: Row, system: str) -> float:
    """One by the rank of the first right file, 0 without any."""
    ranks = (rank for rank, path in enumerate(row.ranked[system], 1) if path in row.sample.gold)
    return 1 / next(ranks, float("inf"))


def recall(cut: int) -> Metric:
    """The metric: the share of the right files that are among the first ones."""

    def share(row: Row, system: str) -> float:
        right = set(row.ranked[system][:cut]).intersection(row.sample.gold)
        return len(right) / len(row.sample.gold)

    return share


METRICS: tuple[Metric, ...] = (reciprocal_rank, *map(recall, CUTS))


def interval(values: Sequence[float], groups: Sequence[str]) -> tuple[float, float]:
    """Within which 95 % of the averages lie when repositories are drawn with replacement."""
    names = sorted(set(groups))
    number = {name: at for at, name in enumerate(names)}
    at = np.array([number[group] for group in groups])
    sums = np.bincount(at, weights=np.array(values), minlength=len(names))
    counts = np.bincount(at, minlength=len(names))
    drawn = np.random.default_rng(SEED).integers(len(names), size=(RESAMPLES, len(names)))
    low, high = np.percentile(sums[drawn].sum(1) / counts[drawn].sum(1), [2.5, 97.5])
    return float(low), float(high)


def ahead(rows: Sequence[Row], metric: Metric, system: str, other: str) -> str:
    """By how much a system is better than another on the tasks of both, with the interval."""
    both = [row for row in rows if {system, other} <= row.ranked.keys()]
    if not both or system == other:
        return ""
    gains = [metric(row, system) - metric(row, other) for row in both]
    low, high = interval(gains, [row.sample.repo for row in both])
    return f"{np.mean(gains):+.3f} ({low:+.3f} to {high:+.3f})"


def table(rows: Sequence[Row], system: str = "context") -> Iterator[str]:
    """A line of each system for each task; the differences are those of ``system`` to it."""
    heads = ["task", "system", "tasks", "MRR", *(f"recall@{cut}" for cut in CUTS)]
    compared = any(system in row.ranked for row in rows)
    if compared:
        heads += [f"{system} ahead in MRR", "in recall@20"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    tasks = sorted({row.sample.task for row in rows})
    for task in [*tasks, "all"]:
        for name in SYSTEMS:
            asked = [row for row in rows if task in ("all", row.sample.task) and name in row.ranked]
            if asked:
                cells = [task, name, str(len(asked))]
                cells += [f"{np.mean([m(row, name) for row in asked]):.3f}" for m in METRICS]
                if compared:
                    cells += [ahead(asked, m, system, name) for m in (METRICS[0], METRICS[-1])]
                yield f"| {' | '.join(cells)} |"


def facts(rows: Sequence[Row]) -> Iterator[str]:
    """What else was measured of find_context, a line each."""
    if times := [row.seconds["context"] * 1000 for row in rows if "context" in row.seconds]:
        yield "context, ms: p50 {:.0f}, p95 {:.0f}".format(*np.percentile(times, [50, 95]))
    answered = [(row, row.context) for row in rows if row.context is not None]
    for tokens in sorted({size for _, answer in answered for size in answer.replies}, key=int):
        named = [answer.replies[tokens] for _, answer in answered if tokens in answer.replies]
        yield f"right files named in a reply of {tokens} tokens: {np.mean(named):.3f}"
    first = [
        (row.ranked["context"][0], row.sample)
        for row, answer in answered
        if row.ranked["context"] and answer.probabilities[0] >= SURE
    ]
    if first:
        right = [path in sample.gold for path, sample in first]
        changed = [path in sample.gold + sample.also for path, sample in first]
        yield (
            f"first files with a probability of {SURE} or more: {len(first)},"
            f" right: {np.mean(right):.1%}, changed by the commit: {np.mean(changed):.1%}"
        )
    yield from _outside(rows)
    if answered:
        yield from _calibration(rows)


def _calibration(rows: Sequence[Row]) -> Iterator[str]:
    """How many of the files of each bin of probabilities are right; ``also`` does not count."""
    shown: list[tuple[float, bool]] = []
    for row in rows:
        if row.context is not None:
            listed = zip(row.ranked["context"], row.context.probabilities, strict=False)
            shown += [
                (probability, path in row.sample.gold)
                for path, probability in listed
                if path not in row.sample.also
            ]
    yield "| probability | files | mean | right |"
    yield "|---|---|---|---|"
    pairs: NDArray[np.float64] = np.array(shown, dtype=float).reshape(-1, 2)
    bins = np.minimum((pairs[:, 0] * BINS).astype(int), BINS - 1)
    for number in range(BINS):
        if len(chosen := pairs[bins == number]):
            mean, right = chosen.mean(axis=0)
            lower, upper = number / BINS, (number + 1) / BINS
            yield f"| {lower:.1f} to {upper:.1f} | {len(chosen)} | {mean:.3f} | {right:.3f} |"


def _outside(rows: Sequence[Row]) -> Iterator[str]:
    """How many tasks of other repositories are noticed; these stand in for tasks whose cause lies
    elsewhere, and are easier."""
    facts = [row.context for row in rows if row.context is not None]
    foreign = [one.foreign_outside for one in facts if one.foreign_outside is not None]
    if foreign:
        own = np.array([one.outside for one in facts])
        threshold = np.quantile(own, 1 - FALSE_ALARMS, method="higher")
        noticed = float(np.mean(np.array(foreign) > threshold))
        alarms = float(np.mean(own > threshold))
        yield (
            f"tasks of another repository noticed: {noticed:.1%} at {alarms:.1%} false alarms"
            " (a stand-in for tasks whose cause lies elsewhere)"
        )
