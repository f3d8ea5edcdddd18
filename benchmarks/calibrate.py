"""Fit the confidence of hits on annotated queries, and show how well it holds.

    python benchmarks/quality.py --eval DIR --repos-dir DIR --everyday-dir DIR --dump DUMP.npz
    python benchmarks/quality.py --everyday-dir OUT/trees --questions OUT/questions \
        --sets everyday,foreign --dump PROJECTS.npz
    python benchmarks/calibrate.py DUMP.npz PROJECTS.npz

Prints the coefficients for ``search/confidence.py``. ``RELATED_WEIGHTS`` is fitted to separate the
questions about the code from the unrelated ones; each set has the same weight. ``FLOOR`` is where
the share ``LOST`` of the relevant files among the first ten is lost. ``MATCH_WEIGHTS`` is fitted on
the candidates of the development queries, of those without file names, of the everyday ones and of
those of further dumps (of ``training/projects.py``), and on those of foreign questions, of which
none is right. The printed figures are cross-validated over repositories, and over unrelated
questions; the parts named "check" are never used for fitting.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.search.confidence import LEAST_LEAD, MATCH_WEIGHTS, MOST, RELATED_WEIGHTS
from quality_dump import Dump, Numbers, joined, read_dump
from quality_report import BANDS, SURE, UNANSWERED
from quality_scoring import DEPTH

Flags = NDArray[np.bool_]

FOLDS = 7
# With this share no kind of question loses more than 1 % of its relevant files.
LOST = 0.004

# Every repository gets all unrelated questions, so without weights they would outweigh the others.
_SET_WEIGHTS = {"unrelated": 2.0}

# The sets on which scores are fitted: they have to hold for each kind of question.
_MATCH_SETS = ("development", "unnamed", "everyday", "projects")

# How much the foreign questions count beside a set. With more of it they get lower scores, and so
# do those that belong: at 0.15, 10 % of the one and 1.5 % of the other have none at 0.5.
_FOREIGN_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Logistic:
    """A logistic function of named features; ``weights`` begin with the intercept."""

    names: tuple[str, ...]
    weights: Numbers

    def odds(self, features: Numbers) -> Numbers:
        """Log odds, one for each row of features."""
        found: Numbers = self.weights[0] + features @ self.weights[1:]
        return found

    def __str__(self) -> str:
        pairs = zip(("intercept", *self.names), self.weights, strict=True)
        return "{\n" + "".join(f'    "{name}": {weight:.3f},\n' for name, weight in pairs) + "}"


def fit(names: Sequence[str], features: Numbers, truth: Flags, weights: Numbers) -> Logistic:
    """Logistic regression by iteratively reweighted least squares, with a little ridge.

    ``weights`` say how much each row counts; they are scaled to a mean of 1.
    """
    design = np.column_stack([np.ones(len(features)), features])
    counted = weights / weights.mean()
    found = np.zeros(design.shape[1])
    ridge = 0.3 * np.eye(len(found))
    ridge[0, 0] = 0.0
    for _ in range(50):
        probability = 1 / (1 + np.exp(-design @ found))
        spread = (counted * probability * (1 - probability))[:, None]
        gradient = design.T @ (counted * (probability - truth)) + ridge @ found
        found -= np.linalg.solve((design * spread).T @ design + ridge, gradient)
    return Logistic(tuple(names), found)


class Questions:
    """The questions of a dump as columns."""

    def __init__(self, dump: Dump) -> None:
        self.set = self._texts(dump, "set")
        self.split = self._texts(dump, "split")
        self.repository = self._texts(dump, "repository")
        self.text = self._texts(dump, "query")
        names = tuple(name for name in RELATED_WEIGHTS if name != "intercept")
        self.names = names
        rows = [[question["evidence"][name] for name in names] for question in dump.questions]
        self.evidence = np.array(rows)
        self.relevant = np.array([dump.relevant[at][:DEPTH].sum() for _, at in dump])
        self.is_real = ~np.isin(self.set, UNANSWERED)
        sizes = {name: (self.set == name).sum() for name in set(self.set)}
        self.weight = np.array([_SET_WEIGHTS.get(name, 1.0) / sizes[name] for name in self.set])

    def _texts(self, dump: Dump, key: str) -> NDArray[np.str_]:
        return np.array([str(question[key]) for question in dump.questions])

    def folds(self, fitted: Flags) -> list[tuple[Flags, Flags]]:
        """For each fold those of the questions to fit on, and those to evaluate on.

        The two share neither a repository nor the text of an unrelated question.
        """
        chance = np.random.default_rng(0)
        fold_of = {
            name: position % FOLDS
            for position, name in enumerate(chance.permutation(sorted(set(self.repository))))
        }
        unrelated = chance.permutation(sorted(set(self.text[self.set == "unrelated"])))
        fold_of_text = {text: position % FOLDS for position, text in enumerate(unrelated)}
        folds = np.array([fold_of[name] for name in self.repository])
        text_folds = np.array([fold_of_text.get(text, -1) for text in self.text])
        return [((folds != k) & (text_folds != k) & fitted, folds == k) for k in range(FOLDS)]

    @property
    def fitted(self) -> Flags:
        """Which questions the floor may be fitted on."""
        return (self.split != "check") & ~np.isin(self.set, ("foreign", "projects"))


def floor_of(questions: Questions, odds: Numbers, among: Flags) -> float:
    """The odds below which the share ``LOST`` of the relevant files lies."""
    chosen = np.flatnonzero(among & questions.is_real)
    order = chosen[np.argsort(odds[chosen])]
    lost = np.cumsum(questions.relevant[order]) / questions.relevant[order].sum()
    return float(odds[order[np.searchsorted(lost, LOST)]])


def report_floor(questions: Questions, odds: Numbers, floor: float) -> None:
    """Print how many questions are above the floor, by set and split."""
    for name in sorted(set(questions.set)):
        for split in sorted(set(questions.split[questions.set == name])):
            here = (questions.set == name) & (questions.split == split)
            above = odds[here] >= floor
            found = questions.relevant[here]
            lost = found[~above].sum() / max(found.sum(), 1)
            print(f"  {name:12} {split:6} {above.mean():6.1%} pass, {lost:.1%} of relevant lost")


def read_all(paths: Sequence[Path]) -> Dump:
    """Some dumps as one; the everyday questions of all but the first are the set "projects"."""
    first, *others = map(read_dump, paths)
    for other in others:
        for question in other.questions:
            if question["set"] == "everyday":
                question["set"] = "projects"
    return joined([first, *others])


def file_evidence(dump: Dump) -> Numbers:
    """`confidence.file_evidence` for all candidates: a column for each of ``MATCH_WEIGHTS``."""
    counts = np.diff(dump.starts)
    tops = dump.score[dump.starts[:-1][counts > 0]].repeat(counts[counts > 0])
    lead = np.divide(dump.score, tops, out=np.zeros_like(tops), where=tops > 0)
    ahead = np.zeros_like(lead)
    firsts = dump.starts[:-1][counts > 1]
    ahead[firsts] = 1 - lead[firsts + 1]
    best = dump.starts[:-1][counts > 0].repeat(counts[counts > 0])
    columns: dict[str, Any] = {
        "coverage": np.minimum(dump.column("coverage"), MOST)[best],
        "name": dump.column("name")[best],
        "definition": np.minimum(dump.column("definition"), MOST)[best],
        "meaning": dump.column("meaning")[best],
        "lead": lead,
        "ahead": ahead,
    }
    return np.column_stack([columns[name] for name in MATCH_WEIGHTS if name != "intercept"])


def report_bands(scores: Numbers, relevant: Flags, first: Flags) -> None:
    """Print the share of relevant hits in each band of the score."""
    for low, high in BANDS:
        band = (scores >= low) & (scores < high)
        share = relevant[band].mean() if band.any() else float("nan")
        print(f"  score {low:.1f}..{min(high, 1):.1f}: {band.sum():5} files, {share:.2f} relevant")
    poor = scores < 0.6
    print(f"  below 0.6 {relevant[poor].mean():.2f} relevant")
    print(f"  queries with a hit at {SURE} or more: {(scores >= SURE)[first].mean():.2f}")


def main() -> None:
    """Read, fit, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dump", type=Path, nargs="+")
    dump = read_all(parser.parse_args().dump)
    asked = Questions(dump)
    folds = asked.folds(asked.fitted)
    held_out = np.zeros(len(asked.set))
    floors = np.zeros(len(asked.set))
    for fitted, evaluated in folds:
        found = fit(
            asked.names, asked.evidence[fitted], asked.is_real[fitted], asked.weight[fitted]
        )
        held_out[evaluated] = found.odds(asked.evidence[evaluated])
        floors[evaluated] = floor_of(asked, found.odds(asked.evidence), fitted)
    chosen = asked.fitted
    related = fit(asked.names, asked.evidence[chosen], asked.is_real[chosen], asked.weight[chosen])
    odds = related.odds(asked.evidence)
    floor = floor_of(asked, odds, chosen)
    print(f"RELATED_WEIGHTS = {related}\nFLOOR = {floor:.2f}")
    print("cross-validated:")
    report_floor(asked, held_out - floors, 0.0)
    print("fitted on all but the check parts:")
    report_floor(asked, odds, floor)

    question = dump.question_of()
    positions = np.arange(len(dump.score)) - np.repeat(dump.starts[:-1], np.diff(dump.starts))
    sets = (*_MATCH_SETS, "foreign")
    shown = (positions < DEPTH) & np.isin(asked.set, sets)[question]
    evidence = file_evidence(dump)
    shown &= (
        evidence[:, [n for n in MATCH_WEIGHTS if n != "intercept"].index("lead")] >= LEAST_LEAD
    ) & (odds[question] >= floor)
    names = tuple(name for name in MATCH_WEIGHTS if name != "intercept")
    shares = dict.fromkeys(_MATCH_SETS, 1.0) | {"foreign": _FOREIGN_SHARE}
    counts = {name: max((shown & (asked.set[question] == name)).sum(), 1) for name in sets}
    even = np.array([shares[n] / counts[n] if n in shares else 0.0 for n in asked.set])[question]
    chosen = shown & (asked.split != "check")[question]
    match = fit(names, evidence[chosen], dump.relevant[chosen], even[chosen])
    print(f"MATCH_WEIGHTS = {match}")
    scores = np.zeros(len(evidence))
    for fitted, evaluated in asked.folds(asked.split != "check"):
        here = shown & fitted[question]
        found = fit(names, evidence[here], dump.relevant[here], even[here])
        at = shown & evaluated[question]
        scores[at] = np.sqrt(1 / (1 + np.exp(-found.odds(evidence[at]))))
    for name in _MATCH_SETS:
        here = asked.set[question] == name
        print(f"cross-validated, {name}:")
        report_bands(
            scores[shown & here], dump.relevant[shown & here], positions[shown & here] == 0
        )
        lost = dump.relevant & (positions < DEPTH) & here & ~shown
        print(f"  relevant files not shown: {lost.sum()}")


if __name__ == "__main__":
    main()
