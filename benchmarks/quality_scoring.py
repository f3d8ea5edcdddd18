"""How good is a list of results for a question? Pure.

The scores are those of the retrieval evaluation (``ndcg.py`` of ``--eval``): a result meets a
target when its file is one of the target's and, where the target has lines, its lines overlap them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from codebase_mcp.search.query import name_stems, parse_query
from codebase_mcp.search.signals import path_facts

DEPTH = 10
ROUNDS = 2_000

Held = Literal["none", "part", "full"]


@dataclass(frozen=True, slots=True)
class ResultLines:
    """A result: lines of a file, with their score."""

    path: str
    first: int
    last: int
    similarity: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """What answers a question: any of some files, in some lines if they are given.

    ``path`` is how the annotation writes it; ``files`` is empty where the tree lacks it.
    """

    path: str
    files: frozenset[str]
    span: tuple[int, int] | None = None

    def is_met_by(self, result: ResultLines) -> bool:
        """Whether a result shows it."""
        return result.path in self.files and (
            self.span is None or (result.first <= self.span[1] and result.last >= self.span[0])
        )


def ranks_of(results: Sequence[ResultLines], targets: Iterable[Target]) -> list[int | None]:
    """For each target the rank (1 is best) of the first result that meets it."""
    return [
        next((rank for rank, result in enumerate(results, 1) if target.is_met_by(result)), None)
        for target in targets
    ]


def ndcg(ranks: Iterable[int | None], wanted: int, depth: int = DEPTH) -> float:
    """Binary-gain NDCG: each rank found gains 1/log2(rank+1), relative to all wanted on top.

    Targets that the same result meets gain once.
    """
    if wanted <= 0:
        return 0.0
    found = {rank for rank in ranks if rank is not None and rank <= depth}
    gain = sum(1 / math.log2(rank + 1) for rank in found)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(wanted, depth) + 1))


def reciprocal(ranks: Iterable[int | None], depth: int = DEPTH) -> float:
    """One over the rank of the first target that is found, 0 where none is."""
    found = [rank for rank in ranks if rank is not None and rank <= depth]
    return 1 / min(found) if found else 0.0


def by_file(results: Iterable[ResultLines]) -> list[ResultLines]:
    """The first result of each file."""
    firsts: dict[str, ResultLines] = {}
    for result in results:
        firsts.setdefault(result.path, result)
    return list(firsts.values())


def files_of(targets: Iterable[Target]) -> list[Target]:
    """The files of the targets, each once, whatever the lines."""
    return list({target.files: Target(target.path, target.files) for target in targets}.values())


def shows_the_lines(results: Sequence[ResultLines], targets: Iterable[Target]) -> bool | None:
    """Whether the first result shows the lines of a target; None where its file is wrong."""
    of_file = [target for target in targets if results and results[0].path in target.files]
    return any(target.is_met_by(results[0]) for target in of_file) if of_file else None


def name_held(text: str, paths: Iterable[str]) -> Held:
    """How much of the file name of the best named target a query holds, by the ranking's words."""
    asked = frozenset(name_stems(parse_query(text)))
    names = [frozenset(path_facts(path).name) for path in paths]
    if any(name and name <= asked for name in names):
        return "full"
    return "part" if any(name & asked for name in names) else "none"


def mean_of_means(groups: Iterable[Sequence[float]]) -> float:
    """The mean over groups of each one's mean; NaN without any."""
    means = [fmean(group) for group in groups if group]
    return fmean(means) if means else float("nan")


def interval(
    groups: Sequence[Sequence[float]],
    average: Callable[[Iterable[Sequence[float]]], float] = mean_of_means,
) -> tuple[float, float]:
    """The 95 % bootstrap interval of an average over repositories.

    Each round draws repositories, and of each one drawn its queries, all with replacement.
    """
    chance = random.Random(0)
    rounds = []
    for _ in range(ROUNDS):
        repositories = chance.choices(groups, k=len(groups))
        rounds.append(average(chance.choices(group, k=len(group)) for group in repositories))
    drawn = sorted(rounds)
    return drawn[int(ROUNDS * 0.025)], drawn[int(ROUNDS * 0.975)]


def grouped(values: Iterable[tuple[str, float]]) -> Mapping[str, list[float]]:
    """Values by the name beside each."""
    groups: dict[str, list[float]] = {}
    for name, value in values:
        groups.setdefault(name, []).append(value)
    return groups
