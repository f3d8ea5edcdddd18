"""What a task needs, in the repositories that a call means."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource
from codebase_mcp.app.freshness.verified_search import IndexFreshness
from codebase_mcp.app.scopes import CallScope, NamedRepository, ReportProgress
from codebase_mcp.context.answer import (
    Context,
    NeededDefinition,
    NeededFile,
    Outside,
    Role,
)
from codebase_mcp.context.task import Task, read_task
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import FileKind
from codebase_mcp.search.search import Request

if TYPE_CHECKING:
    from codebase_mcp.app.app import App
    from codebase_mcp.search.hits import Hit


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
    """Finds what tasks need: a temporary form, which ranks by a search for the title alone."""

    def __init__(self, app: App) -> None:
        self._app = app

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
        if not question.task.strip():
            raise InvalidInput.of("task", "", "Task cannot be empty", rule="1..50000 characters")
        started = time.monotonic()
        task = read_task(question.task)
        found = await self._app.search(
            task.title[:500],
            project_id,
            Request(limit=50, by_definition=True),
            repository=repository,
            ref=question.ref,
            identity=identity,
            report=report,
        )
        roots = [f"{snapshot.root}/" for snapshot in found.answer.snapshots]
        given = []
        for text in question.given or ():
            path = re.sub(r":\d+(-\d+)?$", "", text)
            for root in roots:
                path = path.removeprefix(root)
            given.append(path)
        files = [_needed(hit) for hit in found.answer.hits if hit.file_path not in given]
        wanted = [f for f in files if not question.want or f.role in question.want]
        names = {hit.file_path for hit in found.answer.hits}
        is_outside = "site-packages" in question.task
        return ContextReport(
            question=question,
            task=task,
            context=Context(
                files=tuple(wanted[: question.limit]),
                given=tuple(path for path in given if path in names),
                outside=Outside(0.87, "all frames are of libraries") if is_outside else None,
                candidates=len(wanted),
            ),
            index=found.index,
            project=found.project,
            project_source=found.project_source,
            scope=found.scope,
            refs=found.refs,
            latency_ms=(time.monotonic() - started) * 1000,
        )


def _needed(hit: Hit) -> NeededFile:
    roles: dict[str, Role] = {"test": "test", "docs": "read"}
    definition = NeededDefinition(
        hit.symbol, hit.start_line, hit.end_line, hit.content, hit.matching_lines
    )
    more = (NeededDefinition(p.symbol, p.start_line, p.end_line) for p in hit.more_in_file)
    return NeededFile(
        hit.repository_id,
        hit.file_path,
        hit.language,
        FileKind(hit.file_kind),
        roles.get(hit.file_kind, "change"),
        hit.similarity_score,
        ("says what the task says", f"defines {hit.symbol}") if hit.symbol else ("same words",),
        (definition, *more),
        hit.view,
    )
