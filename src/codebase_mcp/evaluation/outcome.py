"""What did each query get, from us and from grep, and what does it amount to? Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebase_mcp.evaluation.questions import Question
from codebase_mcp.evaluation.scoring import Figures, Lines, Score, Shown, figures_of, interval

# With fewer queries one of them moves an average by more than 0.03.
FEW_QUESTIONS = 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query with the list that it got from us and from grep, and what each is worth."""

    question: Question
    ours: Score
    grep: Score
    listed: Sequence[Shown]
    grepped: Sequence[Shown]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of both; ``difference`` is that of the NDCG, query by query, at 95 %."""

    ours: Figures
    grep: Figures
    difference: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcomes of all queries on one repository; ``notes`` are what its index lacks."""

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
        """The queries that got least from us and not all; of equals those that cost most."""
        lost = [one for one in self.outcomes if one.ours.ndcg < 1]
        return sorted(lost, key=lambda one: (one.ours.ndcg, -one.ours.tokens))[:count]


def compared(outcomes: Sequence[Outcome]) -> Comparison:
    """The figures of some outcomes, at least one."""
    return Comparison(
        figures_of([one.ours for one in outcomes]),
        figures_of([one.grep for one in outcomes]),
        interval([one.ours.ndcg - one.grep.ndcg for one in outcomes]),
    )


def shown_results(results: Sequence[Mapping[str, Any]], repository_id: str) -> list[Shown]:
    """The results of ``search_code`` as places that are read.

    Each costs all that stands in its JSON: content, lines around it, names. What it shows is the
    content; the lines around are only there to understand it.
    """
    return [
        Shown(
            tuple(_places(result, repository_id)),
            len(json.dumps(result, ensure_ascii=False, separators=(",", ":"))),
        )
        for result in results
    ]


def _places(result: Mapping[str, Any], repository_id: str) -> list[Lines]:
    same = (one for one in result.get("also_at", ()) if one["repository_id"] == repository_id)
    return [Lines(one["file_path"], one["start_line"], one["end_line"]) for one in (result, *same)]
