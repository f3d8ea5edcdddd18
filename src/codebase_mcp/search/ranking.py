"""In what order do the files answer, and how sure is each? Candidates, signals and confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codebase_mcp.database.connection import Transaction
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.search.candidates import Candidates, find_candidates
from codebase_mcp.search.changes import Touched
from codebase_mcp.search.confidence import (
    FULL_COVERAGE,
    LEAST_FIRST,
    LEAST_LEAD,
    Confidence,
    QueryEvidence,
    confidences,
    is_by_chance,
    query_evidence,
)
from codebase_mcp.search.hits import ScoredFile
from codebase_mcp.search.lists import ListSource
from codebase_mcp.search.literal import ExactText, LookUp
from codebase_mcp.search.scope import QueryVector, ScopedSnapshot
from codebase_mcp.search.signals import RankedFile, put_first, rank_files
from codebase_mcp.telemetry.stopwatch import step
from codebase_mcp.text.tokens import ALL_CHUNKS

# The least score of a file with the whole question as a text, and that of the first file with a
# part of it.
_WHOLE, _PART = 0.9, 0.6


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidate files, best first, with the confidence in each, and the query's evidence."""

    files: list[RankedFile]
    evidence: QueryEvidence
    candidates: Candidates
    scores: list[Confidence]

    @property
    def total(self) -> int:
        """The number of chunks that match."""
        if self.evidence.is_about_code:
            return self.candidates.total
        return self.candidates.exact.chunk_count if self.candidates.exact else 0


@dataclass(frozen=True, slots=True)
class SearchContext:
    """A transaction, and the input of a search in it.

    ``model`` is the model of the first of the ``vectors``, if there are any. ``topic`` says how
    much the question is about software. ``background`` is the cosine that the nearest chunks would
    have if this code had an answer; 0 if that is unknown. ``respelt`` maps misspelt words to their
    corrections. ``touched`` are the chunks of the changes, in a search within changes. ``look_up``
    finds the exact text of the question, if it has any.
    """

    tx: Transaction
    source: ListSource
    vectors: list[QueryVector]
    model: StaticEmbedder
    topic: float
    background: float
    respelt: dict[str, str]
    touched: Touched | None
    look_up: LookUp | None = None


async def rank(context: SearchContext, first: frozenset[int] = frozenset()) -> Ranking:
    """Rank the candidate files, those of the snapshots ``first`` before others that are close."""
    source, vectors = context.source, context.vectors
    query, scope = source.query, source.scope
    with step("candidates"):
        candidates = await find_candidates(source, vectors, context.look_up)
    depths = {snapshot.id: snapshot.median_depth for snapshot in scope.snapshots}
    with step("ranking"):
        files = rank_files(query, candidates.files, depths, candidates.frequency)
        files = put_first(files, first)
        evidence = query_evidence(
            query,
            files,
            candidates,
            topic=context.topic,
            background=context.background,
            chunks=scope.frequencies.get(ALL_CHUNKS, 0),
        )
        scores = confidences(files, evidence)
    if (
        scores
        and scores[0].similarity > LEAST_FIRST
        and await is_by_chance(source, files[0], vectors, context.model, candidates.frequency)
    ):
        scores = confidences(files, evidence, by_chance=True)
    return Ranking(files, evidence, candidates, scores)


def scored_files(ranking: Ranking, snapshots: Sequence[ScopedSnapshot]) -> list[ScoredFile]:
    """The files with their scores, those with the question's exact text first.

    If the question is unrelated to the code, only these.
    """
    is_about_code, exact = ranking.evidence.is_about_code, ranking.candidates.exact
    if exact is None and not is_about_code:
        return []
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    scored = [
        ScoredFile(
            file,
            confidence.similarity,
            by_id[file.candidate.snapshot_id].repository_id,
            by_id[file.candidate.snapshot_id].view,
            far_behind=confidence.lead < LEAST_LEAD and file.coverage < FULL_COVERAGE,
        )
        for file, confidence in zip(ranking.files, ranking.scores, strict=True)
        if file.candidate.evidence.chunk_count
    ]
    return (
        scored
        if exact is None
        else _with_text_first(scored, exact.text, is_about_code=is_about_code)
    )


def _with_text_first(
    files: Sequence[ScoredFile], text: ExactText, *, is_about_code: bool
) -> list[ScoredFile]:
    """The files that have the exact text before the others, each group in its order.

    If the question is not about the code, only files with the text answer it.
    """
    first = [file for file in files if file.exact_lines]
    others = [file for file in files if not file.exact_lines] if is_about_code else []
    if not first:
        return others
    least = _WHOLE if text.is_whole else max((file.similarity for file in others), default=0.0)
    at_least = [max(files[0].similarity, _PART, least), *(least for _ in first[1:])]
    return [
        *(
            file._replace(similarity=max(file.similarity, score), far_behind=False)
            for file, score in zip(first, at_least, strict=True)
        ),
        *(file._replace(similarity=min(file.similarity, least)) for file in others),
    ]
