"""How probable is it that a task needs a file? A fitted mixture of all evidence.

Gradient-boosted trees over the columns of ``features.py``, each monotone where more evidence can
only raise the probability (Friedman, "Greedy function approximation", 2001; the constraints are
those of scikit-learn's HistGradientBoostingClassifier). The first trees guess without what is
reached from likely files, which they choose; the last ones know that too, and the first guess
(Wolpert, "Stacked generalization", 1992). ``training/context/`` makes the file ``mixture.json``;
``MIXTURE_CARD.md`` describes it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.context.features import COLUMNS, Floats

ALL_COLUMNS = (*COLUMNS, "guess", "guess_share", "guess_rank")

# So many rows fit into a processor's cache with all trees: four times as fast as all at once.
_BLOCK_ROWS = 256

Ints = NDArray[np.int64]
Probabilities = NDArray[np.float64]

_SIGNS = ("title_meaning", "best_commit", "commits", "uses", "names_of_task_known")


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees of the same depth as arrays of shape (trees, nodes).

    A node ``n`` has the children ``2 n + 1`` (its column is at most the threshold) and ``2 n + 2``;
    ``values`` are those of the leaves. The sum of all, plus ``base``, are log odds.
    """

    base: float
    columns: Ints
    thresholds: NDArray[np.float64]
    values: NDArray[np.float64]
    depth: int

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Trees:
        """From a part of a file; it may know fewer columns than `ALL_COLUMNS`.

        Raises:
            ValueError: they were fitted to columns that do not exist.
        """
        if unknown := set(content["columns"]).difference(ALL_COLUMNS):
            raise ValueError(f"The mixture was fitted to other columns: {sorted(unknown)}")
        trees = content["trees"]
        numbers = np.array([ALL_COLUMNS.index(name) for name in content["columns"]], np.int64)
        return cls(
            base=content["base"],
            columns=numbers[np.array([tree["columns"] for tree in trees], np.int64)],
            thresholds=np.array([tree["thresholds"] for tree in trees], np.float64),
            values=np.array([tree["values"] for tree in trees], np.float64),
            depth=content["depth"],
        )

    def probabilities(self, matrix: Floats) -> Probabilities:
        """The probability of each row of a matrix, whose columns are the first `ALL_COLUMNS`."""
        count, nodes_of_tree = self.columns.shape
        first_node = nodes_of_tree * np.arange(count)[:, None]
        first_value = (nodes_of_tree + 1) * np.arange(count)[:, None] - nodes_of_tree
        odds = np.full(len(matrix), self.base)
        for start in range(0, len(matrix), _BLOCK_ROWS):
            rows = np.ascontiguousarray(matrix[start : start + _BLOCK_ROWS])
            first_cell = rows.shape[1] * np.arange(len(rows))
            nodes = np.zeros((count, len(rows)), np.int64)
            for _ in range(self.depth):
                at = first_node + nodes
                numbers = rows.take(first_cell + self.columns.take(at))
                nodes = 2 * nodes + 1 + (numbers > self.thresholds.take(at))
            odds[start : start + len(rows)] += self.values.take(first_value + nodes).sum(axis=0)
        probabilities: Probabilities = 1 / (1 + np.exp(-odds))
        return probabilities


@dataclass(frozen=True, slots=True)
class Mixture:
    """The first and the last trees, the weights of `outside_signs`, and what a probability of the
    last trees comes true as: two rows, between which lines are drawn."""

    first: Trees
    last: Trees
    calibration: NDArray[np.float64]
    outside: NDArray[np.float64]

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Mixture:
        """From the content of a file.

        Raises:
            ValueError: it was fitted to columns that do not exist.
        """
        return cls(
            Trees.from_json(content["first"]),
            Trees.from_json(content["last"]),
            np.array(content["calibration"], np.float64),
            np.array(content["outside"], np.float64),
        )

    def probabilities(self, matrix: Floats, guess: Probabilities) -> Probabilities:
        """The probability of each candidate of a task: rows with the columns of `COLUMNS`.

        ``guess`` is what the first trees say of each, NaN where they were not asked yet.
        """
        is_new = np.isnan(guess)
        guess[is_new] = self.first.probabilities(matrix[is_new])
        said = self.last.probabilities(with_guess(matrix, guess))
        return calibrated(said, self.calibration)

    def outside_probability(self, matrix: Floats, probabilities: Probabilities) -> float:
        """How probable it is that nothing here answers a task, from its candidates."""
        odds = float(self.outside @ outside_signs(matrix, probabilities))
        return 1 / (1 + math.exp(-odds))


def with_guess(matrix: Floats, guess: Probabilities) -> Floats:
    """The columns of a task's candidates, and the columns of a first guess about them."""
    order = np.argsort(-guess, kind="stable")
    ranks = np.empty(len(guess))
    ranks[order] = np.arange(1, len(guess) + 1)
    most = guess.max(initial=0.0) or 1.0
    added = np.stack([guess, guess / most, 1 / ranks], axis=1)
    return np.hstack([matrix, added.astype(np.float32)])


def calibrated(said: Probabilities, calibration: NDArray[np.float64]) -> Probabilities:
    """What probabilities come true as."""
    return np.interp(said, *calibration)


def outside_signs(matrix: Floats, probabilities: Probabilities) -> NDArray[np.float64]:
    """What tells a task to which nothing answers, from the evidence for its candidates.

    A constant, the log odds of the likeliest file and of the mean of the first five, the nearest
    chunk to the title, the commit that resembles it most, the most that resembling commits and used
    names say for a file, and the share of its names that occur.
    """
    if not len(probabilities):
        return np.array([1.0, -8.0, -8.0, *(0.0 for _ in _SIGNS)])
    best = np.sort(probabilities)[::-1][:5]
    column = {name: matrix[:, COLUMNS.index(name)].max() for name in _SIGNS}
    return np.array([1.0, _log_odds(best[0]), _log_odds(best.mean()), *column.values()])


def _log_odds(probability: float) -> float:
    return math.log((probability + 1e-4) / (1 - probability + 1e-4))


@lru_cache(maxsize=1)
def mixture() -> Mixture:
    """The mixture of this version."""
    content = files("codebase_mcp.context").joinpath("mixture.json").read_text("utf-8")
    return Mixture.from_json(json.loads(content))
