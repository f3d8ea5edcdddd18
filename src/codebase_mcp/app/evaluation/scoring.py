"""The quality of a list of results, and how much is read until the answer. Pure.

Ranks are of files: a file has the rank of its first entry. Whether the wanted lines were shown is a
separate figure.

*Tokens to the answer* are the tokens read from the top of the list until an answer, at four
characters per token:

- up to the first entry with lines of a target, or with its file if the target is a whole file;
- if the list has the file but not the lines: up to the file's first entry, plus the file;
- if the list has no file of a target: the whole list, plus the smallest target file. This is the
  least that a miss can cost.

A short list of misses is therefore cheap, so the share of queries answered within a token budget is
given as well; misses are never counted there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from codebase_mcp.app.evaluation.questions import Question, Target
from codebase_mcp.values import grouped

CUTS = (1, 5, 10)
DEPTH = 10
BUDGETS = (1_000, 4_000)
CHARS_PER_TOKEN = 4

# With fewer queries, a single query moves an average by more than 0.03.
FEW_QUESTIONS = 30

# With this many rounds the bounds of a 95 % interval vary by less than 0.005.
_ROUNDS = 2_000


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a list: the lines that it shows, and how many characters are read.

    An entry for the same text in several files has the lines of each.
    """

    places: tuple[Target, ...]
    chars: int


@dataclass(frozen=True, slots=True)
class Score:
    """The metrics of a query.

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
class Outcome:
    """A query with its results from `search_code` and from grep, and their scores."""

    question: Question
    ours: Score
    grep: Score
    listed: Sequence[ListEntry]
    grepped: Sequence[ListEntry]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcomes of all queries on a repository; ``notes`` are the errors of the index run."""

    root: Path
    project_id: str | None
    files: int
    limit: int
    outcomes: Sequence[Outcome]
    notes: Sequence[str] = ()

    @property
    def is_rough(self) -> bool:
        """Whether there are too few queries to rely on the figures."""
        return len(self.outcomes) < FEW_QUESTIONS

    @property
    def groups(self) -> Mapping[str, Sequence[Outcome]]:
        """The outcomes by group; empty for a single group."""
        ordered = sorted(self.outcomes, key=lambda outcome: outcome.question.group)
        groups = grouped((outcome.question.group, outcome) for outcome in ordered)
        return groups if len(groups) > 1 else {}

    def worst(self, count: int) -> list[Outcome]:
        """The queries with our lowest NDCG below 1; among equals those with the most tokens."""
        imperfect = [outcome for outcome in self.outcomes if outcome.ours.ndcg < 1]
        imperfect.sort(key=lambda outcome: (outcome.ours.ndcg, -outcome.ours.tokens))
        return imperfect[:count]


def score(
    listed: Sequence[ListEntry], targets: Sequence[Target], chars_of: Mapping[str, int]
) -> Score:
    """The metrics of a list for a query; ``chars_of`` has the sizes of the target files."""
    paths = {target.path for target in targets}
    rank_of = ranks_of_files(listed)
    ranks = [rank_of[path] for path in paths if path in rank_of]
    listed_targets = [t for t in targets if t.span is not None and t.path in rank_of]
    ranges = [lines for shown in listed for lines in shown.places]
    return Score(
        rank=min(ranks, default=None),
        recall={cut: sum(rank <= cut for rank in ranks) / len(paths) for cut in CUTS},
        ndcg=ndcg(ranks, len(paths)),
        shows_lines=any(target.overlaps(lines) for target in listed_targets for lines in ranges)
        if listed_targets
        else None,
        tokens=_chars_to_answer(listed, targets, chars_of) / CHARS_PER_TOKEN,
        tokens_listed=sum(shown.chars for shown in listed) / CHARS_PER_TOKEN,
    )


def ranks_of_files(listed: Sequence[ListEntry]) -> dict[str, int]:
    """The rank (1 is best) of each file; files in the same entry share a rank."""
    ranks: dict[str, int] = {}
    rank = 0
    for shown in listed:
        new = [lines.path for lines in shown.places if lines.path not in ranks]
        rank += bool(new)
        ranks.update(dict.fromkeys(new, rank))
    return ranks


def ndcg(ranks: Sequence[int], relevant: int) -> float:
    """NDCG at 10 with binary gains; files in the same entry count once.

    Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.
    """
    gain = sum(1 / math.log2(rank + 1) for rank in set(ranks) if rank <= DEPTH)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(relevant, DEPTH) + 1))


def figures_of(scores: Sequence[Score]) -> dict[str, Any]:
    """The averages over some queries (not none): shares with four decimals, whole tokens.

    ``shows_lines`` is None where no file was found whose lines are wanted.
    """

    def mean(values: Iterable[float]) -> float:
        return round(fmean(values), 4)

    lines = [score.shows_lines for score in scores if score.shows_lines is not None]
    return {
        "queries": len(scores),
        **{f"recall_at_{cut}": mean(score.recall[cut] for score in scores) for cut in CUTS},
        "mrr": mean(score.reciprocal_rank for score in scores),
        "ndcg_at_10": mean(score.ndcg for score in scores),
        "ndcg_interval": [round(end, 4) for end in interval([score.ndcg for score in scores])],
        "missed": mean(score.rank is None for score in scores),
        "shows_lines": mean(lines) if lines else None,
        **{
            f"within_{budget}_tokens": mean(score.is_within(budget) for score in scores)
            for budget in BUDGETS
        },
        "tokens_to_answer_median": round(median(score.tokens for score in scores)),
        "tokens_to_answer_mean": round(fmean(score.tokens for score in scores)),
        "tokens_of_list_mean": round(fmean(score.tokens_listed for score in scores)),
    }


def compare(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures of both, and the NDCG difference with its paired 95 % confidence interval."""
    differences = [outcome.ours.ndcg - outcome.grep.ndcg for outcome in outcomes]
    low, high = interval(differences)
    return {
        "search_code": figures_of([outcome.ours for outcome in outcomes]),
        "grep": figures_of([outcome.grep for outcome in outcomes]),
        "ndcg_difference": {
            "mean": round(fmean(differences), 4),
            "low": round(low, 4),
            "high": round(high, 4),
        },
    }


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
        if any(target.overlaps(lines) for lines in shown.places for target in targets):
            return read
        files = [sizes[lines.path] for lines in shown.places if lines.path in sizes]
        if opened is None and files:
            opened = read + min(files)
    return read + min(sizes.values()) if opened is None else opened


def listed_results(results: Sequence[Mapping[str, Any]], repository_id: str) -> list[ListEntry]:
    """The results of ``search_code`` as list entries.

    An entry costs the whole JSON of the result. It shows the lines of the content, not the context
    lines around it.
    """
    return [
        ListEntry(
            tuple(_places(result, repository_id)),
            len(json.dumps(result, ensure_ascii=False, separators=(",", ":"))),
        )
        for result in results
    ]


def _places(result: Mapping[str, Any], repository_id: str) -> list[Target]:
    copies = [copy for copy in result.get("also_at", ()) if copy["repository_id"] == repository_id]
    return [
        Target(location["file_path"], (location["start_line"], location["end_line"]))
        for location in (result, *copies)
    ]
