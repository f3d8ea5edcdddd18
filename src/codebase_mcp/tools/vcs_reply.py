"""The reply of the tool ``vcs``: commits, comparisons and the impact of a change, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field

from codebase_mcp.secrets.masking import mask_token
from codebase_mcp.tools.fields import ProjectReply, ScopeReply, ShownName
from codebase_mcp.tools.reply import IsoTime, ReplyPart, TextReply, rounded
from codebase_mcp.tools.search_reply import BriefResult

if TYPE_CHECKING:
    from codebase_mcp.changes.compare import Comparison, Difference, Differences
    from codebase_mcp.changes.impact import Impact
    from codebase_mcp.changes.symbols import ChangedSymbol

# Definitions of a file that are listed as added, as changed, as removed or as moved.
MAX_SYMBOLS = 100
# Files that are listed by default.
MAX_FILES = 100
# Files that change together with the changed files; look_at_first has the likeliest of them.
MAX_TOGETHER = 20
# The most paths of a commit that are listed.
MAX_PATHS = 50


class SymbolEntry(ReplyPart):
    """A definition; its lines are those of the newer state, of a removed one those of the older."""

    name: ShownName
    kind: str
    start_line: int
    end_line: int
    old_name: ShownName | None = None
    old_path: str | None = None


class DifferenceEntry(ReplyPart):
    """A file that differs."""

    path: str
    status: Literal["added", "removed", "changed", "renamed", "mode", "type"] = Field(
        description="mode: only executable or not; type: file, link or submodule."
    )
    old_path: str | None = Field(default=None, description="Of a renamed file.")
    lines_added: int | None = Field(description="null: unknown, as of a binary file.")
    lines_removed: int | None
    symbols_added: list[SymbolEntry] = Field(default=[])
    symbols_changed: list[SymbolEntry] = Field(default=[])
    symbols_removed: list[SymbolEntry] = Field(default=[])
    symbols_moved: list[SymbolEntry] = Field(default=[], description="Renamed, or from elsewhere.")
    symbols_left_out: int = Field(default=0, description="Beyond the first 100 of a sort.")


class CompanionEntry(ReplyPart):
    """A file that was left alone, but usually changes together with a changed one."""

    path: str
    is_test: bool
    changed_file: str
    support: int = Field(description="How many commits touched both.")
    confidence: Annotated[
        float,
        rounded(2),
        Field(description="Their share of the commits that touched changed_file."),
    ]


class UserEntry(ReplyPart):
    """A place in another file that uses a definition that changed or is gone."""

    path: str
    line: int
    enclosing: ShownName | None
    symbol: ShownName
    is_removed: bool
    is_test: bool
    confidence: float
    reason: str


class ReasonEntry(ReplyPart):
    """A part of the score: 1 - (1 - points of the first) * (1 - those of the second) and so on."""

    name: str
    value: float
    points: float
    text: ShownName


class PlaceEntry(ReplyPart):
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


class CommitEntry(ReplyPart):
    """A commit; paths are the first ones."""

    commit: str = Field(validation_alias="hash")
    author: str = Field(validation_alias="author_name")
    authored_at: IsoTime
    message: str
    paths: Annotated[
        list[str],
        BeforeValidator(lambda changes: [change.path for change in changes[:MAX_PATHS]]),
        Field(validation_alias="changes"),
    ]
    lines_added: int | None = Field(validation_alias="added")
    lines_removed: int | None = Field(validation_alias="removed")
    relevance_score: float | None = Field(
        validation_alias="score", description="null without a query."
    )
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


def comparison_reply(comparison: Comparison, limit: int) -> VcsReply:
    """A comparison for programs, with at most ``limit`` files."""
    return VcsReply(
        branch_a=comparison.a,
        branch_b=comparison.b,
        commits_ahead=comparison.commits_ahead,
        commits_behind=comparison.commits_behind,
        base_commit=comparison.base,
        **_differences(comparison.differences, limit),
        notices=list(comparison.notices),
    )


def impact_reply(impact: Impact, limit: int | None) -> VcsReply:
    """An impact for programs, with at most ``limit`` entries in each list."""
    return VcsReply(
        change=impact.change.label,
        score=impact.score,
        reasons=[*map(ReasonEntry.model_validate, impact.reasons)],
        look_at_first=[*map(PlaceEntry.model_validate, impact.places)],
        changes_together=[
            *map(CompanionEntry.model_validate, impact.companions[: limit or MAX_TOGETHER])
        ],
        used_by=[*map(UserEntry.model_validate, impact.users[: limit or MAX_FILES])],
        history_commits=impact.history_commits,
        **_differences(impact.change.differences, limit or MAX_FILES),
        notices=list(impact.change.notices),
    )


def _differences(differences: Differences, limit: int) -> dict[str, Any]:
    shown = differences.files[:limit]
    return {
        "files_changed": differences.total,
        "lines_added": differences.lines_added,
        "lines_removed": differences.lines_removed,
        "differences": [_difference(difference) for difference in shown],
        "differences_left_out": differences.total - len(shown),
        "not_compared": dict(differences.left_out),
    }


def _difference(difference: Difference) -> DifferenceEntry:
    entry, changes = DifferenceEntry.made_from(difference.file), difference.symbols
    if changes is not None:
        entry.symbols_added = _symbols(changes.added)
        entry.symbols_changed = _symbols(changes.changed)
        entry.symbols_removed = _symbols(changes.removed)
        if changes.moved:
            entry.symbols_moved = _symbols(changes.moved)
        lists = changes.added, changes.changed, changes.removed, changes.moved
        if left_out := sum(max(0, len(symbols) - MAX_SYMBOLS) for symbols in lists):
            entry.symbols_left_out = left_out
    return entry


def _symbols(symbols: list[ChangedSymbol]) -> list[SymbolEntry]:
    return [*map(SymbolEntry.made_from, symbols[:MAX_SYMBOLS])]
