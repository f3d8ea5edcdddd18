"""Definitions and uses of a name, in any state of the code that can be searched."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import Resolver
from codebase_mcp.app.freshness.verified_search import Freshness
from codebase_mcp.app.scopes import (
    CallScope,
    NamedRepository,
    ReportProgress,
    Scopes,
    again_if_lost,
)
from codebase_mcp.app.views import ChosenViews, Views, nothing_indexed
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.errors import NotFound
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.scope import ScopedSnapshot
from codebase_mcp.symbols.answer import SymbolFacts, SymbolQuestion, answer
from codebase_mcp.symbols.lookup import name_parts

if TYPE_CHECKING:
    from codebase_mcp.app.exact import ExactSearch

# Strings that equal a name are counted, and this many are shown.
_MOST_STRINGS = 5


@dataclass(frozen=True, slots=True)
class SameText:
    """Strings that equal a name: ``count`` lines have one, the first are ``lines``."""

    count: int
    lines: tuple[TextLine, ...]


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a file of a snapshot."""

    snapshot_id: int
    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class SymbolReport:
    """The answer to a question, its project and states; ``notice`` says what limits it.

    ``same_text`` are strings that equal the name whose uses are asked for.
    """

    question: SymbolQuestion
    facts: SymbolFacts
    project: Project
    project_source: str
    states: tuple[ScopedSnapshot, ...]
    latency_ms: float
    scope: CallScope
    notice: str = ""
    same_text: SameText | None = None


@dataclass(frozen=True, slots=True)
class Symbols:
    """Questions about names in the projects of a database."""

    _database: Database
    _resolver: Resolver
    _scopes: Scopes
    _views: Views
    _freshness: Freshness
    _exact: Callable[[], ExactSearch]

    async def ask(
        self,
        question: SymbolQuestion,
        project_id: str | None = None,
        identity: Identity = ANONYMOUS,
        *,
        repository: NamedRepository = None,
        report: ReportProgress | None = None,
    ) -> SymbolReport:
        """The answer to a question; ``repository`` and ``report`` are as for `App.search`.

        Raises:
            NotFound: nothing has such a name or path; the hint names the nearest.
            IndexingFailed: the commit of the ref is still being indexed, or cannot be.
            InvalidInput: the ref names several states, or no state.
            ProjectNotFound: unknown, or never indexed.
            DatabaseUnavailable: the index cannot be read.
        """
        started = time.perf_counter()
        scope = await self._scopes.resolve(project_id, identity, repository, report=report)
        return await self._ask(question, scope, started)

    @again_if_lost
    async def _ask(
        self, question: SymbolQuestion, scope: CallScope, started: float
    ) -> SymbolReport:
        project, source = scope.project, scope.source
        async with self._resolver.raise_not_found_if_dropped(project, source):
            scope.require_listed()
            chosen = await self._chosen(project, question, scope)
            ids = scope.snapshot_ids if chosen is None else chosen.snapshot_ids
            async with self._database.bounded_read(project) as tx:
                states = await self._views.snapshots(tx, ids)
                if not states:
                    raise nothing_indexed()
                notice = _notice(question, chosen, states)
                try:
                    facts = await answer(tx, question, [state.id for state in states])
                except NotFound as error:
                    if notice:
                        error.hint = " ".join(filter(None, [notice, error.hint]))
                    raise
            same_text = await self._same_text(question, facts, project, states)
        latency_ms = (time.perf_counter() - started) * 1000
        return SymbolReport(
            question, facts, project, source, states, latency_ms, scope, notice, same_text
        )

    async def _same_text(
        self,
        question: SymbolQuestion,
        facts: SymbolFacts,
        project: Project,
        states: Sequence[ScopedSnapshot],
    ) -> SameText | None:
        """The strings that equal the name, without those in its uses; None if nobody asks."""
        if facts.references is None:
            return None
        from codebase_mcp.app.text_scan import TextQuestion  # noqa: PLC0415 - loads RE2
        from codebase_mcp.search.text_pattern import TextQuery  # noqa: PLC0415

        definitions = facts.references.definitions
        name = definitions[0].name if definitions else name_parts(question.name or "")[-1]
        pattern = "[\"'`]" + re.escape(name) + "[\"'`]"
        found = await self._exact().lines_in_index(
            project,
            [state.id for state in states],
            TextQuestion(
                TextQuery(pattern, regex=True, ignore_case=False),
                question.filters,
                limit=2 * _MOST_STRINGS,  # some may be uses
            ),
        )
        if found is None:
            return None
        uses = {(match.use.file.path, match.use.line) for match in facts.references.uses}
        lines = [
            TextLine(matches.file.snapshot.id, matches.file.path, line.number, line.text.strip())
            for matches in found
            for line in matches.lines
            if (matches.file.path, line.number) not in uses
        ]
        hidden = sum(matches.count - len(matches.lines) for matches in found)
        return SameText(hidden + len(lines), tuple(lines[:_MOST_STRINGS]))

    async def _chosen(
        self, project: Project, question: SymbolQuestion, scope: CallScope
    ) -> ChosenViews | None:
        """The states of the question's ref, by repository; None for the files on disk."""
        ref = question.ref
        if ref is None or ref == WORKTREE:
            await self._freshness.follow(project, scope.snapshot_ids, first=scope.first)
            return None
        return await self._views.choose_one(project, ref, scope.only)


def _notice(
    question: SymbolQuestion, chosen: ChosenViews | None, states: Sequence[ScopedSnapshot]
) -> str:
    """A sentence on missing files while an index run is going on; else an empty text."""
    is_missing = chosen is not None and len(chosen.snapshot_ids) < len(chosen.names)
    if is_missing or any(state.files_pending for state in states):
        return f"{question.ref or 'The project'} is still being indexed: some files are missing."
    return ""
