"""The agents of a project and their executions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import NotFound
from codebase_mcp.records.sessions import session_for

_SQL = load_queries("codebase_mcp.records", "agents.sql")

# An agent without an execution for this long is idle.
ACTIVE_MINUTES = 60

RECENT_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Doing:
    """An execution of an agent; ``success`` is None if unknown."""

    tool_name: str | None = None
    success: bool | None = None
    duration_ms: float | None = None
    summary: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """A stored execution of an agent."""

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
    await tx.execute(_SQL["open"], id=uuid4(), name=name, session_id=session)
    return await find_agent(tx, name)


async def track_execution(
    tx: Transaction, name: str, doing: Doing, owner: str | None
) -> tuple[Agent, UUID]:
    """Store an execution; returns the agent and the id of the execution.

    Raises:
        NotFound: there is no such agent.
    """
    row = await tx.fetch_one(
        _SQL["track"],
        id=uuid4(),
        name=name,
        open_session=await session_for(tx, None, owner),
        **asdict(doing),
    )
    if row is None:
        raise _not_found(name)
    return await find_agent(tx, name), row[0]


async def find_agent(tx: Transaction, name: str) -> Agent:
    """An agent by its name.

    Raises:
        NotFound: there is no such agent.
    """
    row = await tx.fetch_one(_SQL["find"], name=name, minutes=ACTIVE_MINUTES)
    if row is None:
        raise _not_found(name)
    return Agent(*row)


async def recent_executions(tx: Transaction, name: str) -> list[Execution]:
    """The last executions of an agent, the latest first."""
    rows: Sequence[Any] = await tx.fetch_all(_SQL["recent"], name=name, limit=RECENT_SHOWN)
    return [Execution(*row) for row in rows]


def _not_found(name: str) -> NotFound:
    return NotFound(
        "Agent not found",
        hint='Make it known first: agent(operation="create_session").',
        details={"agent_name": name},
    )
