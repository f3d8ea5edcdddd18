"""What a task needs, in the repositories that a call means."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource
from codebase_mcp.app.evidence import Evidence, Gatherer, candidates
from codebase_mcp.app.freshness.verified_search import IndexFreshness
from codebase_mcp.app.scopes import (
    CallScope,
    NamedRepository,
    ReportProgress,
    again_if_lost,
)
from codebase_mcp.context.answer import Context, NeededDefinition, NeededFile, Outside, Role
from codebase_mcp.context.features import COLUMNS, Features, Floats
from codebase_mcp.context.mixture import Probabilities, mixture
from codebase_mcp.context.task import Task
from codebase_mcp.database.naming import Project
from codebase_mcp.model import WORKTREE, FileKind
from codebase_mcp.search.search import Searcher
from codebase_mcp.secrets.masking import mask_token
from codebase_mcp.symbols.storage import load_around, load_texts

if TYPE_CHECKING:
    from codebase_mcp.app.app import App
    from codebase_mcp.search.hits import Hit

# Below this probability a cause elsewhere is not mentioned. Traces of libraries alone make "not
# elsewhere" this many times less probable.
_LEAST_OUTSIDE = 0.5
_LIBRARY_ODDS = 4.0
_FEW_NAMES = 0.34
_MOST_NAMES = 3

# Definitions of a file, lines of the task that are looked up, lines shown around those that lie
# outside of all definitions.
_MOST_DEFINITIONS = 3
_MOST_LINES = 40
_AROUND = 4

# Of all places this part is for tests, and this for documents.
_TESTS, _DOCUMENTS = 4, 10

# A file of code that is less likely to be changed is to be read, but for the first ones.
_LEAST_CHANGE = 0.05
_LEAST_CHANGES = 3


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
        return await self._find(question, scope, started)

    @again_if_lost
    async def _find(
        self, question: ContextQuestion, scope: CallScope, started: float
    ) -> ContextReport:
        project, source = scope.project, scope.source
        async with self._app.resolver.raise_not_found_if_dropped(project, source):
            scope.require_listed()
            refs: Mapping[str, str] = {}
            ids = scope.snapshot_ids
            if question.ref is None or question.ref == WORKTREE:
                await self._app.freshness.follow(project, ids, first=scope.first)
            else:
                chosen = await self._app.views.choose_one(project, question.ref, scope.only)
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
        features = evidence.features
        rows = candidates(features, evidence.given)
        matrix = features.matrix(rows)
        probabilities = mixture().probabilities(matrix, features.guess[rows])
        order = np.lexsort((features.table.by_path[rows], -probabilities)).tolist()
        likeliest = ((rows[at], float(probabilities[at])) for at in order)
        needed = with_roles(features, likeliest, question.want or get_args(Role))
        shown = _by_role(features, needed, question.limit)
        shown_rows = [row for row, *_ in shown]
        definitions = await self._at_lines(project, evidence, shown_rows)
        for row, hit in (await self._hits(project, evidence, shown_rows)).items():
            definitions[row].append(
                NeededDefinition(
                    hit.symbol, hit.start_line, hit.end_line, hit.content, hit.matching_lines
                )
            )
        for row in shown_rows:
            for each in evidence.defined.get(row, ()):
                named = NeededDefinition(each.name, each.start_line, each.end_line)
                definitions[row].append(named)
        paths = tuple(features.files[row].path for row in evidence.given)
        outside = None if evidence.given else _outside(evidence, matrix, probabilities)
        files = (_needed_file(features, *each, definitions[each[0]]) for each in shown)
        return Context(tuple(files), paths, outside, len(rows))

    async def _at_lines(
        self, project: Project, evidence: Evidence, rows: Sequence[int]
    ) -> defaultdict[int, list[NeededDefinition]]:
        """The innermost definitions around the lines that the task names, by row."""
        of_row: defaultdict[int, list[NeededDefinition]] = defaultdict(list)
        places = [
            (row, text_id, line)
            for row in rows
            for line in evidence.lines.get(row, ())
            if (text_id := evidence.features.files[row].text_id) is not None
        ][:_MOST_LINES]
        if not places:
            return of_row
        async with self._app.database.bounded_read(project) as tx:
            around = await load_around(tx, {(text_id, line) for _, text_id, line in places})
            content = await load_texts(tx, {text_id for _, text_id, _ in places})
        for row, text_id, line in places:
            name, start, end = None, max(line - _AROUND, 1), line + _AROUND
            if inside := around.get((text_id, line)):
                innermost = inside[-1]
                name, start, end = innermost.qualified, innermost.start_line, innermost.end_line
            lines = content.get(text_id, [])[start - 1 : end]
            if lines and all(d.start_line != start for d in of_row[row]):
                of_row[row].append(
                    NeededDefinition(name, start, start + len(lines) - 1, "".join(lines), (line,))
                )
        return of_row

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


def with_roles(
    features: Features, likeliest: Iterable[tuple[int, float]], wanted: Sequence[Role]
) -> Iterator[tuple[int, Role, float]]:
    """The files of the wanted roles. Unlikely files of code are to be read, if that is wanted, but
    for the first ones."""
    changes = 0
    for row, probability in likeliest:
        kind = features.kind(row)
        role: Role = "read"
        if kind is FileKind.TEST:
            role = "test"
        elif kind in (FileKind.CODE, FileKind.CONFIG):
            is_first = kind is FileKind.CODE and changes < _LEAST_CHANGES
            is_likely = probability >= _LEAST_CHANGE or is_first
            role = "change" if is_likely or "read" not in wanted else "read"
            changes += kind is FileKind.CODE
        if role in wanted:
            yield row, role, probability


def _by_role(
    features: Features, needed: Iterable[tuple[int, Role, float]], limit: int
) -> list[tuple[int, Role, float]]:
    """Which files to show, and in which order: those to change, then tests, then those to read.

    Tests and documents get a part of the places, and more if others leave places free.
    """
    left = {"test": max(limit // _TESTS, 1), "read": max(limit // _DOCUMENTS, 1)}
    shown: list[tuple[int, Role, float]] = []
    others: list[tuple[int, Role, float]] = []
    for row, role, probability in needed:
        is_late = False
        if features.kind(row) not in (FileKind.CODE, FileKind.CONFIG):
            left[role] -= 1
            is_late = left[role] < 0
        (others if is_late else shown).append((row, role, probability))
        if len(shown) == limit:
            break
    order = {"change": 0, "test": 1, "read": 2}
    return sorted([*shown, *others][:limit], key=lambda each: order[each[1]])


def _needed_file(
    features: Features,
    row: int,
    role: Role,
    probability: float,
    definitions: Sequence[NeededDefinition],
) -> NeededFile:
    file = features.files[row]
    kept: dict[int, NeededDefinition] = {}
    for definition in definitions:
        kept.setdefault(definition.start_line, definition)
    return NeededFile(
        repository_id=file.snapshot.repository_id,
        path=file.path,
        language=file.language,
        kind=features.kind(row),
        role=role,
        probability=round(probability, 3),
        reasons=features.reasons(row),
        definitions=tuple(kept.values())[:_MOST_DEFINITIONS],
        view=file.snapshot.view,
    )


def _outside(evidence: Evidence, matrix: Floats, probabilities: Probabilities) -> Outside | None:
    """Whether the cause is probably elsewhere, and why."""
    task = evidence.task
    probability = mixture().outside_probability(matrix, probabilities)
    libraries = [path.path for path in task.paths if path.is_library]
    is_own = any(matrix[:, COLUMNS.index(name)].any() for name in ("frame", "reported", "named"))
    if libraries and not is_own:  # histories have no such tasks: the share is a choice
        probability = 1 - (1 - probability) / _LIBRARY_ODDS
        reason = f"all frames of the trace are in libraries, first {libraries[0]}"
    elif task.names and (
        not len(matrix) or matrix[0, COLUMNS.index("names_of_task_known")] < _FEW_NAMES
    ):
        names = ", ".join(task.names[:_MOST_NAMES])
        reason = f"hardly any of its names occurs here ({names})"
    else:
        best = max(probabilities, default=0.0)
        reason = f"no file resembles it; the likeliest has a probability of {best:.2f}"
    if probability < _LEAST_OUTSIDE:
        return None
    return Outside(round(probability, 3), reason)
