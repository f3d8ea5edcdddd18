"""The operations of ``vcs`` that index and search branches, and search the history."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codebase_mcp.tools.catalog import tool_named
from codebase_mcp.tools.code import index_reply, index_with_progress
from codebase_mcp.tools.fields import named_repository, scope_reply
from codebase_mcp.tools.search_reply import brief_results
from codebase_mcp.tools.toolset import Caller
from codebase_mcp.tools.vcs_reply import CommitEntry, IndexedRef, VcsReply

if TYPE_CHECKING:
    from codebase_mcp.search.history import FoundCommit
    from codebase_mcp.tools.vcs import Vcs

# The most paths of a commit that are listed.
MAX_PATHS = 50

# The results of a search without a limit.
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


async def search_branch(caller: Caller, arguments: Vcs) -> VcsReply:
    """Search a branch, a tag, a commit, or a change."""
    from codebase_mcp.search.help import secondary_note  # noqa: PLC0415 - not for the handshake
    from codebase_mcp.tools import answers  # noqa: PLC0415

    assert arguments.query is not None
    report = await answers.search(
        caller.app,
        arguments.query,
        arguments.collection,
        caller.identity,
        repository=named_repository(arguments.repository_id),
        ref=arguments.branch,
        limit=_limit(caller, arguments),
        by_definition=caller.replies == "text",
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.text import search_text  # noqa: PLC0415

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
    from codebase_mcp.tools.answers import search_history as answer  # noqa: PLC0415

    report = await answer(
        caller.app,
        arguments.query,
        arguments.collection,
        caller.identity,
        repository=named_repository(arguments.repository_id),
        path=arguments.path,
        author=arguments.author,
        since=arguments.since,
        until=arguments.until,
        limit=_limit(caller, arguments),
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.history import history_text  # noqa: PLC0415

        return VcsReply.of_text(history_text(report, caller.reply_budget()))
    return VcsReply(
        project_id=report.project.project_id,
        project_source=report.project_source,
        scope=scope_reply(report.scope),
        commits=[*map(_commit_entry, report.commits)],
        count=len(report.commits),
        query_time_ms=round(report.latency_ms),
        notices=list(report.notices),
    )


def _limit(caller: Caller, arguments: Vcs) -> int:
    """The limit of a search, with the bounds that search_code has for this caller.

    Raises:
        InvalidInput: it is out of bounds.
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
