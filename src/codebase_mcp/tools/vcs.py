"""The toolset ``vcs``: branches indexed, searched and compared, and what a change touches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.catalog import tool_named
from codebase_mcp.tools.code import index_reply, index_with_progress
from codebase_mcp.tools.fields import RepositoryChoice, ScopeReply, named_repository
from codebase_mcp.tools.rules import PROJECT_ID, QUERY, REF, REPO_PATH, text
from codebase_mcp.tools.search_reply import brief_results
from codebase_mcp.tools.toolset import REPEATS, Caller, Operation, Toolset
from codebase_mcp.tools.vcs_reply import (
    MAX_FILES,
    CommitEntry,
    IndexedRef,
    VcsReply,
    comparison_reply,
    impact_reply,
)

if TYPE_CHECKING:
    from codebase_mcp.app.changes import Repository
    from codebase_mcp.changes.impact import Change
    from codebase_mcp.source.git_directory import GitRepository

TOOLSET = Toolset(
    "vcs", "vcs compare_branches before a review or merge, analyze_impact before a commit."
)

MAX_REF_CHARS = 500
# The results of a search without a limit.
DEFAULT_RESULTS = 10

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
        return await _index(caller, arguments)
    if arguments.operation == "search_branch":
        return await _search_branch(caller, arguments)
    if arguments.operation == "search_history":
        return await _search_history(caller, arguments)
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
    message = "analyze_impact takes one change: commit, or branch_a and branch_b, or uncommitted"
    rule = "one of: commit; branch_a and branch_b; uncommitted"
    raise InvalidInput.of("commit", arguments.commit, message, rule=rule)


async def _index(caller: Caller, arguments: Vcs) -> VcsReply:
    assert arguments.repository_path is not None
    report = await index_with_progress(
        caller,
        arguments.repository_path,
        arguments.collection,
        history_depth=arguments.depth,
        ignore_patterns=arguments.ignore_patterns,
        branches=arguments.branches or (),
    )
    run, runs = report.run, report.branches
    if caller.replies == "text":
        lines = [
            f"{name} {ref.commit}: {ref.chunks_created} new chunks" for name, ref in runs.items()
        ]
        return VcsReply.of_text("\n".join([index_reply(report).as_text(), *lines]))
    return VcsReply(
        status=run.status,
        files_processed=run.files_indexed + run.files_unchanged,
        chunks_created=run.chunks_created + sum(ref.chunks_created for ref in runs.values()),
        branches=[
            IndexedRef(name=name, commit=ref.commit, chunks_created=ref.chunks_created)
            for name, ref in runs.items()
        ],
        errors=[*run.errors, *(error for ref in runs.values() for error in ref.errors)],
        notices=[run.notice] if run.notice else [],
        repository_id=str(run.repository_id),
        project_id=report.project.project_id,
        project_source=report.project_source,
    )


async def _search_branch(caller: Caller, arguments: Vcs) -> VcsReply:
    """Search a branch, a tag, a commit, or a change."""
    from codebase_mcp.search.help import secondary_note  # noqa: PLC0415 - not for the handshake
    from codebase_mcp.search.search import Request  # noqa: PLC0415

    assert arguments.query is not None
    report = await caller.app.search(
        arguments.query,
        arguments.collection,
        Request(limit=_limit(caller, arguments), by_definition=caller.replies == "text"),
        repository=named_repository(arguments.repository_id),
        ref=arguments.branch,
        identity=caller.identity,
        with_help=True,
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.search import search_text  # noqa: PLC0415

        return VcsReply.of_text(search_text(report, caller.reply_budget()))
    return VcsReply(
        project_id=report.project.project_id,
        project_source=report.project_source,
        scope=ScopeReply.model_validate(report.scope),
        results=brief_results(report),
        count=len(report.answer.hits),
        query_time_ms=round(report.latency_ms),
        notices=[*filter(None, [secondary_note(report.answer.secondary_model)])],
    )


async def _search_history(caller: Caller, arguments: Vcs) -> VcsReply:
    from codebase_mcp.tools.answers import history_filters  # noqa: PLC0415 - not for the handshake

    filters = {name: getattr(arguments, name) for name in ("path", "author", "since", "until")}
    report = await caller.app.history.search(
        arguments.query or "",
        arguments.collection,
        history_filters(**filters),
        limit=_limit(caller, arguments),
        identity=caller.identity,
        repository=named_repository(arguments.repository_id),
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.changes import history_text  # noqa: PLC0415

        return VcsReply.of_text(history_text(report, caller.reply_budget()))
    return VcsReply(
        project_id=report.project.project_id,
        project_source=report.project_source,
        scope=ScopeReply.model_validate(report.scope),
        commits=[*map(CommitEntry.model_validate, report.commits)],
        count=len(report.commits),
        query_time_ms=round(report.latency_ms),
        notices=list(report.notices),
    )


def _limit(caller: Caller, arguments: Vcs) -> int:
    """The limit of a search, with the bounds that search_code has for this caller."""
    if arguments.limit is None:
        return DEFAULT_RESULTS
    search = tool_named("search_code").arguments_for(caller.given)
    search.checked({"query": arguments.query or "any", "limit": arguments.limit})
    return arguments.limit


async def _compare(caller: Caller, arguments: Vcs, repository: Repository) -> VcsReply:
    assert arguments.branch_a is not None
    assert arguments.branch_b is not None
    comparison = await caller.app.changes.compare(
        repository, arguments.branch_a, arguments.branch_b, direct=arguments.direct
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.changes import comparison_text  # noqa: PLC0415 - seldom needed
        from codebase_mcp.tools.text import scope_note  # noqa: PLC0415

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
        from codebase_mcp.tools.text import scope_note  # noqa: PLC0415

        budget, note = caller.reply_budget(), scope_note(repository.scope)
        return VcsReply.of_text(impact_text(impact, budget, limit=arguments.limit, note=note))
    return _in_scope(impact_reply(impact, arguments.limit), repository)


def _in_scope(reply: VcsReply, repository: Repository) -> VcsReply:
    """The reply with where it comes from."""
    scope = repository.scope
    reply.repository_id = str(repository.id)
    reply.project_id = scope.project.project_id
    reply.project_source = scope.source
    reply.scope = ScopeReply.model_validate(scope)
    return reply
