"""How is one job done? The run itself, and what becomes of the job if it does not succeed.

What needed something that was away is tried again, a few times. A worker that is told to end gives
its job back. Anything else that goes wrong is the job's end, and the job says why.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import procrastinate
from procrastinate.exceptions import JobAborted
from procrastinate.job_context import AbortReason, JobContext
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy, RetryDecision

from codebase_mcp.app import App
from codebase_mcp.database.jobs import JobsConnector, OwnJobs
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.errors import (
    CodebaseError,
    DatabaseUnavailable,
    IndexingFailed,
    InternalError,
)
from codebase_mcp.index.queue import QUEUE, TASK
from codebase_mcp.index.runs import mark_cancelled

_log = logging.getLogger(__name__)

# After 5, 10, 20 and 40 seconds; what is away for longer somebody has to see to.
_MOST_TRIES = 5
_FIRST_PAUSE_S = 5


class _BrokenOff(IndexingFailed):
    """A run that stored something and then missed what it needs: the next one goes on."""


class _TryAgain(BaseRetryStrategy):
    """Whether a job goes back to the queue, and for how long it waits there."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if isinstance(exception, asyncio.CancelledError):  # the worker ends
            return RetryDecision()
        is_away = isinstance(exception, DatabaseUnavailable | _BrokenOff)
        if not is_away or job.attempts + 1 >= _MOST_TRIES:
            return None
        return RetryDecision(retry_in={"seconds": _FIRST_PAUSE_S << job.attempts})


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the job library finds what it needs to do our jobs."""

    library: procrastinate.App
    connector: JobsConnector

    @classmethod
    def of(cls, app: App) -> Desk:
        """A desk for one process."""
        # It reports each job in full; what users should know, we say.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
        connector = JobsConnector(app.jobs.database)
        library = procrastinate.App(connector=connector)
        library.job_manager = OwnJobs(connector)

        async def index(context: JobContext, /, **arguments: Any) -> None:
            await _do(app, context, arguments)

        library.task(name=TASK, queue=QUEUE, pass_context=True, retry=_TryAgain())(index)
        return cls(library, connector)


async def _do(app: App, context: JobContext, arguments: dict[str, Any]) -> None:
    """Run what a job asks for.

    Raises:
        JobAborted: somebody cancelled it.
        CodebaseError: it failed; the job says why.
    """
    job_id = context.job.id
    assert job_id is not None
    root = arguments["root"]
    _log.info("Job %d begins: index %s", job_id, root)
    try:
        await _index(app, arguments)
    except asyncio.CancelledError:
        if context.abort_reason() is AbortReason.USER_REQUEST:
            _log.info("Job %d was cancelled: index %s", job_id, root)
            async with app.enter(arguments["project_id"] or DEFAULT_ID) as here:
                await mark_cancelled(here.tx, UUID(arguments["operation_id"]))
            raise JobAborted from None
        _log.info("Job %d goes back to the queue: index %s", job_id, root)
        raise
    except CodebaseError as error:
        _log.warning("Job %d failed: index %s: %s", job_id, root, error.message)
        await app.jobs.note_error(job_id, error)
        raise
    except Exception as error:
        known = _unforeseen(error)
        await app.jobs.note_error(job_id, known)
        raise known from error
    _log.info("Job %d is done: index %s", job_id, root)


async def _index(app: App, arguments: dict[str, Any]) -> None:
    report = await app.index(
        arguments["root"],
        arguments["project_id"] or DEFAULT_ID,
        name=arguments.get("name"),
        force_reindex=arguments["force"],
        history_depth=arguments.get("depth"),
        operation_id=UUID(arguments["operation_id"]),
    )
    if report.run.status == "failed":
        raise _BrokenOff(
            report.run.errors[-1], hint="What was stored is searchable; the next run goes on."
        )


def _unforeseen(error: Exception) -> InternalError:
    error_id = str(uuid4())
    _log.error("unforeseen error %s", error_id, exc_info=error)
    return InternalError(
        "Something unforeseen went wrong while indexing",
        hint="Look for the error_id in the log of the worker and report it.",
        details={"error_id": error_id},
    )
