"""Answers who defines and uses a name, in any state of the code that can be searched."""

from __future__ import annotations

import time
from dataclasses import dataclass

from codebase_mcp.app.freshness import Freshness
from codebase_mcp.app.views import Views
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import InvalidInput, ProjectNotFound
from codebase_mcp.model import WORKTREE
from codebase_mcp.projects.identity import ANONYMOUS, Identity
from codebase_mcp.projects.resolution import Resolver
from codebase_mcp.symbols.answer import SymbolFacts, SymbolQuestion, answer
from codebase_mcp.symbols.storage import RepositoryState, load_states


@dataclass(frozen=True, slots=True)
class SymbolReport:
    """The answer to a question, and where it comes from."""

    question: SymbolQuestion
    facts: SymbolFacts
    project: Project
    project_source: str
    states: tuple[RepositoryState, ...]
    latency_ms: float


class Symbols:
    """Questions about names in the projects of one database."""

    def __init__(
        self, database: Database, resolver: Resolver, views: Views, freshness: Freshness
    ) -> None:
        self._database = database
        self._resolver = resolver
        self._views = views
        self._freshness = freshness

    async def ask(
        self,
        question: SymbolQuestion,
        project_id: str | None = None,
        identity: Identity = ANONYMOUS,
    ) -> SymbolReport:
        """The answer to a question.

        Raises:
            NotFound: nothing has such a name or path; the hint names the nearest.
            InvalidInput: the ref names several states, or none.
            ProjectNotFound: unknown, or never indexed.
            DatabaseUnavailable: the index cannot be read.
        """
        started = time.perf_counter()
        project, source = await self._resolver.resolve(project_id, identity)
        async with self._resolver.raise_not_found_if_dropped(project, source):
            snapshot_ids = await self._snapshots(project, question)
            async with self._database.bounded_read(project) as tx:
                states = await load_states(tx, snapshot_ids, question.repository_id)
                if not states:
                    raise ProjectNotFound(
                        "Nothing is indexed in the project", hint="Call index_repository first."
                    )
                facts = await answer(tx, question, [one.snapshot_id for one in states])
        latency_ms = (time.perf_counter() - started) * 1000
        return SymbolReport(question, facts, project, source, tuple(states), latency_ms)

    async def _snapshots(
        self, project: Project, question: SymbolQuestion
    ) -> tuple[int, ...] | None:
        """The states that are asked about, one for each repository; None for the files on disk."""
        ref = question.ref
        if ref is None or ref == WORKTREE:
            await self._freshness.follow(project, question.repository_id)
            return None
        if " " not in ref and ".." not in ref:
            chosen = await self._views.choose(project, ref, question.repository_id)
            if not chosen.ranges:
                return chosen.snapshot_ids
        rule = "one branch, tag or commit"
        raise InvalidInput.of("ref", ref, f"{ref!r} names several states", rule=rule)
