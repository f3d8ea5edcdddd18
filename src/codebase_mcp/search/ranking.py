"""In what order do the candidate files answer the question? Pure: evidence in, order out.

A file's score is the sum of its signals (``signals.py``), each times its weight.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul

from codebase_mcp.search.evidence import CandidateFile
from codebase_mcp.search.query import Query
from codebase_mcp.search.signals import SIGNALS, WEIGHTS, CandidateSet

# Files of the caller's own repository gain this share of the best score.
OWN_LEAD = 0.05

_NAMES = tuple(WEIGHTS)
_WEIGHTS = tuple(WEIGHTS.values())


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A candidate with its ranking score and its signals, which have no weights yet.

    ``coverage`` is the share of the query in the file's best chunk: its BM25 score divided by the
    sum of the inverse document frequencies of the query's words. It is 1 or more if all occur.
    """

    candidate: CandidateFile
    score: float
    signals: dict[str, float]
    coverage: float

    def weighted(self) -> dict[str, float]:
        """The contribution of each signal to the score."""
        return {name: WEIGHTS[name] * value for name, value in self.signals.items() if value}


def rank_files(
    query: Query,
    candidates: Sequence[CandidateFile],
    median_depth: Mapping[int, float],
    frequency: Mapping[str, float],
) -> list[RankedFile]:
    """Order candidates, best first.

    ``median_depth`` is each snapshot's; ``frequency`` gives each query stem's inverse document
    frequency.
    """
    candidate_set = CandidateSet.of(query, candidates, median_depth, frequency)
    columns = [signal.values(candidate_set) for signal in SIGNALS]
    ranked = [
        RankedFile(
            candidate,
            sum(map(mul, _WEIGHTS, values)),
            dict(zip(_NAMES, values, strict=True)),
            coverage,
        )
        for candidate, coverage, values in zip(
            candidates, candidate_set.coverages, zip(*columns, strict=True), strict=True
        )
    ]
    ranked.sort(key=lambda file: (-file.score, file.candidate.path))
    return ranked


def put_first(ranked: list[RankedFile], snapshot_ids: Collection[int]) -> list[RankedFile]:
    """Move files of some snapshots before files whose scores are close."""
    if not snapshot_ids or all(file.candidate.snapshot_id in snapshot_ids for file in ranked):
        return ranked
    lead = OWN_LEAD * max(ranked[0].score, 0.0)
    raised = [
        replace(file, score=file.score + lead)
        if file.candidate.snapshot_id in snapshot_ids
        else file
        for file in ranked
    ]
    return sorted(raised, key=lambda file: (-file.score, file.candidate.path))
