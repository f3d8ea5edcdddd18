"""How good is a list of results for a query, and how much is read until the answer? Pure.

Ranks are of files: a file has the rank of its first entry. Whether the wanted lines were shown is a
separate figure.

*Tokens to the answer* is what is read from the top of the list until an answer, at four characters
per token:

- up to the first entry with lines of a target, or with its file if the target is a whole file;
- if the list has the file but not the lines: up to the file's first entry, plus the file;
- if the list has no file of a target: the whole list, plus the smallest target file. This is the
  least that a miss can cost.

A short list of misses is therefore cheap, so the share of queries answered within a token budget is
given as well; misses are never counted there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from codebase_mcp.evaluation.questions import Target

CUTS = (1, 5, 10)
DEPTH = 10
BUDGETS = (1_000, 4_000)
CHARS_PER_TOKEN = 4

# With this many rounds the bounds of a 95 % interval vary by less than 0.005.
_ROUNDS = 2_000


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines of a file (1-based, inclusive)."""

    path: str
    first: int
    last: int

    def shows(self, target: Target) -> bool:
        """Whether any line of the target is among them."""
        if self.path != target.path:
            return False
        return target.span is None or (self.first <= target.span[1] and self.last >= target.span[0])


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One entry of a list: the lines that it shows, and how many characters are read.

    An entry for the same text in several files has the lines of each.
    """

    places: tuple[LineRange, ...]
    chars: int


@dataclass(frozen=True, slots=True)
class Score:
    """The metrics of one query.

    ``recall`` is the share of the targets' files among the first 1, 5 and 10; ``rank`` the first
    such file's, None where the list has none. ``shows_lines`` is None where the list has no file
    whose lines are wanted.
    """

    rank: int | None
    recall: Mapping[int, float]
    ndcg: float
    shows_lines: bool | None
    tokens: float
    tokens_listed: float

    @property
    def reciprocal_rank(self) -> float:
        """1 / rank, or 0 for a miss."""
        return 1 / self.rank if self.rank else 0.0

    def is_within(self, budget: int) -> bool:
        """Whether the query was answered within a budget of tokens."""
        return self.rank is not None and self.tokens <= budget


@dataclass(frozen=True, slots=True)
class Figures:
    """The average metrics of several queries.

    ``interval`` is the 95 % confidence interval of the NDCG; ``within`` is the share of queries
    answered within each token budget.
    """

    queries: int
    recall: Mapping[int, float]
    reciprocal: float
    ndcg: float
    interval: tuple[float, float]
    missed: float
    shows_lines: float | None
    within: Mapping[int, float]
    tokens_median: float
    tokens_mean: float
    tokens_listed: float


def score(
    listed: Sequence[ListEntry], targets: Sequence[Target], chars_of: Mapping[str, int]
) -> Score:
    """The metrics of a list for a query; ``chars_of`` has the sizes of the target files."""
    wanted = list(dict.fromkeys(target.path for target in targets))
    ranks = ranks_of_files(listed)
    found = [ranks[path] for path in wanted if path in ranks]
    of_found = [t for t in targets if t.span is not None and t.path in ranks]
    places = [place for shown in listed for place in shown.places]
    return Score(
        rank=min(found, default=None),
        recall={cut: sum(rank <= cut for rank in found) / len(wanted) for cut in CUTS},
        ndcg=ndcg(found, len(wanted)),
        shows_lines=any(p.shows(t) for t in of_found for p in places) if of_found else None,
        tokens=_chars_to_answer(listed, targets, chars_of) / CHARS_PER_TOKEN,
        tokens_listed=sum(shown.chars for shown in listed) / CHARS_PER_TOKEN,
    )


def ranks_of_files(listed: Sequence[ListEntry]) -> dict[str, int]:
    """The rank (1 is best) of each file; files in the same entry share one."""
    ranks: dict[str, int] = {}
    rank = 0
    for shown in listed:
        new = [place.path for place in shown.places if place.path not in ranks]
        rank += bool(new)
        ranks.update(dict.fromkeys(new, rank))
    return ranks


def ndcg(ranks: Sequence[int], wanted: int) -> float:
    """NDCG at 10 with binary gains; files in the same entry count once.

    Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.
    """
    gain = sum(1 / math.log2(rank + 1) for rank in set(ranks) if rank <= DEPTH)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(wanted, DEPTH) + 1))


def figures_of(scores: Sequence[Score]) -> Figures:
    """The averages over some queries, at least one."""
    lines = [one.shows_lines for one in scores if one.shows_lines is not None]
    return Figures(
        queries=len(scores),
        recall={cut: fmean(one.recall[cut] for one in scores) for cut in CUTS},
        reciprocal=fmean(one.reciprocal_rank for one in scores),
        ndcg=fmean(one.ndcg for one in scores),
        interval=interval([one.ndcg for one in scores]),
        missed=fmean(one.rank is None for one in scores),
        shows_lines=fmean(lines) if lines else None,
        within={budget: fmean(one.is_within(budget) for one in scores) for budget in BUDGETS},
        tokens_median=median(one.tokens for one in scores),
        tokens_mean=fmean(one.tokens for one in scores),
        tokens_listed=fmean(one.tokens_listed for one in scores),
    )


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of a mean: the percentile bootstrap (Efron, 1979)."""
    rng = np.random.default_rng(0)
    sample = np.asarray(values, np.float64)
    means = [sample[rng.integers(0, len(sample), len(sample))].mean() for _ in range(_ROUNDS)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _chars_to_answer(
    listed: Sequence[ListEntry], targets: Sequence[Target], chars_of: Mapping[str, int]
) -> int:
    sizes = {target.path: chars_of[target.path] for target in targets}
    read, opened = 0, None
    for shown in listed:
        read += shown.chars
        if any(place.shows(target) for place in shown.places for target in targets):
            return read
        files = [sizes[place.path] for place in shown.places if place.path in sizes]
        if opened is None and files:
            opened = read + min(files)
    return read + min(sizes.values()) if opened is None else opened
