"""What were the results of each query, from us and from grep, and how do they compare? Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebase_mcp.evaluation.questions import Question
from codebase_mcp.evaluation.scoring import (
    Figures,
    LineRange,
    ListEntry,
    Score,
    figures_of,
    interval,
)

# With fewer queries one of them moves an average by more than 0.03.
FEW_QUESTIONS = 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query with its results from us and from grep, and their scores."""

    question: Question
    ours: Score
    grep: Score
    listed: Sequence[ListEntry]
    grepped: Sequence[ListEntry]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both averages, and the 95 % confidence interval of the paired NDCG difference."""

    ours: Figures
    grep: Figures
    difference: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcomes of all queries on one repository; ``notes`` tell what the index lacks."""

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
        """The outcomes by group, where there is more than one."""
        names = sorted({one.question.group for one in self.outcomes})
        if len(names) < 2:
            return {}
        return {n: [one for one in self.outcomes if one.question.group == n] for n in names}

    def worst(self, count: int) -> list[Outcome]:
        """The queries with our lowest NDCG below 1; among equals those with the most tokens."""
        lost = [one for one in self.outcomes if one.ours.ndcg < 1]
        return sorted(lost, key=lambda one: (one.ours.ndcg, -one.ours.tokens))[:count]


def compare(outcomes: Sequence[Outcome]) -> Comparison:
    """The averages of some outcomes, at least one."""
    return Comparison(
        figures_of([one.ours for one in outcomes]),
        figures_of([one.grep for one in outcomes]),
        interval([one.ours.ndcg - one.grep.ndcg for one in outcomes]),
    )


def listed_results(results: Sequence[Mapping[str, Any]], repository_id: str) -> list[ListEntry]:
    """The results of ``search_code`` as list entries.

    An entry costs the whole JSON of the result. It shows the lines of the content, but not those
    around it, which are context.
    """
    return [
        ListEntry(
            tuple(_places(result, repository_id)),
            len(json.dumps(result, ensure_ascii=False, separators=(",", ":"))),
        )
        for result in results
    ]


def _places(result: Mapping[str, Any], repository_id: str) -> list[LineRange]:
    same = (one for one in result.get("also_at", ()) if one["repository_id"] == repository_id)
    return [
        LineRange(one["file_path"], one["start_line"], one["end_line"]) for one in (result, *same)
    ]
