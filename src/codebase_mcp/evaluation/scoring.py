"""How good is a list of places for a query, and how much has to be read for its answer? Pure.

Ranks are of files, as each comes once: the first place of a file has its rank. Whether the lines
that are wanted were among those shown is told apart.

*Tokens to the answer* is what a reader takes in from the top of the list, at four characters a
token, until an answer is there:

- up to the first place that shows lines of a target; any place of its file where a target is a
  whole file;
- where the list has the file but never the lines: up to the file's first place, and then the file;
- where it has no file of any target: the whole list, and then the smallest of the targets' files,
  as if somebody had named it. That is the least a miss can cost: who finds nothing reads little.

So the share of queries answered within a budget of tokens stands beside it; a miss is never among
them.
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

# The percentiles of a 95 % interval move by less than 0.005 from one such count to the next.
_ROUNDS = 2_000


@dataclass(frozen=True, slots=True)
class Lines:
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
class Shown:
    """One entry of a list: the lines that it shows, and how many characters a reader takes in.

    Of the same text in several files it has the lines of each.
    """

    places: tuple[Lines, ...]
    chars: int


@dataclass(frozen=True, slots=True)
class Score:
    """What one query got.

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
    def reciprocal(self) -> float:
        """One over the rank, 0 for a miss."""
        return 1 / self.rank if self.rank else 0.0

    def is_within(self, budget: int) -> bool:
        """Whether the answer came before so many tokens were read."""
        return self.rank is not None and self.tokens <= budget


@dataclass(frozen=True, slots=True)
class Figures:
    """What several queries got on average.

    ``interval`` is the NDCG's, at 95 %; ``within`` the share answered within each budget.
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


def score(listed: Sequence[Shown], targets: Sequence[Target], chars_of: Mapping[str, int]) -> Score:
    """What a list is worth for a query; ``chars_of`` has the sizes of the targets' files."""
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


def ranks_of_files(listed: Sequence[Shown]) -> dict[str, int]:
    """The rank (1 is best) of each file; files in the same entry share one."""
    ranks: dict[str, int] = {}
    rank = 0
    for shown in listed:
        new = [place.path for place in shown.places if place.path not in ranks]
        rank += bool(new)
        ranks.update(dict.fromkeys(new, rank))
    return ranks


def ndcg(ranks: Sequence[int], wanted: int) -> float:
    """NDCG at 10 with gains of 0 and 1: files in the same entry gain once."""
    gain = sum(1 / math.log2(rank + 1) for rank in set(ranks) if rank <= DEPTH)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(wanted, DEPTH) + 1))


def figures_of(scores: Sequence[Score]) -> Figures:
    """The averages over some queries, at least one."""
    lines = [one.shows_lines for one in scores if one.shows_lines is not None]
    return Figures(
        queries=len(scores),
        recall={cut: fmean(one.recall[cut] for one in scores) for cut in CUTS},
        reciprocal=fmean(one.reciprocal for one in scores),
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
    """Between what the mean of these lies with 95 % certainty: a bootstrap over the queries."""
    chance = np.random.default_rng(0)
    held = np.asarray(values, np.float64)
    means = [held[chance.integers(0, len(held), len(held))].mean() for _ in range(_ROUNDS)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _chars_to_answer(
    listed: Sequence[Shown], targets: Sequence[Target], chars_of: Mapping[str, int]
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
