"""The operations of ``vcs`` that index and search other states, and the history."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codebase_mcp.tools.catalog import tool_named
from codebase_mcp.tools.code import index_reply, index_with_progress
from codebase_mcp.tools.fields import named_repository, scope_reply
from codebase_mcp.tools.rules import check_moment
from codebase_mcp.tools.search_reply import brief_results
from codebase_mcp.tools.toolset import Caller
from codebase_mcp.tools.vcs_reply import CommitEntry, IndexedRef, VcsReply

if TYPE_CHECKING:
    from codebase_mcp.search.history import FoundCommit
    from codebase_mcp.tools.vcs import Vcs

# How many paths of a commit are listed.
MAX_PATHS = 50

# How many results a search has, unless the caller says otherwise.
DEFAULT_RESULTS = 10


async def index(caller: Caller, arguments: Vcs) -> VcsReply:
    """Index a repository and some of its branches."""
    assert arguments.repository_path is not None
    report = await index_with_progress(
        caller,
        partial(
            caller.app.index,
            arguments.repository_path,
            arguments.collection,
            history_depth=arguments.depth,
            ignore_patterns=arguments.ignore_patterns,
            branches=arguments.branches or (),
            identity=caller.identity,
        ),
    )
    run, runs = report.run, report.branches
    if caller.replies == "text":
        lines = [
            f"{name} {one.commit}: {one.chunks_created} new chunks" for name, one in runs.items()
        ]
        return VcsReply.of_text("\n".join([index_reply(report).as_text(), *lines]))
    return VcsReply(
        status=run.status,
        files_processed=run.files_indexed + run.files_unchanged,
        chunks_created=run.chunks_created + sum(one.chunks_created for one in runs.values()),
        branches=[
            IndexedRef(name=name, commit=one.commit, chunks_created=one.chunks_created)
            for name, one in runs.items()
        ],
        errors=[*run.errors, *(error for one in runs.values() for error in one.errors)],
        notices=[run.notice] if run.notice else [],
        repository_id=str(run.repository_id),
        project_id=report.project.project_id,
        project_source=report.project_source,
    )


async def search_branch(caller: Caller, arguments: Vcs) -> VcsReply:
    """Search another state of the code."""
    from codebase_mcp.search.help import secondary_note  # noqa: PLC0415 - not for the handshake
    from codebase_mcp.search.search import Request  # noqa: PLC0415

    assert arguments.query is not None
    request = Request(
        limit=_limit(caller, arguments),
        by_definition=caller.replies == "text",
    )
    report = await caller.app.search(
        arguments.query,
        arguments.collection,
        request,
        repository=named_repository(arguments.repository_id),
        ref=arguments.branch,
        identity=caller.identity,
        with_help=True,
    )
    if caller.replies == "text":
        from codebase_mcp.replies.text import search_text  # noqa: PLC0415

        return VcsReply.of_text(search_text(report, caller.reply_budget()))
    return VcsReply(
        project_id=report.project.project_id,
        project_source=report.project_source,
        scope=scope_reply(report.scope),
        results=brief_results(report),
        count=len(report.answer.hits),
        query_time_ms=round(report.latency_ms),
        notices=[*filter(None, [secondary_note(report.answer.secondary_model)])],
    )


async def search_history(caller: Caller, arguments: Vcs) -> VcsReply:
    """Search the commits."""
    from codebase_mcp.search.history import HistoryFilters  # noqa: PLC0415 - seldom needed

    filters = HistoryFilters(
        path=arguments.path,
        author=arguments.author,
        since=check_moment(arguments.since, "since"),
        until=check_moment(arguments.until, "until", is_end=True),
    )
    report = await caller.app.history.search(
        arguments.query or "",
        arguments.collection,
        filters,
        limit=_limit(caller, arguments),
        identity=caller.identity,
        repository=named_repository(arguments.repository_id),
    )
    if caller.replies == "text":
        from codebase_mcp.replies.history import history_text  # noqa: PLC0415

        return VcsReply.of_text(history_text(report, caller.reply_budget()))
    return VcsReply(
        project_id=report.project.project_id,
        project_source=report.project_source,
        scope=scope_reply(report.scope),
        commits=[_commit_entry(one) for one in report.commits],
        count=len(report.commits),
        query_time_ms=round(report.latency_ms),
        notices=list(report.notices),
    )


def _limit(caller: Caller, arguments: Vcs) -> int:
    """How many results are wanted: as many as search_code gives a caller who names a collection.

    Raises:
        InvalidInput: it gives fewer.
    """
    if arguments.limit is None:
        return DEFAULT_RESULTS
    search = tool_named("search_code").arguments_for(caller.given)
    search.checked({"query": arguments.query or "any", "limit": arguments.limit})
    return arguments.limit


def _commit_entry(commit: FoundCommit) -> CommitEntry:
    return CommitEntry(
        commit=commit.hash,
        author=commit.author_name,
        authored_at=commit.authored_at.isoformat(),
        message=commit.message,
        paths=[change.path for change in commit.changes[:MAX_PATHS]],
        lines_added=commit.added,
        lines_removed=commit.removed,
        relevance_score=commit.score,
        branches=list(commit.branches),
    )
