"""Work sessions, and the agents of a project with their executions.

The caller chooses the name of a session. Records that a caller stores without a session belong to
its open session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import NotFound
from codebase_mcp.source.git import Head

_SQL = load_queries("codebase_mcp.records", "sessions.sql")

TASKS_SHOWN = 50
AGENTS_SHOWN = 50
EXECUTIONS_SHOWN = 10

# An agent without an execution for this long is idle.
ACTIVE_MINUTES = 60

_OUTCOME = ("tool_name", "success", "duration_ms", "summary", "error")


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
    [row] = await tx.fetch_all(
        _SQL["start"],
        id=session_id,
        owner=owner,
        directory=str(directory) if directory else None,
        branch=head.branch,
        commit=head.commit,
    )
    return Session(*row)


async def end_session(tx: Transaction, session_id: str, head: Head) -> Session:
    """End a session; an ended session does not change.

    Raises:
        NotFound: there is no such session.
    """
    return await _session(tx, "end", session_id, branch=head.branch, commit=head.commit)


async def find_session(tx: Transaction, session_id: str) -> Session:
    """A session by its name.

    Raises:
        NotFound: there is no such session.
    """
    return await _session(tx, "find", session_id)


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


async def _session(tx: Transaction, statement: str, session_id: str, **params: object) -> Session:
    row = await tx.fetch_one(_SQL[statement], id=session_id, **params)
    if row is None:
        raise NotFound(
            "Session not found",
            hint='Start it first: session(operation="start").',
            details={"session_id": session_id},
        )
    return Session(*row)


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution of an agent; ``success`` is None if unknown."""

    id: UUID
    at: datetime
    session_id: str | None
    tool_name: str | None
    success: bool | None
    duration_ms: float | None
    summary: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of a project.

    ``session_active``: its session has not ended, or, without a session, it was lately active.
    """

    id: UUID
    name: str
    session_id: str | None
    last_active_at: datetime
    session_active: bool
    lately_active: bool
    executions: int
    successes: int
    failures: int

    @property
    def is_idle(self) -> bool:
        """Whether its session has ended, or it was not active lately."""
        return not (self.session_active and self.lately_active)

    @property
    def success_rate(self) -> float | None:
        """The share of successes among the executions with an outcome; None without any."""
        finished = self.successes + self.failures
        return self.successes / finished if finished else None


async def open_agent(
    tx: Transaction, name: str, session_id: str | None, owner: str | None
) -> Agent:
    """Create or find an agent, and bind it to the given session, or to its caller's open session.

    Raises:
        NotFound: there is no such session.
    """
    session = await session_for(tx, session_id, owner)
    await tx.execute(_SQL["open_agent"], id=uuid4(), name=name, session_id=session)
    return await find_agent(tx, name)


async def track_execution(
    tx: Transaction, name: str, outcome: Mapping[str, object], owner: str | None
) -> tuple[Agent, UUID]:
    """Store an execution; returns the agent and the id of the execution.

    ``outcome`` has any of these fields: tool_name, success, duration_ms, summary, error.

    Raises:
        NotFound: there is no such agent.
    """
    bound = {
        "id": uuid4(),
        "name": name,
        "open_session": await session_for(tx, None, owner),
        **{name: outcome.get(name) for name in _OUTCOME},
    }
    _, rows = await tx.fetch_many([(_SQL["touch_agent"], bound), (_SQL["track"], bound)])
    if not rows:
        raise _agent_not_found(name)
    return await find_agent(tx, name), rows[0][0]


async def find_agent(tx: Transaction, name: str) -> Agent:
    """An agent by its name.

    Raises:
        NotFound: there is no such agent.
    """
    row = await tx.fetch_one(_SQL["find_agent"], name=name, minutes=ACTIVE_MINUTES)
    if row is None:
        raise _agent_not_found(name)
    return Agent(*row)


async def recent_executions(tx: Transaction, name: str) -> list[Execution]:
    """The last executions of an agent, the latest first."""
    rows = await tx.fetch_all(_SQL["recent"], name=name, limit=EXECUTIONS_SHOWN)
    return [Execution(*row) for row in rows]


def _agent_not_found(name: str) -> NotFound:
    return NotFound(
        "Agent not found",
        hint='Make it known first: agent(operation="create_session").',
        details={"agent_name": name},
    )
