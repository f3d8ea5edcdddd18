"""Search results with everything known about them: freshness, help, notes, uses, last changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, get_args

from codebase_mcp.app.freshness.verified_search import Freshness, IndexFreshness
from codebase_mcp.app.reports import SearchReport
from codebase_mcp.app.scopes import CallScope, FirstRun, again_if_lost
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import CodebaseError, StandbyLost
from codebase_mcp.index.progress import RunPhase, percent
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.help import IndexCoverage, is_weak
from codebase_mcp.search.search import Answer, Request, SearchedSnapshots, Searcher
from codebase_mcp.secrets.masking import mask_token
from codebase_mcp.symbols.definition import PROSE_KINDS
from codebase_mcp.symbols.references import Usage, usage_of
from codebase_mcp.telemetry.metrics import SEARCH_STEP_DURATION, SLOW_SEARCHES
from codebase_mcp.telemetry.stopwatch import (
    Stopwatch,
    bound,
    duration,
    step,
    steps_in_words,
    stopwatch,
)

if TYPE_CHECKING:
    from codebase_mcp.app.app import App
    from codebase_mcp.database.naming import Project
    from codebase_mcp.records.anchors import Note
    from codebase_mcp.search.history import LastChange
    from codebase_mcp.search.misses import Misses

_log = logging.getLogger(__name__)

# A first hit that scores less seldom answers the question.
LEAST_SCORE = 0.25

SLOW_S = 0.5
WARNINGS_EVERY_S = 1.0


class SlowSearches:
    """Warns of slow searches, with their steps: at most one warning per second.

    It gives the number of slow searches before it that were not logged.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_warning = float("-inf")
        self._not_logged = 0

    def record(self, watch: Stopwatch) -> None:
        """Warn of a search that took too long."""
        seconds = watch.elapsed_s()
        if seconds < SLOW_S:
            return
        SLOW_SEARCHES.add()
        now = self._clock()
        if now < self._next_warning:
            self._not_logged += 1
            return
        self._next_warning = now + WARNINGS_EVERY_S
        not_logged, self._not_logged = self._not_logged, 0
        # Outside of all steps it mostly waits for the event loop while further calls compute.
        spent = {**watch.seconds, "other": max(seconds - sum(watch.seconds.values()), 0.0)}
        steps = {name: round(of_step * 1000, 1) for name, of_step in spent.items()}
        with bound(duration_ms=round(seconds * 1000, 1), steps_ms=steps):
            _log.warning(
                "a search took %s (%s)%s",
                duration(seconds),
                steps_in_words(spent),
                f"; {not_logged} slow searches before it were not logged" if not_logged else "",
            )


async def usage_of_first(database: Database, project: Project, answer: Answer) -> Usage | None:
    """The certain uses of the first hit; None without such uses, or if they cannot be read."""
    hit = next(iter(answer.hits), None)
    if hit is None or hit.symbol is None or hit.kind in PROSE_KINDS:
        return None
    view = hit.repository_id, hit.view
    snapshot = next((s.id for s in answer.snapshots if (s.repository_id, s.view) == view), None)
    if snapshot is None or hit.similarity_score < LEAST_SCORE:
        return None
    lines = hit.start_line, hit.end_line
    try:
        async with database.bounded_read(project) as tx:
            return await usage_of(tx, snapshot, hit.file_path, hit.symbol, lines)
    except StandbyLost:
        raise
    except CodebaseError:
        return None


class Searches:
    """Answers questions in the projects of a database."""

    def __init__(
        self, searcher: Searcher, freshness: Freshness, app: App, *, only_once: bool = False
    ) -> None:
        self._searcher = searcher
        self._freshness = freshness
        self._app = app
        self._slow = None if only_once else SlowSearches()

    @cached_property
    def _misses(self) -> Misses:
        from codebase_mcp.search.misses import Misses  # noqa: PLC0415 - a command pays for it

        return Misses(self._app.database, self._app.models, self._searcher)

    async def close(self) -> None:
        """Drop the caches for help."""
        if "_misses" in vars(self):
            self._misses.close()

    @staticmethod
    def timed() -> AbstractContextManager[Stopwatch]:
        """Time the steps of a search in the block."""
        return stopwatch(
            "search", lambda name, seconds: SEARCH_STEP_DURATION.observe(seconds, name)
        )

    def warn_if_slow(self, watch: Stopwatch) -> None:
        """Log the steps of a slow search."""
        if self._slow is not None:
            self._slow.record(watch)

    @again_if_lost
    async def report(
        self,
        scope: CallScope,
        query: str,
        request: Request,
        *,
        ref: str | None,
        watch: Stopwatch,
        with_notes: bool,
        with_help: bool,
        with_history: bool,
    ) -> SearchReport:
        """The answer from the repositories of a scope."""
        project, database = scope.project, self._app.database
        answer, truth, names = await self._answer(scope, query, request, ref)
        help_ = None
        if with_help and is_weak(answer.hits) and (answer.snapshots or not scope.first_runs):
            coverage = IndexCoverage(truth.state, truth.files_pending, truth.files_failed)
            is_named = request.filters.repository_id is not None
            ids = None if is_named or ref is not None else scope.snapshot_ids
            with step("help"):
                help_ = await self._misses.help(
                    project,
                    query,
                    filters=request.filters,
                    snapshot_ids=ids,
                    answer=answer,
                    coverage=coverage,
                )
        notes: Sequence[tuple[Note, ...]] = ()
        with step("notes"):
            if with_notes:
                from codebase_mcp.records.anchors import notes_on  # noqa: PLC0415 - seldom asked for

                async with database.bounded_read(project) as tx:
                    notes = await notes_on(tx, answer.hits)
            usage = await usage_of_first(database, project, answer)
        changes: tuple[LastChange | None, ...] = ()
        if with_history:
            with step("history"):
                changes = await self._app.history.last_changes(project, answer)
        latency_ms = watch.elapsed_s() * 1000
        return SearchReport(
            answer=answer,
            project=project,
            project_source=scope.source,
            index=truth,
            latency_ms=latency_ms,
            scope=scope,
            notes=tuple(notes),
            help=help_,
            refs={commit: mask_token(name) for commit, name in names.items()},
            last_changes=changes,
            usage=usage,
        )

    async def _answer(
        self, scope: CallScope, query: str, request: Request, ref: str | None
    ) -> tuple[Answer, IndexFreshness, Mapping[str, str]]:
        """The answer, its freshness, and the ref of each commit that was searched."""
        project = scope.project
        # The snapshots already restrict the repository; a filter would check it again.
        filters = replace(request.filters, repository_id=None)
        request = replace(request, filters=filters)
        snapshots = SearchedSnapshots(scope.snapshot_ids, first=scope.first)
        search = partial(self._freshness.search, project, query, request)
        names: Mapping[str, str] = {}
        if scope.first_runs and not scope.trees:
            answer = Answer([], 0, 0, total_is_lower_bound=False, snapshots=())
            truth = await self._freshness.state_of(project, ())
        elif ref is None or ref == WORKTREE:
            answer, truth = await search(snapshots)
        else:
            answer, truth, names = await self._app.views.search(
                project, ref, snapshots, search, only=scope.only
            )
        if scope.first_runs:
            truth = _still_indexing(truth, scope.first_runs)
        return answer, truth, names


def _still_indexing(truth: IndexFreshness, runs: Sequence[FirstRun]) -> IndexFreshness:
    """The freshness of an answer while repositories are indexed for the first time."""
    left = [run.seconds_left for run in runs]
    phases = {run.progress.phase for run in runs}
    return replace(
        truth,
        state="indexing",
        files_pending=sum(run.progress.total - run.progress.done for run in runs),
        phase=next(phase for phase in get_args(RunPhase) if phase in phases),
        percent=min(percent(run.progress.done, run.progress.total) for run in runs),
        seconds_left=None if None in left else max(s for s in left if s is not None),
    )
