"""The toolset ``vcs``: branches indexed, searched and compared, and what a change touches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools import vcs_search
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.fields import RepositoryChoice, named_repository, scope_reply
from codebase_mcp.tools.rules import PROJECT_ID, QUERY, REF, REPO_PATH, text
from codebase_mcp.tools.toolset import REPEATS, Caller, Operation, Toolset
from codebase_mcp.tools.vcs_reply import (
    CompanionEntry,
    DifferenceEntry,
    PlaceEntry,
    ReasonEntry,
    SymbolEntry,
    UserEntry,
    VcsReply,
)

if TYPE_CHECKING:
    from codebase_mcp.app.changes import Repository
    from codebase_mcp.changes.compare import Comparison, Difference, Differences
    from codebase_mcp.changes.impact import Change, Impact
    from codebase_mcp.changes.symbols import ChangedSymbol
    from codebase_mcp.source.git_directory import GitRepository

TOOLSET = Toolset(
    "vcs", "vcs compare_branches before a review or merge, analyze_impact before a commit."
)

# Definitions of a file that are listed as added, as changed, as removed or as moved.
MAX_SYMBOLS = 100
MAX_REF_CHARS = 500
# Files that are listed by default.
MAX_FILES = 100
# Files that change together with the changed files; look_at_first has the likeliest of them.
MAX_TOGETHER = 20

OPERATIONS = {
    "index_repository": Operation(("repository_path",), ("branches", "depth", "ignore_patterns")),
    "search_branch": Operation(("branch", "query"), ("repository_id", "limit"), "read"),
    "search_history": Operation(
        (), ("query", "path", "author", "since", "until", "repository_id", "limit"), "read"
    ),
    "compare_branches": Operation(
        ("branch_a", "branch_b"), ("repository_id", "direct", "limit"), "read"
    ),
    "analyze_impact": Operation(
        (), ("commit", "branch_a", "branch_b", "uncommitted", "repository_id", "limit"), "read"
    ),
}


class Vcs(Arguments):
    operation: Annotated[
        Literal[
            "index_repository",
            "search_branch",
            "search_history",
            "compare_branches",
            "analyze_impact",
        ],
        Field(description="What to do."),
    ]
    collection: Annotated[
        str | None, PROJECT_ID, Field(description="The project_id of other tools.")
    ] = None
    repository_id: RepositoryChoice = None
    repository_path: Annotated[
        str | None, REPO_PATH, Field(description="index_repository: absolute path.")
    ] = None
    branches: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_REF_CHARS)]] | None,
        Field(max_length=50, description="index_repository: branches, tags or commits."),
    ] = None
    depth: Annotated[
        int | None, Field(ge=0, le=10_000, description="index_repository: commits of history.")
    ] = None
    ignore_patterns: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=500)]] | None,
        Field(max_length=100, description="index_repository: as in .gitignore; kept."),
    ] = None
    branch: Annotated[
        str | None, REF, Field(description="search_branch: a branch, tag, commit or A...B.")
    ] = None
    query: Annotated[str | None, QUERY, Field(description="A question, or a symbol.")] = None
    path: Annotated[
        str | None, text(500), Field(description="search_history: a file or directory.")
    ] = None
    author: Annotated[str | None, text(200), Field(description="A part of name or mail.")] = None
    since: Annotated[str | None, text(40), Field(description="2026-01-31, or with a time.")] = None
    until: Annotated[str | None, text(40), Field(description="Itself excluded.")] = None
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
    limit: Annotated[
        int | None,
        Field(
            ge=1,
            le=1000,
            description="Files (100) or results (10; up to 50, with collection 100) at most.",
        ),
    ] = None


@TOOLSET.tool("Compare branches, examine changes", REPEATS, scope="index", operations=OPERATIONS)
async def vcs(caller: Caller, arguments: Vcs) -> VcsReply:
    """Search and compare branches, tags and commits; see what a change touches.

    - index_repository (repository_path, branches): index the files and these branches.
    - search_branch (branch, query): as search_code, in another state, or in what A...B changed.
    - search_history (query; path, author, since, until): commits by meaning and words.
    - compare_branches (branch_a, branch_b): what branch_b would bring to branch_a: commits ahead
      and behind, files, lines, and definitions added, changed, removed and moved.
    - analyze_impact (commit, or branch_a and branch_b, or uncommitted): what changed, the files and
      tests that usually change with it but did not, a score with its reasons, and where to look
      first. Call it before you commit or review.

    Nothing is checked out.
    """
    if arguments.operation == "index_repository":
        return await vcs_search.index(caller, arguments)
    if arguments.operation == "search_branch":
        return await vcs_search.search_branch(caller, arguments)
    if arguments.operation == "search_history":
        return await vcs_search.search_history(caller, arguments)
    if arguments.operation == "analyze_impact":
        _check_change(arguments)
    repository = await caller.app.changes.repository(
        arguments.collection, named_repository(arguments.repository_id), caller.identity
    )
    if arguments.operation == "analyze_impact":
        return await _impact(caller, arguments, repository)
    return await _compare(caller, arguments, repository)


def _check_change(arguments: Vcs) -> None:
    """Refuse arguments that name no change, or several."""
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
    comparison = await caller.app.changes.compare(
        repository, arguments.branch_a, arguments.branch_b, direct=arguments.direct
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.changes import comparison_text  # noqa: PLC0415 - seldom needed
        from codebase_mcp.tools.replies.paths import scope_note  # noqa: PLC0415

        budget, note = caller.reply_budget(), scope_note(repository.scope)
        return VcsReply.of_text(
            comparison_text(comparison, budget, limit=arguments.limit, note=note)
        )
    return _in_scope(comparison_reply(comparison, arguments.limit or MAX_FILES), repository)


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
    impact = await caller.app.changes.impact(repository, find)
    if caller.replies == "text":
        from codebase_mcp.tools.replies.changes import impact_text  # noqa: PLC0415 - seldom needed
        from codebase_mcp.tools.replies.paths import scope_note  # noqa: PLC0415

        budget, note = caller.reply_budget(), scope_note(repository.scope)
        return VcsReply.of_text(impact_text(impact, budget, limit=arguments.limit, note=note))
    return _in_scope(impact_reply(impact, arguments.limit), repository)


def _in_scope(reply: VcsReply, repository: Repository) -> VcsReply:
    """The reply with where it comes from."""
    scope = repository.scope
    reply.repository_id = str(repository.id)
    reply.project_id = scope.project.project_id
    reply.project_source = scope.source
    reply.scope = scope_reply(scope)
    return reply


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
        reasons=[ReasonEntry(**asdict(reason)) for reason in impact.reasons],
        look_at_first=[PlaceEntry(**asdict(place)) for place in impact.places],
        changes_together=[
            CompanionEntry(
                path=companion.path,
                is_test=companion.is_test,
                changed_file=companion.changed_file,
                support=companion.support,
                confidence=round(companion.confidence, 2),
            )
            for companion in impact.companions[: limit or MAX_TOGETHER]
        ],
        used_by=[UserEntry(**asdict(user)) for user in impact.users[: limit or MAX_FILES]],
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
    file, changes = difference.file, difference.symbols
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


def _symbols(symbols: list[ChangedSymbol]) -> list[SymbolEntry]:
    names = ("name", "kind", "start_line", "end_line", "old_name", "old_path")
    return [
        SymbolEntry(**{n: value for n in names if (value := getattr(symbol, n)) is not None})
        for symbol in symbols[:MAX_SYMBOLS]
    ]
