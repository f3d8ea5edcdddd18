"""What a task needs, in the repositories that a call means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource
from codebase_mcp.app.freshness.verified_search import IndexFreshness
from codebase_mcp.app.scopes import CallScope, NamedRepository, ReportProgress
from codebase_mcp.context.answer import Context, Role
from codebase_mcp.context.task import Task
from codebase_mcp.database.projects import Project


@dataclass(frozen=True, slots=True)
class ContextQuestion:
    """A task, and what is wanted for it: at most ``limit`` files of some roles; empty means all.

    ``given`` are paths, or ``path:first-last``, that the caller has already; None means the files
    of the uncommitted change. ``ref`` is a branch, tag or commit; None means the files on disk.
    """

    task: str
    given: tuple[str, ...] | None = None
    want: tuple[Role, ...] = ()
    ref: str | None = None
    limit: int = 20


@dataclass(frozen=True, slots=True)
class ContextReport:
    """What a task needs, with the state of the index; ``refs`` maps commits to their refs."""

    question: ContextQuestion
    task: Task
    context: Context
    index: IndexFreshness
    project: Project
    project_source: ProjectSource
    scope: CallScope
    refs: Mapping[str, str]
    latency_ms: float


class ContextSearch:
    """Finds what tasks need."""

    async def find(
        self,
        question: ContextQuestion,
        project_id: str | None = None,
        identity: Identity = ANONYMOUS,
        *,
        repository: NamedRepository = None,
        report: ReportProgress | None = None,
    ) -> ContextReport:
        """The files that a task needs; ``repository`` and ``report`` are as for `App.search`.

        Raises:
            InvalidInput: the task, a given path or the ref is invalid.
            ProjectNotFound: unknown, or never indexed.
            IndexingFailed: the ref is still being indexed, or cannot be.
            DatabaseUnavailable: the index cannot be read.
        """
        raise NotImplementedError
