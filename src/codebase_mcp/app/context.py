"""What a task needs, in the repositories that a call means."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource
from codebase_mcp.app.evidence import Evidence, Gatherer, candidates
from codebase_mcp.app.freshness.verified_search import IndexFreshness
from codebase_mcp.app.scopes import CallScope, NamedRepository, ReportProgress
from codebase_mcp.context.answer import Context, NeededDefinition, NeededFile, Role
from codebase_mcp.context.mixture import mixture
from codebase_mcp.context.task import Task
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.model import WORKTREE, FileKind
from codebase_mcp.search.search import Searcher
from codebase_mcp.secrets.masking import mask_token

if TYPE_CHECKING:
    from codebase_mcp.app.app import App
    from codebase_mcp.search.hits import Hit

# A file of code that is less likely to be changed is to be read.
_LEAST_CHANGE = 0.05


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
    """Finds what tasks need, in the projects of a database."""

    def __init__(self, app: App, searcher: Searcher) -> None:
        self._app = app
        self._searcher = searcher
        self.evidence = Gatherer(app, searcher)

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
        started = time.monotonic()
        scope = await self._app.scopes.resolve(project_id, identity, repository, report=report)
        project, source = scope.project, scope.source
        async with self._app.resolver.raise_not_found_if_dropped(project, source):
            scope.require_listed()
            refs: Mapping[str, str] = {}
            ids = scope.snapshot_ids
            if question.ref is None or question.ref == WORKTREE:
                await self._app.freshness.follow(project, ids)
            else:
                chosen = await self._app.views.choose(project, question.ref, scope.only)
                if scope.trees and not chosen.snapshot_ids:
                    raise IndexingFailed(
                        f"{question.ref} is still being indexed", hint="Ask again in some seconds."
                    )
                ids, refs = chosen.snapshot_ids, chosen.names
            evidence = await self.evidence.gather(scope, question.task, question.given, ids)
            context = await self._answer(project, question, evidence)
            index = await self._app.freshness.state_of(project, evidence.snapshots)
        return ContextReport(
            question=question,
            task=evidence.task,
            context=context,
            index=index,
            project=project,
            project_source=source,
            scope=scope,
            refs={commit: mask_token(name) for commit, name in refs.items()},
            latency_ms=(time.monotonic() - started) * 1000,
        )

    async def _answer(
        self, project: Project, question: ContextQuestion, evidence: Evidence
    ) -> Context:
        """The files to show, with their definitions."""
        features, given = evidence.features, set(evidence.given)
        rows = [row for row in candidates(features) if row not in given]
        probabilities = mixture().probabilities(features.matrix(rows)) if rows else ()
        wanted = question.want or get_args(Role)
        needed = []
        for row, probability in zip(rows, probabilities, strict=True):
            role = role_of(features.kind(row), float(probability), wanted)
            if role in wanted:
                needed.append((row, role, float(probability)))
        needed.sort(key=lambda each: (-each[2], features.files[each[0]].path))
        shown = _by_role(needed, question.limit)
        hits = await self._hits(project, evidence, [row for row, *_ in shown])
        files = [
            _needed_file(evidence, row, role, probability, hits.get(row))
            for row, role, probability in shown
        ]
        paths = tuple(features.files[row].path for row in evidence.given)
        return Context(tuple(files), paths, None, len(rows))

    async def _hits(
        self, project: Project, evidence: Evidence, rows: Sequence[int]
    ) -> dict[int, Hit]:
        """The best definitions of files, by row; of files that the search did not rank none."""
        keys = {
            (evidence.features.files[row].snapshot.id, evidence.features.files[row].path)
            for row in rows
        }
        hits = await self._searcher.definitions(
            project, evidence.text, evidence.ranking, keys, evidence.searched
        )
        ids = {(s.repository_id, s.view): s.id for s in evidence.snapshots}
        return {
            evidence.features.rows[ids[hit.repository_id, hit.view], hit.file_path]: hit
            for hit in hits
        }


def role_of(kind: FileKind, probability: float, wanted: Sequence[Role]) -> Role:
    """What to do with a file: unlikely files of code are to be read, if that is wanted."""
    if kind is FileKind.TEST:
        return "test"
    if kind not in (FileKind.CODE, FileKind.CONFIG):
        return "read"
    return "change" if probability >= _LEAST_CHANGE or "read" not in wanted else "read"


def _by_role(
    needed: Sequence[tuple[int, Role, float]], limit: int
) -> list[tuple[int, Role, float]]:
    """Which files to show, and in which order: those to change, then tests, then those to read."""
    order = {"change": 0, "test": 1, "read": 2}
    return sorted(needed[:limit], key=lambda each: order[each[1]])


def _needed_file(
    evidence: Evidence, row: int, role: Role, probability: float, hit: Hit | None
) -> NeededFile:
    features = evidence.features
    file = features.files[row]
    definitions = []
    if hit is not None:
        definitions.append(
            NeededDefinition(
                hit.symbol, hit.start_line, hit.end_line, hit.content, hit.matching_lines
            )
        )
    for each in evidence.defined.get(row, ()):
        if all(each.name != d.name for d in definitions):
            definitions.append(NeededDefinition(each.name, each.start_line, each.end_line))
    return NeededFile(
        repository_id=file.snapshot.repository_id,
        path=file.path,
        language=file.language,
        kind=features.kind(row),
        role=role,
        probability=round(probability, 3),
        reasons=features.reasons(row),
        definitions=tuple(definitions[:3]),
        view=file.snapshot.view,
    )
