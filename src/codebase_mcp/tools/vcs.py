"""The toolset ``vcs``: branches compared, and what a change touches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, PrivateAttr

from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.table import MAX_REPLY_CHARS
from codebase_mcp.tools.fields import ProjectReply, RepositoryId
from codebase_mcp.tools.operations import Operation, check_operation
from codebase_mcp.tools.rules import PROJECT_ID, text
from codebase_mcp.tools.toolset import Arguments, Caller, Hints, Toolset, ToolSpec

if TYPE_CHECKING:
    from codebase_mcp.app.changes import Repository
    from codebase_mcp.changes.compare import Comparison, Difference, Differences
    from codebase_mcp.changes.impact import Change, Impact
    from codebase_mcp.changes.symbols import ChangedSymbol
    from codebase_mcp.source.git_directory import GitRepository

# Of a file with more definitions of one sort the first are listed.
MAX_SYMBOLS = 100
MAX_REF_CHARS = 500

OPERATIONS = {
    "compare_branches": Operation(("branch_a", "branch_b"), ("repository_id", "direct", "limit")),
    "analyze_impact": Operation(
        optional=("commit", "branch_a", "branch_b", "uncommitted", "repository_id", "limit")
    ),
}


class Vcs(Arguments):
    operation: Annotated[
        Literal["compare_branches", "analyze_impact"], Field(description="What to do.")
    ]
    collection: Annotated[
        str | None, PROJECT_ID, Field(description="The project_id of other tools.")
    ] = None
    repository_id: RepositoryId = None
    branch_a: Annotated[
        str | None, text(MAX_REF_CHARS), Field(description="A branch, tag or commit: the older.")
    ] = None
    branch_b: Annotated[
        str | None,
        text(MAX_REF_CHARS),
        Field(description='The newer; "worktree" is the files on disk.'),
    ] = None
    commit: Annotated[
        str | None, text(MAX_REF_CHARS), Field(description="analyze_impact: of this commit.")
    ] = None
    uncommitted: Annotated[
        bool, Field(description="analyze_impact: of the work not committed yet.")
    ] = False
    direct: Annotated[
        bool, Field(description="compare_branches: the two states, not since they parted.")
    ] = False
    limit: Annotated[int, Field(ge=1, le=1000, description="Files at most.")] = 100


class SymbolEntry(BaseModel):
    """A definition; its lines are those of the newer state, of a removed one those of the older."""

    name: str
    kind: str
    start_line: int
    end_line: int
    old_name: str | None = None
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


class ReasonEntry(BaseModel):
    """A part of the score: 1 - (1 - points of the first) * (1 - those of the second) and so on."""

    name: str
    value: float
    points: float
    text: str


class PlaceEntry(BaseModel):
    """A place to look at, and why."""

    path: str
    symbol: str | None
    line: int | None
    why: str


class VcsReply(ProjectReply):
    branch_a: str = ""
    branch_b: str = ""
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
    notices: list[str] = Field(default=[], description="What limits the answer.")
    change: str = Field(default="", description="analyze_impact: what was examined.")
    score: float = Field(default=0.0, ge=0, le=1, description="analyze_impact: 1 touches most.")
    reasons: list[ReasonEntry] = Field(default=[], description="Weightiest first.")
    changes_together: list[CompanionEntry] = Field(default=[], description="Most reliable first.")
    look_at_first: list[PlaceEntry] = Field(default=[], description="At most ten.")
    history_commits: int = Field(default=0, description="Commits of the stored history.")
    repository_id: str = ""

    _text: str = PrivateAttr("")

    def text_lines(self) -> Iterator[str]:
        """The text that was made for reading."""
        yield self._text


async def vcs(caller: Caller, arguments: Vcs) -> VcsReply:
    """Compare branches, tags or commits, and see what a change touches.

    - compare_branches (branch_a, branch_b): what branch_b would bring to branch_a: commits ahead
      and behind, files, lines, and definitions added, changed, removed and moved.
    - analyze_impact (commit, or branch_a and branch_b, or uncommitted): what changed, the files and
      tests that usually change with it but did not, a score with its reasons, and where to look
      first. Call it before you commit or review.

    Nothing is checked out.
    """
    check_operation(OPERATIONS, arguments.operation, arguments)
    if arguments.operation == "analyze_impact":
        _check_change(arguments)
    repository = await caller.app.changes.repository(
        arguments.collection, arguments.repository_id, caller.identity
    )
    if arguments.operation == "analyze_impact":
        return await _impact(caller, arguments, repository)
    return await _compare(caller, arguments, repository)


def _check_change(arguments: Vcs) -> None:
    """See that exactly one change is named."""
    branches = arguments.branch_a, arguments.branch_b
    named = [arguments.commit is not None, any(branches), arguments.uncommitted]
    if sum(named) == 1 and (all(branches) or not any(branches)):
        return
    raise InvalidInput.of(
        "commit",
        arguments.commit,
        "analyze_impact takes one change: commit, or branch_a and branch_b, or uncommitted",
        rule="one of: commit; branch_a and branch_b; uncommitted",
    )


async def _compare(caller: Caller, arguments: Vcs, repository: Repository) -> VcsReply:
    assert arguments.branch_a is not None
    assert arguments.branch_b is not None
    found = await caller.app.changes.compare(
        repository, arguments.branch_a, arguments.branch_b, direct=arguments.direct
    )
    if caller.replies == "text":
        from codebase_mcp.replies.changes import comparison_text  # noqa: PLC0415 - seldom needed

        return _text_reply(repository, comparison_text(found, _budget(caller)))
    return _in_project(comparison_reply(found, arguments.limit), repository)


async def _impact(caller: Caller, arguments: Vcs, repository: Repository) -> VcsReply:
    from codebase_mcp.changes.impact import (  # noqa: PLC0415 - not for the handshake
        change_of_branch,
        change_of_commit,
        uncommitted_change,
    )

    find: Callable[[GitRepository], Change]
    if arguments.commit is not None:
        find = partial(change_of_commit, name=arguments.commit)
    elif arguments.uncommitted:
        find = uncommitted_change
    else:
        assert arguments.branch_a is not None
        assert arguments.branch_b is not None
        find = partial(change_of_branch, a=arguments.branch_a, b=arguments.branch_b)
    found = await caller.app.changes.impact(repository, find)
    if caller.replies == "text":
        from codebase_mcp.replies.changes import impact_text  # noqa: PLC0415 - seldom needed

        return _text_reply(repository, impact_text(found, _budget(caller)))
    return _in_project(_impact_reply(found, arguments.limit), repository)


def _budget(caller: Caller) -> int:
    return min(caller.reply_chars, MAX_REPLY_CHARS)


def _text_reply(repository: Repository, content: str) -> VcsReply:
    reply = _in_project(VcsReply(), repository)
    reply._text = content
    return reply


def _in_project(reply: VcsReply, repository: Repository) -> VcsReply:
    """The reply with where it comes from."""
    reply.repository_id = str(repository.id)
    reply.project_id = repository.project.project_id
    reply.project_source = repository.source
    return reply


def comparison_reply(found: Comparison, limit: int) -> VcsReply:
    """A comparison for programs, with so many files."""
    return VcsReply(
        branch_a=found.a,
        branch_b=found.b,
        commits_ahead=found.commits_ahead,
        commits_behind=found.commits_behind,
        base_commit=found.base,
        **_differences(found.differences, limit),
        notices=list(found.notices),
    )


def _impact_reply(found: Impact, limit: int) -> VcsReply:
    return VcsReply(
        change=found.change.label,
        score=found.score,
        reasons=[ReasonEntry(**asdict(reason)) for reason in found.reasons],
        look_at_first=[PlaceEntry(**asdict(place)) for place in found.places],
        changes_together=[
            CompanionEntry(
                path=one.path,
                is_test=one.is_test,
                changed_file=one.changed_file,
                support=one.support,
                confidence=round(one.confidence, 2),
            )
            for one in found.companions[:limit]
        ],
        history_commits=found.history_commits,
        **_differences(found.change.differences, limit),
        notices=list(found.change.notices),
    )


def _differences(found: Differences, limit: int) -> dict[str, Any]:
    shown = found.files[:limit]
    return {
        "files_changed": found.total,
        "lines_added": found.lines_added,
        "lines_removed": found.lines_removed,
        "differences": [_difference(one) for one in shown],
        "differences_left_out": found.total - len(shown),
        "not_compared": dict(found.left_out),
    }


def _difference(one: Difference) -> DifferenceEntry:
    file, changes = one.file, one.symbols
    entry = DifferenceEntry(
        path=file.path,
        status=file.status,
        lines_added=file.lines_added,
        lines_removed=file.lines_removed,
    )
    if file.old_path is not None:
        entry.old_path = file.old_path
    if changes is not None:
        entry.symbols_added = _symbols(changes.added)
        entry.symbols_changed = _symbols(changes.changed)
        entry.symbols_removed = _symbols(changes.removed)
        if changes.moved:
            entry.symbols_moved = _symbols(changes.moved)
        if changes.count > (listed := _listed(entry)):
            entry.symbols_left_out = changes.count - listed
    return entry


def _listed(entry: DifferenceEntry) -> int:
    """How many definitions an entry lists."""
    lists = (
        entry.symbols_added, entry.symbols_changed, entry.symbols_removed, entry.symbols_moved
    )  # fmt: skip
    return sum(map(len, lists))


def _symbols(listed: list[ChangedSymbol]) -> list[SymbolEntry]:
    names = ("name", "kind", "start_line", "end_line", "old_name", "old_path")
    return [
        SymbolEntry(**{n: value for n in names if (value := getattr(one, n)) is not None})
        for one in listed[:MAX_SYMBOLS]
    ]


VCS = Toolset(
    "vcs",
    (
        ToolSpec(
            name="vcs",
            title="Compare branches, examine changes",
            arguments=Vcs,
            run=vcs,
            reply=VcsReply,
            annotations=Hints(repeats=True),
        ),
    ),
)
