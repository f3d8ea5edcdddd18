"""Fit the confidence of hits on annotated queries, and show how well it holds.

    python benchmarks/quality.py --eval DIR --repos-dir DIR --everyday-dir DIR --dump DUMP.npz
    python benchmarks/quality.py --everyday-dir OUT/trees --questions OUT/questions \
        --sets everyday,foreign --dump PROJECTS.npz
    python benchmarks/calibrate.py DUMP.npz PROJECTS.npz

Prints the coefficients for ``search/confidence.py``. ``RELATED_WEIGHTS`` is fitted to separate the
questions about the code from the unrelated ones; each set has the same weight. ``FLOOR`` is where
the share ``LOST`` of the relevant files among the first ten is lost. ``ANSWERABLE_WEIGHTS`` is
fitted to separate everyday questions from those of other repositories; below ``LEAST_ANSWERABLE``
lies the share ``LOST_ELSEWHERE`` of those that belong. ``FIRST_WEIGHTS`` and ``OTHERS_WEIGHTS`` are
fitted on the first ten candidates of the development queries, of those without file names, of the
everyday ones and of those of further dumps (of ``training/projects.py``), and on those of foreign
questions, of which none is right. Make such a dump with a table that was trained without these
projects (``training/mine.py --without``): with the product's own, which has learned these
questions, the first hit seems surer than it is. The printed figures are cross-validated over
repositories, and over unrelated questions; the parts named "check" are never used for fitting.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.search.confidence import (
    ANSWERABLE_WEIGHTS,
    FILES_CONSIDERED,
    FIRST_WEIGHTS,
    LEAST_LEAD,
    MOST,
    MOST_ANSWERABLE,
    OTHERS_WEIGHTS,
    RANKS_HALVING,
    RELATED_WEIGHTS,
)
from quality_dump import Dump, Numbers, joined, read_dump
from quality_report import BANDS, SURE, UNANSWERED
from quality_scoring import DEPTH

Flags = NDArray[np.bool_]

FOLDS = 7
# With this share no kind of question loses more than 1 % of its relevant files.
LOST = 0.004

# This share of the questions that belong may seem to belong elsewhere.
LOST_ELSEWHERE = 0.02

# Every repository gets all unrelated questions, so without weights they would outweigh the others.
_SET_WEIGHTS = {"unrelated": 2.0}

# Questions that belong to a repository, and the same ones asked of others; of the first dump and of
# further ones.
NATIVE = ("everyday", "projects")
FOREIGN = ("foreign", "elsewhere")
_FURTHER = {"everyday": "projects", "foreign": "elsewhere"}

# The sets on which scores are fitted: they have to hold for each kind of question.
_MATCH_SETS = ("development", "unnamed", "everyday", "projects")

# How much either kind of foreign questions counts beside a set. With more of it they get lower
# scores, and so do those that belong.
_FOREIGN_SHARE = 0.2


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
        rows = [tuple(question["evidence"].values()) for question in dump.questions]
        self._names = tuple(dump.questions[0]["evidence"])
        self._evidence = np.array(rows)
        self.relevant = np.array([dump.relevant[at][:DEPTH].sum() for _, at in dump])
        self.is_real = ~np.isin(self.set, (*UNANSWERED, *FOREIGN))
        sizes = Counter(self.set.tolist())
        self.weight = np.array([_SET_WEIGHTS.get(name, 1.0) / sizes[name] for name in self.set])

    def evidence(self, names: Sequence[str]) -> Numbers:
        """Fields of `QueryEvidence`, a column for each."""
        return self._evidence[:, [self._names.index(name) for name in names]]

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
        found: Flags = (self.split != "check") & ~np.isin(self.set, (*FOREIGN, "projects"))
        return found


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
    """Some dumps as one; those of all but the first are the sets "projects" and "elsewhere"."""
    first, *others = map(read_dump, paths)
    for other in others:
        for question in other.questions:
            question["set"] = _FURTHER.get(question["set"], question["set"])
    return joined([first, *others])


class Files:
    """The candidates of a dump as `confidence` sees them.

    ``lead`` is of every candidate; ``first_evidence`` has columns for `FirstEvidence` by name, with
    a value for each question that has candidates, whose number is in ``asked``.
    """

    def __init__(self, dump: Dump) -> None:
        every = np.diff(dump.starts)
        self.asked = np.flatnonzero(every)
        counts, starts = every[self.asked], dump.starts[:-1][self.asked]
        self.question = dump.question_of()
        self.position = np.arange(len(dump.score)) - dump.starts[:-1][self.question]
        best = starts.repeat(counts)
        tops = dump.score[best]
        self.lead = np.divide(dump.score, tops, out=np.zeros_like(tops), where=tops > 0)
        second = self.lead[starts + np.minimum(1, counts - 1)]
        last = self.lead[starts + np.minimum(counts, FILES_CONSIDERED) - 1]
        least = np.array([question["least_meaning"] for question in dump.questions])
        nearest = dump.column("best_meaning")
        nearest = np.where(nearest > 0, nearest, least[self.question])
        expansion = dump.column("expansion")
        before = np.add.reduceat(expansion > expansion[best], starts, dtype=np.float64)
        unknown = np.array([question["evidence"]["unknown"] for question in dump.questions])
        is_alone = counts == 1
        only_place = dump.column("only_place")[starts]
        self.first_evidence = {
            "coverage": np.minimum(dump.column("coverage"), MOST)[starts],
            "name": dump.column("name")[starts],
            "definition": np.minimum(dump.column("definition"), MOST)[starts],
            "meaning": dump.column("meaning")[starts],
            "apart": np.where(
                is_alone,
                only_place,
                np.where(dump.score[starts] > 0, 1 - np.maximum(last, 0.0), 0.0),
            ),
            "ahead": np.where(is_alone, only_place, np.where(second > 0, 1 - second, 0.0)),
            "expanded": np.where(
                expansion[starts] > 0, RANKS_HALVING / (RANKS_HALVING + before), 0.0
            ),
            "behind": (np.maximum.reduceat(nearest, starts) - nearest[starts]) * (1 - only_place),
            "unknown": unknown[self.asked],
        }


HERE = tuple(name for name in ANSWERABLE_WEIGHTS if name != "intercept")
FIRST = tuple(name for name in FIRST_WEIGHTS if name != "intercept")
OTHERS = tuple(name for name in OTHERS_WEIGHTS if name != "intercept")


def score_of(odds: Numbers) -> Numbers:
    """The scores of log odds, as `confidence.confidences` computes them."""
    found: Numbers = np.sqrt(1 / (1 + np.exp(-odds)))
    return found


@dataclass(frozen=True, slots=True)
class Fitted:
    """The functions of scores: whether this code has it, of the first file, of the others."""

    here: Logistic
    first: Logistic
    others: Logistic


class Fitting:
    """The weights of scores, fitted on some questions."""

    def __init__(self, dump: Dump, asked: Questions, related: Flags) -> None:
        self._dump, self._asked = dump, asked
        self.files = files = Files(dump)
        sets = (*_MATCH_SETS, *FOREIGN)
        self._here_evidence = asked.evidence(HERE)
        self.native = np.isin(asked.set, NATIVE)
        counted = related & np.isin(asked.set, sets)
        self.shown = (files.position < DEPTH) & (files.lead >= LEAST_LEAD) & counted[files.question]
        shares = dict.fromkeys(_MATCH_SETS, 1.0) | dict.fromkeys(FOREIGN, _FOREIGN_SHARE)
        sizes = {name: max(((asked.set == name) & counted).sum(), 1) for name in sets}
        self.weight = (
            np.array([shares[n] / sizes[n] if n in shares else 0.0 for n in asked.set]) * counted
        )

    def fit(self, fitted: Flags) -> Fitted:
        """The functions, by the fitted questions."""
        files, right = self.files, self._dump.relevant
        both = fitted & np.isin(self._asked.set, (*NATIVE, *FOREIGN))
        here = fit(HERE, self._here_evidence[both], self.native[both], self._asked.weight[both])
        firsts = right[self._dump.starts[:-1][files.asked]]
        chosen = (fitted & (self.weight > 0))[files.asked]
        evidence = self._first_evidence(here)[chosen]
        first = fit(FIRST, evidence, firsts[chosen], self.weight[files.asked][chosen])
        shown = self.shown & (files.position > 0) & fitted[files.question]
        others = fit(
            OTHERS,
            self._others(here, first)[shown],
            right[shown],
            self.weight[files.question][shown],
        )
        return Fitted(here, first, others)

    def here_odds(self, here: Logistic) -> Numbers:
        """The odds that this code has what is asked for, for each question."""
        background, missing = self._asked.evidence(("background", "missing")).T
        odds = np.minimum(here.odds(self._here_evidence), MOST_ANSWERABLE)
        found: Numbers = np.where(background == 0, MOST_ANSWERABLE, odds)
        found[missing > 0] = -MOST_ANSWERABLE
        return found

    def scores(self, fitted: Fitted) -> Numbers:
        """The score of each candidate, without the bounds of what is here and what is not."""
        first = score_of(self._first_odds(fitted.here, fitted.first))
        others = score_of(fitted.others.odds(self._others(fitted.here, fitted.first)))
        return np.where(self.files.position == 0, first, np.minimum(others, first))

    def _first_evidence(self, here: Logistic) -> Numbers:
        """A row for each question with candidates, a column for each of `FIRST`."""
        columns = self.files.first_evidence | {"answerable": self.here_odds(here)[self.files.asked]}
        return np.column_stack([columns[name] for name in FIRST])

    def _first_odds(self, here: Logistic, first: Logistic) -> Numbers:
        by_question = np.zeros(len(self._asked.set))
        by_question[self.files.asked] = first.odds(self._first_evidence(here))
        found: Numbers = by_question[self.files.question]
        return found

    def _others(self, here: Logistic, first: Logistic) -> Numbers:
        return np.column_stack([self._first_odds(here, first), self.files.lead])


def report_bands(scores: Numbers, relevant: Flags) -> None:
    """Print the share of relevant hits in each band of the score."""
    for low, high in BANDS:
        band = (scores >= low) & (scores < high)
        share = relevant[band].mean() if band.any() else float("nan")
        print(f"  score {low:.1f}..{min(high, 1):.1f}: {band.sum():5} files, {share:.2f} relevant")


def report_firsts(scores: Numbers, relevant: Flags) -> None:
    """Print how often the first hit is right, by its score."""
    for low, high in ((SURE, 2.0), (0.8, 2.0), (0.6, 0.8), (0.5, 0.6), (0.0, 0.5)):
        band = (scores >= low) & (scores < high)
        share = relevant[band].mean() if band.any() else float("nan")
        print(
            f"  first hits at {low:.1f} to {min(high, 1):.1f}: {band.mean():.2f}, {share:.2f} right"
        )


def fit_floor(asked: Questions) -> tuple[Logistic, Numbers, float]:
    """The function for questions about the code, the odds of all questions, and the floor."""
    names = tuple(RELATED_WEIGHTS)[1:]
    evidence = asked.evidence(names)
    held_out, floors = np.zeros(len(asked.set)), np.zeros(len(asked.set))
    for fitted, evaluated in asked.folds(asked.fitted):
        found = fit(names, evidence[fitted], asked.is_real[fitted], asked.weight[fitted])
        held_out[evaluated] = found.odds(evidence[evaluated])
        floors[evaluated] = floor_of(asked, found.odds(evidence), fitted)
    chosen = asked.fitted
    related = fit(names, evidence[chosen], asked.is_real[chosen], asked.weight[chosen])
    odds = related.odds(evidence)
    floor = floor_of(asked, odds, chosen)
    print("above the floor, cross-validated:")
    report_floor(asked, held_out - floors, 0.0)
    print("fitted on all but the check parts:")
    report_floor(asked, odds, floor)
    return related, odds, floor


def report_here(asked: Questions, odds: Numbers, among: Flags) -> float:
    """Print how many questions seem to belong elsewhere; the odds below which they do."""
    weight = asked.weight * among
    chosen = np.flatnonzero(weight)
    chosen = chosen[np.argsort(odds[chosen])]
    share = np.cumsum(weight[chosen]) / weight[chosen].sum()
    least = float(odds[chosen[np.searchsorted(share, LOST_ELSEWHERE)]])
    for name in (*_MATCH_SETS, *FOREIGN):
        for split in sorted(set(asked.split[asked.set == name])):
            here = (asked.set == name) & (asked.split == split)
            print(f"  {name:12} {split:6} {(odds[here] < least).mean():6.1%} seem elsewhere")
    return least


def main() -> None:
    """Read, fit, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dump", type=Path, nargs="+")
    dump = read_all(parser.parse_args().dump)
    asked = Questions(dump)
    related, odds, floor = fit_floor(asked)
    print(f"RELATED_WEIGHTS = {related}\nFLOOR = {floor:.2f}")
    fitting = Fitting(dump, asked, odds >= floor)
    unchecked = asked.split != "check"
    question, shown = fitting.files.question, fitting.shown
    scores, here = np.zeros(len(dump.score)), np.zeros(len(asked.set))
    for fitted, evaluated in asked.folds(unchecked):
        found = fitting.fit(fitted)
        scores[evaluated[question]] = fitting.scores(found)[evaluated[question]]
        here[evaluated] = fitting.here_odds(found.here)[evaluated]
    found = fitting.fit(unchecked)
    print(f"ANSWERABLE_WEIGHTS = {found.here}\ncross-validated:")
    report_here(asked, here, fitting.native & unchecked)
    print("fitted on all but the check parts:")
    least = report_here(asked, fitting.here_odds(found.here), fitting.native & unchecked)
    print(f"LEAST_ANSWERABLE = {least:.2f}")
    print(f"FIRST_WEIGHTS = {found.first}\nOTHERS_WEIGHTS = {found.others}")
    is_first = shown & (fitting.files.position == 0)
    for name in (*_MATCH_SETS, *FOREIGN):
        here = (asked.set == name)[question]
        print(f"cross-validated, {name}:")
        report_bands(scores[shown & here], dump.relevant[shown & here])
        report_firsts(scores[is_first & here], dump.relevant[is_first & here])


if __name__ == "__main__":
    main()
