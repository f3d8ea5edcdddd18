"""How is a job run, and how does it end if the run fails?

If the database is unavailable or a run ends half way, the job is retried a few times. A worker that
is stopped returns its job to the queue. Other errors end the job and are stored with it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import procrastinate
from procrastinate.exceptions import JobAborted
from procrastinate.job_context import AbortReason, JobContext
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy, RetryDecision

from codebase_mcp.access.identity import ANONYMOUS, Access, Identity
from codebase_mcp.app.app import App
from codebase_mcp.app.clones import update_clone
from codebase_mcp.database.jobs import JobsConnector, OwnJobs
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.errors import CodebaseError, DatabaseUnavailable, IndexingFailed, InternalError
from codebase_mcp.index.queue import QUEUE, TASK
from codebase_mcp.index.runs import mark_cancelled

_log = logging.getLogger(__name__)

# Retries after 5, 10, 20 and 40 seconds; a longer outage needs an operator.
_MAX_ATTEMPTS = 5
_RETRY_DELAY_S = 5


class _RunInterrupted(IndexingFailed):
    """A run that stored a part and then failed; the next run continues from there."""


class _RetryWhileUnavailable(BaseRetryStrategy):
    """Retries a job with a growing delay if the database is unavailable or a run ends half way."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if isinstance(exception, asyncio.CancelledError):  # the worker stops
            return RetryDecision()
        is_unavailable = isinstance(exception, DatabaseUnavailable | _RunInterrupted)
        if not is_unavailable or job.attempts + 1 >= _MAX_ATTEMPTS:
            return None
        return RetryDecision(retry_in={"seconds": _RETRY_DELAY_S << job.attempts})


@dataclass(frozen=True, slots=True)
class JobRunner:
    """The job library, configured to run index jobs of this app."""

    library: procrastinate.App
    connector: JobsConnector

    @classmethod
    def of(cls, app: App) -> JobRunner:
        # The library logs every job in full; we log what users need.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
        connector = JobsConnector(app.database)
        library = procrastinate.App(connector=connector)
        library.job_manager = OwnJobs(connector)

        async def index(context: JobContext, /, **arguments: Any) -> None:
            await _run_job(app, context, arguments)

        library.task(name=TASK, queue=QUEUE, pass_context=True, retry=_RetryWhileUnavailable())(
            index
        )
        return cls(library, connector)


async def _run_job(app: App, context: JobContext, arguments: dict[str, Any]) -> None:
    """Run the index run of a job.

    Raises:
        JobAborted: a user cancelled it.
        CodebaseError: it failed; the error is stored with the job.
    """
    job_id = context.job.id
    assert job_id is not None
    root = arguments["root"]
    _log.info("Job %d started: index %s", job_id, root)
    try:
        await _index(app, arguments)
    except asyncio.CancelledError:
        if context.abort_reason() is AbortReason.USER_REQUEST:
            _log.info("Job %d was cancelled: index %s", job_id, root)
            async with app.enter(arguments["project_id"] or DEFAULT_ID) as entered:
                await mark_cancelled(entered.tx, UUID(arguments["operation_id"]))
            raise JobAborted from None
        _log.info("Job %d returned to the queue: index %s", job_id, root)
        raise
    except CodebaseError as error:
        _log.warning("Job %d failed: index %s: %s", job_id, root, error.message)
        await app.jobs.note_error(job_id, error)
        raise
    except Exception as error:
        error_id = str(uuid4())
        _log.error("unexpected error %s", error_id, exc_info=error)
        unexpected = InternalError(
            "Indexing failed with an unexpected error",
            hint="Find the error_id in the log of the worker and report it.",
            details={"error_id": error_id},
        )
        await app.jobs.note_error(job_id, unexpected)
        raise unexpected from error
    _log.info("Job %d is done: index %s", job_id, root)


async def _index(app: App, arguments: dict[str, Any]) -> None:
    if arguments.get("fetch"):
        await update_clone(app.settings, Path(arguments["root"]))
    report = await app.index(
        arguments["root"],
        arguments["project_id"] or DEFAULT_ID,
        name=arguments.get("name"),
        force_reindex=arguments["force"],
        history_depth=arguments.get("depth"),
        operation_id=UUID(arguments["operation_id"]),
        identity=_caller_of(arguments),
    )
    if report.run.status == "failed":
        raise _RunInterrupted(
            report.run.errors[-1],
            hint="What was stored is searchable; the next run continues from there.",
        )


def _caller_of(arguments: dict[str, Any]) -> Identity:
    """The caller for whom the path of a job is checked again; anonymous if none is needed."""
    if not arguments.get("in_roots"):
        return ANONYMOUS
    roots = arguments.get("roots")
    access = Access(reads_as_server=False, roots=None if roots is None else tuple(roots))
    return Identity(access=access)
