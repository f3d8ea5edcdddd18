"""Work sessions and their activity.

The caller chooses the name of a session. Records that a caller stores without a session belong to
its open session.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import NotFound
from codebase_mcp.source.git import Head

_SQL = load_queries("codebase_mcp.records", "sessions.sql")

TASKS_SHOWN = 50
AGENTS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Session:
    """A session; ``directory`` is the working directory of its caller, or None."""

    id: str
    started_at: datetime
    ended_at: datetime | None
    directory: str | None
    start_branch: str | None
    start_commit: str | None
    end_branch: str | None
    end_commit: str | None


@dataclass(frozen=True, slots=True)
class TouchedTask:
    """A task with its current status, and the time when the session last changed it."""

    id: UUID
    title: str
    status: str
    touched_at: datetime


@dataclass(frozen=True, slots=True)
class AgentActivity:
    """The activity of an agent in a session."""

    agent_id: UUID
    agent_name: str
    executions: int
    failures: int
    last_active_at: datetime | None


async def start_session(
    tx: Transaction, session_id: str, owner: str | None, directory: Path | None, head: Head
) -> Session:
    """Start a session, or continue the existing session with this name, even if it has ended."""
    row = await tx.fetch_one(
        _SQL["start"],
        id=session_id,
        owner=owner,
        directory=str(directory) if directory else None,
        branch=head.branch,
        commit=head.commit,
    )
    assert row is not None
    return Session(*row)


async def end_session(tx: Transaction, session_id: str, head: Head) -> Session:
    """End a session; an ended session does not change.

    Raises:
        NotFound: there is no such session.
    """
    row = await tx.fetch_one(_SQL["end"], id=session_id, branch=head.branch, commit=head.commit)
    if row is None:
        raise _not_found(session_id)
    return Session(*row)


async def find_session(tx: Transaction, session_id: str) -> Session:
    """A session by its name.

    Raises:
        NotFound: there is no such session.
    """
    row = await tx.fetch_one(_SQL["find"], id=session_id)
    if row is None:
        raise _not_found(session_id)
    return Session(*row)


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session in a list, with the number of its observations."""

    id: str
    started_at: datetime
    ended_at: datetime | None
    branch: str | None
    observations: int


async def newest_sessions(tx: Transaction, limit: int) -> list[ListedSession]:
    """The newest sessions, by their start, newest first."""
    return [ListedSession(*row) for row in await tx.fetch_all(_SQL["newest"], limit=limit)]


async def session_for(tx: Transaction, session_id: str | None, owner: str | None) -> str | None:
    """The given session, or else the open session of the caller.

    Raises:
        NotFound: the given session does not exist.
    """
    if session_id is not None:
        return (await find_session(tx, session_id)).id
    if owner is None:
        return None
    row = await tx.fetch_one(_SQL["open_session"], owner=owner)
    return row[0] if row else None


async def activity_in(
    tx: Transaction, session_id: str
) -> tuple[list[TouchedTask], list[AgentActivity]]:
    """The tasks that a session created or changed, and the activity of agents in it."""
    tasks, agents = await tx.fetch_many(
        [
            (_SQL["touched_tasks"], {"id": session_id, "limit": TASKS_SHOWN}),
            (_SQL["active_agents"], {"id": session_id, "limit": AGENTS_SHOWN}),
        ]
    )
    return [TouchedTask(*row) for row in tasks], [AgentActivity(*row) for row in agents]


def _not_found(session_id: str) -> NotFound:
    return NotFound(
        "Session not found",
        hint='Start it first: session(operation="start").',
        details={"session_id": session_id},
    )
