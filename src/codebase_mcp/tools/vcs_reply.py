"""The reply of the tool ``vcs``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, Field

from codebase_mcp.secrets.masking import mask_token
from codebase_mcp.tools.fields import ProjectReply, ScopeReply, ShownName
from codebase_mcp.tools.search_reply import BriefResult, TextReply


class SymbolEntry(BaseModel):
    """A definition; its lines are those of the newer state, of a removed one those of the older."""

    name: ShownName
    kind: str
    start_line: int
    end_line: int
    old_name: ShownName | None = None
    old_path: str | None = None


class DifferenceEntry(BaseModel):
    """A file that differs."""

    path: str
    status: Literal["added", "removed", "changed", "renamed", "mode", "type"] = Field(
        description="mode: only executable or not; type: file, link or submodule."
    )
    old_path: str | None = Field(default=None, description="Of a renamed file.")
    lines_added: int | None = Field(description="null: unknown, as of a binary file.")
    lines_removed: int | None
    symbols_added: list[SymbolEntry] = []
    symbols_changed: list[SymbolEntry] = []
    symbols_removed: list[SymbolEntry] = []
    symbols_moved: list[SymbolEntry] = Field(default=[], description="Renamed, or from elsewhere.")
    symbols_left_out: int = Field(default=0, description="Beyond the first 100 of a sort.")


class CompanionEntry(BaseModel):
    """A file that was left alone, but usually changes together with a changed one."""

    path: str
    is_test: bool
    changed_file: str
    support: int = Field(description="How many commits touched both.")
    confidence: float = Field(description="Their share of the commits that touched changed_file.")


class UserEntry(BaseModel):
    """A place in another file that uses a definition that changed or is gone."""

    path: str
    line: int
    enclosing: ShownName | None
    symbol: ShownName
    is_removed: bool
    is_test: bool
    confidence: float
    reason: str


class ReasonEntry(BaseModel):
    """A part of the score: 1 - (1 - points of the first) * (1 - those of the second) and so on."""

    name: str
    value: float
    points: float
    text: ShownName


class PlaceEntry(BaseModel):
    """A place to look at, and why."""

    path: str
    symbol: ShownName | None
    line: int | None
    why: str
    likelihood: float | None = Field(description="That it is concerned; null: it changed itself.")


class IndexedRef(BaseModel):
    """A branch, tag or commit that can be searched now."""

    name: ShownName
    commit: str
    chunks_created: int


class CommitEntry(BaseModel):
    """A commit; paths are the first ones."""

    commit: str
    author: str
    authored_at: str
    message: str
    paths: list[str]
    lines_added: int | None
    lines_removed: int | None
    relevance_score: float | None = Field(description="null without a query.")
    branches: list[ShownName] = Field(default=[], description="That have it, where HEAD does not.")


class VcsReply(TextReply, ProjectReply):
    status: str = Field(default="", description="index_repository: success, partial or failed.")
    files_processed: int = 0
    chunks_created: int = 0
    branches: list[IndexedRef] = Field(default=[])
    errors: list[str] = Field(default=[])
    results: list[BriefResult] = Field(default=[], description="search_branch: best first.")
    commits: list[CommitEntry] = Field(default=[], description="search_history: best first.")
    count: int = 0
    query_time_ms: int = 0
    branch_a: ShownName = ""
    branch_b: ShownName = ""
    commits_ahead: int = Field(default=0, description="Of branch_b, that branch_a lacks.")
    commits_behind: int = Field(default=0, description="Of branch_a, that branch_b lacks.")
    files_changed: int = Field(default=0, description="In all, whatever the limit.")
    lines_added: int = 0
    lines_removed: int = 0
    differences: list[DifferenceEntry] = Field(default=[], description="By path.")
    differences_left_out: int = Field(default=0, description="Files beyond the limit.")
    not_compared: dict[str, int] = Field(
        default={}, description="Files whose definitions were not compared, by reason."
    )
    base_commit: str = Field(default="", description="Where the differences start.")
    notices: list[ShownName] = Field(default=[], description="What limits the answer.")
    change: ShownName = Field(default="", description="analyze_impact: what was examined.")
    score: float = Field(default=0.0, ge=0, le=1, description="analyze_impact: 1 touches most.")
    reasons: list[ReasonEntry] = Field(default=[], description="Weightiest first.")
    changes_together: list[CompanionEntry] = Field(default=[], description="Most reliable first.")
    used_by: list[UserEntry] = Field(default=[], description="Surest first, tests last.")
    look_at_first: list[PlaceEntry] = Field(default=[], description="At most ten.")
    history_commits: int = Field(default=0, description="Commits of the stored history.")
    repository_id: str = ""
    scope: ScopeReply | None = Field(default=None, description="What was searched or compared.")

    @classmethod
    def of_text(cls, text: str) -> Self:
        """A reply that is this text; names in it may hold tokens."""
        return super().of_text(mask_token(text))
