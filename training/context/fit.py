"""Fits the mixture of evidence to tasks from histories.

    pip install scikit-learn
    python training/context/fit.py --evidence build/context/evidence \
        --out src/codebase_mcp/context/mixture.json

Whether the commit of a task changed a file is explained by gradient-boosted trees over the file's
evidence, with a column for each kind. More evidence may only raise the probability. Every file that
a commit changed counts, whatever the task asks for: files to change and tests are told apart by
their kinds. The first trees guess without the files that are reached from likely ones; the last
ones have all evidence and the guess of first trees that have not seen the repository. Measured by
cross-validation: each repository by trees that have not seen it.

``--guess OUT`` writes first trees by fold instead, for ``collect.py``.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from collect import FOLDS, FOREIGN, fold_of
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from codebase_mcp.context.features import COLUMNS
from codebase_mcp.context.mixture import ALL_COLUMNS, Mixture, calibrated, outside_signs, with_guess

DEPTH = 5
TREES = 120
LEARNING_RATE = 0.06
LEAST_LEAF = 200
WRONG_SHARE = 0.4
FALSE_ALARMS = 0.02
REAL = ("report2code", "issue2code", "subject2code", "named2code", "code2test", "edit2ripple")
BINS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
FIRST_COLUMNS = [name for name in COLUMNS if not name.endswith("_likely")]

# Facts about a file or a task, of which more is no evidence.
FACTS = ("is_", "has_", "main_language", "language_of_", "words_of_task", "names_of_task_known")


@dataclass(frozen=True)
class Data:
    """The candidates of all tasks: evidence, answers, tasks (numbered from 0), repositories."""

    evidence: NDArray[np.float32]
    changed: NDArray[np.bool_]
    gold: NDArray[np.bool_]
    task: NDArray[np.int32]
    missed: NDArray[np.int64]
    names: NDArray[np.str_]
    repository: NDArray[np.int32]  # by task
    fold: NDArray[np.int32]  # by task


def load(folder: Path) -> Data:
    """The evidence of all repositories in a folder."""
    parts = defaultdict[str, list[Any]](list)
    tasks = 0
    for number, path in enumerate(sorted(folder.glob("*.npz"))):
        with np.load(path) as content:
            for name in ("evidence", "changed", "gold", "missed", "names"):
                parts[name].append(content[name])
            parts["task"].append(content["task"] + tasks)
            count = len(content["names"])
            parts["repository"].append(np.full(count, number, np.int32))
            fold = fold_of(path.stem.replace("+", "/"))
            parts["fold"].append(np.full(count, fold, np.int32))
            tasks += count
    return Data(**{name: np.concatenate(arrays) for name, arrays in parts.items()})


def fitted(
    evidence: NDArray[np.float32], changed: NDArray[np.bool_], columns: Sequence[str]
) -> Any:
    """The trees for some candidates; of the many that are wrong a share counts for all."""
    chosen = changed | (np.random.default_rng(0).random(len(changed)) < WRONG_SHARE)
    evidence, changed = evidence[chosen], changed[chosen]
    model = HistGradientBoostingClassifier(
        max_iter=TREES,
        max_depth=DEPTH,
        max_leaf_nodes=2**DEPTH,
        learning_rate=LEARNING_RATE,
        min_samples_leaf=LEAST_LEAF,
        l2_regularization=5.0,
        monotonic_cst=[0 if name.startswith(FACTS) else 1 for name in columns],
        early_stopping=False,
        random_state=0,
    )
    return model.fit(evidence, changed, sample_weight=np.where(changed, 1.0, 1 / WRONG_SHARE))


def is_own(data: Data) -> NDArray[np.bool_]:
    """Whether the task of each candidate is one of its repository."""
    return data.names[data.task] != FOREIGN


def cross_validated(
    data: Data, evidence: NDArray[np.float32], columns: Sequence[str]
) -> tuple[NDArray[np.float64], list[Any]]:
    """The probability of each candidate, by trees that have not seen its repository; the trees."""
    of_row, own = data.fold[data.task], is_own(data)
    probabilities, models = np.zeros(len(of_row)), []
    for fold in range(FOLDS):
        held_out = of_row == fold
        seen = own & ~held_out
        models.append(fitted(evidence[seen], data.changed[seen], columns))
        probabilities[held_out] = models[-1].predict_proba(evidence[held_out])[:, 1]
    return probabilities, models


def by_task(data: Data) -> list[NDArray[np.intp]]:
    """The candidates of each task."""
    order = np.argsort(data.task, kind="stable")
    bounds = np.searchsorted(data.task[order], np.arange(len(data.names) + 1))
    return [order[first:last] for first, last in pairwise(bounds)]


def with_guesses(data: Data, guess: NDArray[np.float64]) -> NDArray[np.float32]:
    """The evidence with the columns of a first guess, task by task."""
    evidence = np.zeros((len(guess), len(ALL_COLUMNS)), np.float32)
    for rows in by_task(data):
        evidence[rows] = with_guess(data.evidence[rows], guess[rows])
    return evidence


def calibration(data: Data, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the probabilities of unseen repositories come true as, at the mean of each bin.

    Made-up tasks do not count.
    """
    counted = np.isin(data.names, REAL)[data.task]
    said, true = probabilities[counted], data.changed[counted]
    bins = np.digitize(said, BINS)
    points = [(said[bins == b].mean(), true[bins == b].mean()) for b in np.unique(bins)]
    x, y = np.array([(0.0, 0.0), *points, (1.0, 1.0)]).T
    return np.stack([x, np.maximum.accumulate(y) + 1e-4 * x])  # what is likelier stays likelier


def as_json(model: Any, columns: Sequence[str]) -> dict[str, Any]:
    """The trees in the form of ``context/mixture.py``: complete binary trees of one depth."""
    trees = [complete(predictor.nodes) for [predictor] in model._predictors]
    base = float(model._baseline_prediction[0, 0])
    return {"columns": list(columns), "depth": DEPTH, "base": base, "trees": trees}


def complete(nodes: NDArray[Any]) -> dict[str, list[Any]]:
    """A tree as a complete one; below a leaf that lies higher all leaves have its value."""
    columns, thresholds, leaves = [0] * (2**DEPTH - 1), [0.0] * (2**DEPTH - 1), [0.0] * 2**DEPTH
    left = [(0, 0)]
    while left:
        node, position = left.pop()
        row = nodes[node]
        if position >= len(columns):
            leaves[position - len(columns)] = round(float(row["value"]), 5)
        elif row["is_leaf"]:
            left += [(node, 2 * position + 1), (node, 2 * position + 2)]
        else:
            columns[position] = int(row["feature_idx"])
            # Numbers are compared as they are stored, with 32 bits.
            thresholds[position] = float(np.float32(row["num_threshold"]))
            left += [(int(row["left"]), 2 * position + 1), (int(row["right"]), 2 * position + 2)]
    return {"columns": columns, "thresholds": thresholds, "values": leaves}


def per_task(
    data: Data, probabilities: NDArray[np.float64]
) -> Iterator[tuple[str, int, float, float, float, bool]]:
    """Task, repository, reciprocal rank, recall@20, first probability and whether it is right."""
    kinds = {name: COLUMNS.index(name) for name in ("is_test", "is_code", "is_config", "is_other")}
    for task, (name, rows) in enumerate(zip(data.names, by_task(data), strict=True)):
        is_test = data.evidence[rows, kinds["is_test"]] > 0
        is_source = sum(data.evidence[rows, kinds[k]] > 0 for k in ("is_code", "is_config"))
        if name == "code2test":
            rank_by = np.where(is_test, 1.0, 0.0)
        else:
            rank_by = np.where(is_source > 0, 1.0, 0.0)
        score = probabilities[rows] + rank_by
        ranked = np.argsort(-score, kind="stable")
        hits = np.flatnonzero(data.gold[rows][ranked])
        total = data.gold[rows].sum() + data.missed[task]
        if not total:
            continue
        first = 1 / (1 + hits[0]) if len(hits) else 0.0
        recall = (hits < 20).sum() / total
        best = ranked[0] if len(ranked) else None
        is_right = bool(len(rows) and data.changed[rows][best])
        yield (str(name), int(data.repository[task]), first, recall,
               float(probabilities[rows][best]) if len(rows) else 0.0, is_right)  # fmt: skip


def report(data: Data, probabilities: NDArray[np.float64]) -> None:
    """Print recall@20 and MRR by kind of task, and the calibration."""
    results = list(per_task(data, probabilities))
    for name in [*sorted(set(data.names.tolist()) - {FOREIGN}), "all"]:
        chosen = [r for r in results if name in (r[0], "all")]
        rank, recall = (float(np.mean([r[i] for r in chosen])) for i in (2, 3))
        sure = [r[5] for r in chosen if r[4] >= 0.8]
        print(
            f"{name:14}{len(chosen):6}  MRR {rank:.3f}  recall@20 {recall:.3f}"
            f"  first at 0.8: {np.mean(sure) if sure else 0:.3f} of {len(sure)}"
        )
    own = is_own(data)
    for low in np.arange(0, 1, 0.1):
        rows = own & (probabilities >= low) & (probabilities < low + 0.1)
        if rows.sum():
            print(f"  {low:.1f}: {probabilities[rows].mean():.3f} said,"
                  f" {data.changed[rows].mean():.3f} true, {rows.sum()}")  # fmt: skip


def fit_outside(data: Data, probabilities: NDArray[np.float64]) -> list[float]:
    """The weights of the signs that nothing here answers a task.

    Tasks of other repositories stand in for tasks whose cause is elsewhere. At a probability of a
    half the share `FALSE_ALARMS` of the own tasks counts as such.
    """
    rows_of = by_task(data)
    tasks = np.flatnonzero(
        np.isin(data.names, [FOREIGN, "report2code", "issue2code", "subject2code"])
    )
    signs = np.array([
        outside_signs(data.evidence[rows], probabilities[rows])
        for rows in (rows_of[task] for task in tasks)
    ])  # fmt: skip
    is_foreign = data.names[tasks] == FOREIGN
    weights = np.zeros(signs.shape[1])
    scores = np.zeros(len(tasks))
    for fold in range(FOLDS + 1):  # the last is fitted to all
        held_out = data.fold[tasks] == fold
        model = LogisticRegression(class_weight="balanced", max_iter=1_000)
        model.fit(signs[~held_out, 1:], is_foreign[~held_out])
        weights = np.array([model.intercept_[0], *model.coef_[0]])
        scores[held_out] = signs[held_out] @ weights
    for share in (0.05, FALSE_ALARMS):
        bound = np.quantile(scores[~is_foreign], 1 - share)
        noticed = (scores[is_foreign] > bound).mean()
        print(f"outside: {noticed:.2f} of {is_foreign.sum()} noticed at {share:.0%} false alarms")
    weights[0] -= bound
    return [round(float(weight), 4) for weight in weights]


def main(arguments: Sequence[str] | None = None) -> None:
    """Cross-validate, fit to all, and write the mixture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evidence", type=Path, required=True)
    parser.add_argument("--guess", type=Path, help="where to write first trees by fold")
    parser.add_argument("--out", type=Path, help="where to write the mixture")
    options = parser.parse_args(arguments)
    data = load(options.evidence)
    print(f"{len(set(data.repository.tolist()))} repositories, {len(data.names)} tasks,"
          f" {len(data.task)} candidates, {int(data.missed.sum())} answers missed")  # fmt: skip
    first = data.evidence[:, [COLUMNS.index(name) for name in FIRST_COLUMNS]]
    guess, models = cross_validated(data, first, FIRST_COLUMNS)
    print("First guess:")
    report(data, guess)
    if options.guess:
        trees = [as_json(model, FIRST_COLUMNS) for model in models]
        options.guess.write_text(json.dumps(trees) + "\n", encoding="utf-8")
        return
    evidence = with_guesses(data, guess)
    probabilities, _ = cross_validated(data, evidence, ALL_COLUMNS)
    lines = calibration(data, probabilities)
    probabilities = calibrated(probabilities, lines)
    print(f"Mixture, calibrated by {lines.round(3).tolist()}:")
    report(data, probabilities)
    outside = fit_outside(data, probabilities)
    if options.out:
        own = is_own(data)
        first_model = fitted(first[own], data.changed[own], FIRST_COLUMNS)
        last_model = fitted(evidence[own], data.changed[own], ALL_COLUMNS)
        content = {
            "first": as_json(first_model, FIRST_COLUMNS),
            "last": as_json(last_model, ALL_COLUMNS),
            "calibration": lines.round(5).tolist(),
            "outside": outside,
        }
        ours = Mixture.from_json(content).last.probabilities(evidence[:2_000])
        theirs = last_model.predict_proba(evidence[:2_000])[:, 1]
        assert np.abs(ours - theirs).max() < 1e-3
        options.out.write_text(json.dumps(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
