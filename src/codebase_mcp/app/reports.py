"""The answers of the product's Python API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from codebase_mcp.access.resolution import ProjectSource
    from codebase_mcp.app.freshness.verified_search import IndexFreshness
    from codebase_mcp.app.scopes import CallScope
    from codebase_mcp.changes.symbol_history import SymbolHistory
    from codebase_mcp.database.naming import Project
    from codebase_mcp.database.transaction import Transaction
    from codebase_mcp.index.build import RunResult
    from codebase_mcp.index.commit_history import HistoryFacts
    from codebase_mcp.index.commits import CommitRun
    from codebase_mcp.index.inventory import RepositoryFacts
    from codebase_mcp.records.anchors import Note
    from codebase_mcp.search.help import Help
    from codebase_mcp.search.history import FoundCommit, LastChange
    from codebase_mcp.search.search import Answer
    from codebase_mcp.settings.repository import RepositorySettings
    from codebase_mcp.symbols.references import Usage


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of an index run, its project, and the settings of the repository.

    ``commits`` counts the stored commits of its history. ``branches`` maps each named branch to
    its run.
    """

    run: RunResult
    project: Project
    project_source: ProjectSource
    repository: RepositorySettings
    commits: int = 0
    branches: Mapping[str, CommitRun] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The answer to a question, its project, and the time it took (ms).

    On request, ``notes`` are the records about each hit, ``last_changes`` the commits that last
    changed its lines, and ``help`` says why the answer is weak. ``refs`` maps the commits that were
    searched to their refs. ``usage`` says where the first hit is used. ``scope`` are the
    repositories that were searched, and the directories that its caller opens paths from.
    """

    answer: Answer
    project: Project
    project_source: ProjectSource
    index: IndexFreshness
    latency_ms: float
    scope: CallScope
    notes: tuple[tuple[Note, ...], ...] = ()
    help: Help | None = None
    refs: Mapping[str, str] = field(default_factory=dict)
    last_changes: tuple[LastChange | None, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The commits that answer a question, their project, and the time it took (ms).

    ``repositories`` are those that were searched, by id; ``has_more`` says that more commits match
    than the limit. ``read`` counts the commits of repositories whose history was read for this
    search, ``notices`` say why a history could not be read.
    """

    commits: tuple[FoundCommit, ...]
    project: Project
    project_source: ProjectSource
    repositories: Mapping[UUID, HistoryFacts]
    latency_ms: float
    scope: CallScope
    has_more: bool = False
    read: Mapping[UUID, int] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SymbolHistoryReport:
    """The history of the definitions of a name in the repositories of a project.

    ``histories`` are by repository; ``notices`` say why a history could not be read.
    """

    name: str
    histories: Mapping[UUID, SymbolHistory]
    project: Project
    repositories: Mapping[UUID, HistoryFacts]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InProject:
    """A transaction in the project that a call means, and the caller."""

    tx: Transaction
    project: Project
    source: ProjectSource
    owner: str | None


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """A project and its indexed repositories."""

    project: Project
    repositories: tuple[RepositoryFacts, ...]
