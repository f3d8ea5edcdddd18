"""Fit the weights of the ranking's signals on annotated questions, easy and hard ones together.

    python benchmarks/quality.py --eval DIR --repos-dir DIR --everyday-dir DIR --dump DUMP.npz
    python benchmarks/fit_ranking.py DUMP.npz

Starts from the weights in ``search/signals.py`` and changes one after the other as long as the mean
of the sets' figures rises: NDCG (everyday questions: the reciprocal rank), with smooth ranks, so
that a file which nearly overtakes another counts too (Qin, Liu and Li, "A general approximation
framework for direct optimization of information retrieval measures", 2010). The fit is
cross-validated over repositories, to show the gain on unseen ones. The parts named "check" are
never used for fitting.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.search.signals import WEIGHTS
from quality_dump import Dump, Numbers, read_dump
from quality_scoring import DEPTH

Flags = NDArray[np.bool_]

# The weight of each set's figure; "check" has none.
SET_WEIGHTS: Mapping[str, float] = {
    "development": 1.0, "unnamed": 0.5, "forms": 0.5, "everyday": 0.5
}  # fmt: skip
FOLDS = 5

# With this difference of scores a file counts as half a rank ahead.
SMOOTH = 0.3

# How many of a question's targets count.
TARGETS = 4

# The factors that are tried for each weight.
_FACTORS = (0.0, 0.6, 0.8, 0.9, 1.1, 1.25, 1.6)
_LEAST_GAIN = 5e-5
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Task:
    """Questions with their candidates, padded: question, candidate, signal.

    ``padding`` is 0 for candidates, and far below all scores for what only fills up the array.
    ``met`` says which candidate meets which target (question, target, candidate).
    """

    signals: NDArray[np.float32]
    padding: NDArray[np.float32]
    met: Flags
    wanted: Numbers
    best_only: Flags
    set: NDArray[np.str_]
    split: NDArray[np.str_]
    repository: NDArray[np.str_]

    def __getitem__(self, chosen: Flags) -> Task:
        """Some of the questions."""
        return Task(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def values(self, weights: Numbers, smooth: float = 0.0) -> Numbers:
        """The figure of the order by these weights, for each question."""
        scores = self.signals @ weights.astype(np.float32) + self.padding
        gains = np.zeros(self.met.shape[:2])
        for target in range(self.met.shape[1]):
            met = self.met[:, target]
            own = np.where(met, scores, -1e9).max(axis=1)
            if smooth:
                ahead = 1 / (1 + np.exp(np.clip((own[:, None] - scores) / smooth, -30, 30)))
                rank = 0.5 + ahead.sum(axis=1)
            else:
                rank = 1.0 + (scores > own[:, None] + 1e-6).sum(axis=1)
            near = met.any(axis=1) & (rank <= DEPTH + (20 * bool(smooth)))
            found = np.where(self.best_only, 1 / rank, 1 / np.log2(rank + 1))
            gains[:, target] = np.where(near, found, 0.0)
        ideal = (1 / np.log2(np.arange(2, TARGETS + 2))).cumsum()[self.wanted.astype(int) - 1]
        result: Numbers = np.where(self.best_only, gains.max(axis=1), gains.sum(axis=1) / ideal)
        return result

    def figures(self, values: Numbers) -> dict[str, float]:
        """The mean over repositories, for each set and split."""
        found = {}
        for name in sorted(set(self.set)):
            for split in sorted(set(self.split[self.set == name])):
                here = (self.set == name) & (self.split == split)
                repositories = self.repository[here]
                means = [values[here][repositories == r].mean() for r in set(repositories)]
                found[f"{name} {split}".strip()] = float(np.mean(means))
        return found

    def objective(self, weights: Numbers) -> float:
        """The figure to maximise."""
        figures = self.figures(self.values(weights, SMOOTH))
        return sum(
            SET_WEIGHTS.get(name.split(" ", maxsplit=1)[0], 0.0) * value
            for name, value in figures.items()
            if not name.endswith("check")
        )


def task_of(dump: Dump) -> Task:
    """The questions of a dump that have targets."""
    numbers = dump.where(lambda question: question["wanted"] > 0)
    most = int(np.diff(dump.starts)[numbers].max())
    signals = np.zeros((len(numbers), most, len(WEIGHTS)), np.float32)
    padding = np.full((len(numbers), most), -1e6, np.float32)
    met = np.zeros((len(numbers), TARGETS, most), bool)
    columns = np.column_stack([dump.column(name) for name in WEIGHTS])
    for row, number in enumerate(numbers):
        at = slice(int(dump.starts[number]), int(dump.starts[number + 1]))
        count = at.stop - at.start
        signals[row, :count] = columns[at]
        padding[row, :count] = 0.0
        met[row, :, :count] = dump.targets[at] >> np.arange(TARGETS)[:, None] & 1
    questions = [dump.questions[number] for number in numbers]
    return Task(
        signals,
        padding,
        met,
        np.array([min(q["wanted"], TARGETS) for q in questions], dtype=np.float64),
        np.array([q["set"] in ("everyday", "phrased") for q in questions]),
        np.array([q["set"] for q in questions]),
        np.array([str(q["split"] or "") for q in questions]),
        np.array([q["repository"] for q in questions]),
    )


def climb(task: Task, start: Numbers) -> Numbers:
    """Change one weight after the other as long as the figure rises."""
    weights, best = start.copy(), task.objective(start)
    for _ in range(_ROUNDS):
        before = best
        for signal in range(len(weights)):
            for factor in _FACTORS:
                tried = weights.copy()
                tried[signal] = weights[signal] * factor
                objective = task.objective(tried)
                if objective > best + _LEAST_GAIN:
                    best, weights = objective, tried
        if best - before < 10 * _LEAST_GAIN:
            break
    return weights


def main() -> None:
    """Read, fit, evaluate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dump", type=Path)
    task = task_of(read_dump(parser.parse_args().dump))
    start = np.array(list(WEIGHTS.values()))
    names = np.random.default_rng(0).permutation(sorted(set(task.repository)))
    values, evaluated = np.zeros(len(task.set)), np.zeros(len(task.set), bool)
    for fold in range(FOLDS):
        held_out = np.isin(task.repository, names[fold::FOLDS])
        weights = climb(task[~held_out], start)
        values[held_out] = task[held_out].values(weights)
        evaluated |= held_out
    fitted = climb(task, start)
    columns = {
        "as they are": task.values(start),
        "fitted, cross-validated": values,
        "fitted on all": task.values(fitted),
    }
    figures = {label: task.figures(of) for label, of in columns.items()}
    print(f"{'':20}" + "".join(f"{label:>26}" for label in columns))
    for name in figures["as they are"]:
        print(f"{name:20}" + "".join(f"{figures[label][name]:26.4f}" for label in columns))
    print("\nfitted on all, scaled to a weight of 4.2 for the body:")
    scale = 4.2 / fitted[list(WEIGHTS).index("body")]
    for name, weight, before in zip(WEIGHTS, fitted, start, strict=True):
        print(f"    {name}: {weight * scale:.2f} (was {before})")


if __name__ == "__main__":
    main()
