"""The toolset ``agents``: the agents of a project and their work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

from pydantic import Field

from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.fields import ProjectId, RecordReply
from codebase_mcp.tools.reply import ReplyPart
from codebase_mcp.tools.rules import MAX_SESSION_ID_CHARS, text
from codebase_mcp.tools.text import INDENT, joined, moment
from codebase_mcp.tools.toolset import Caller, Operation, Toolset

if TYPE_CHECKING:
    from codebase_mcp.app.app import InProject
    from codebase_mcp.records.sessions import Agent as AgentRecord

TOOLSET = Toolset("agents", "agent tells what other agents do, and them what you do.")

OPERATIONS = {
    "create_session": Operation(("agent_name",), ("session_id",)),
    "track_execution": Operation(
        ("agent_name",), ("tool_name", "success", "duration_ms", "summary", "error")
    ),
    "get_state": Operation(("agent_name",), scope="read"),
}


class Agent(Arguments):
    operation: Annotated[
        Literal["create_session", "track_execution", "get_state"],
        Field(description="What to do; each parameter says for which."),
    ]
    agent_name: Annotated[str, text(100), Field(description="Unique in the project.")]
    project_id: ProjectId = None
    session_id: Annotated[
        str | None,
        text(MAX_SESSION_ID_CHARS),
        Field(description="create_session: the open one unless given."),
    ] = None
    tool_name: Annotated[
        str | None, Field(max_length=200, description="track_execution: the tool used.")
    ] = None
    success: Annotated[bool | None, Field(description="track_execution: whether it went well.")] = (
        None
    )
    duration_ms: Annotated[float | None, Field(ge=0, le=10**12, description="track_execution.")] = (
        None
    )
    summary: Annotated[
        str | None, Field(max_length=5_000, description="track_execution: what was done.")
    ] = None
    error: Annotated[
        str | None, Field(max_length=5_000, description="track_execution: what went wrong.")
    ] = None


class ExecutionReply(ReplyPart):
    """Something that an agent did."""

    id: UUID
    at: datetime
    session_id: str | None
    tool_name: str | None
    success: bool | None = Field(description="null where nobody said.")
    duration_ms: float | None
    summary: str | None
    error: str | None

    def line(self) -> str:
        outcome = {True: "ok", False: "failed", None: None}[self.success]
        took = None if self.duration_ms is None else f"{self.duration_ms:g} ms"
        return joined(moment(self.at), self.tool_name, outcome, took, self.summary, self.error)


class AgentReply(RecordReply):
    agent_id: UUID | None = Field(default=None, description="The same for this name, for ever.")
    agent_name: str = ""
    status: Literal["active", "idle"] = Field(
        default="idle", description="active: its session is, and it did something within the hour."
    )
    session_active: bool = Field(
        default=False,
        description="Its session has not ended; without one, it did something within the hour.",
    )
    session_id: str | None = None
    execution_id: UUID | None = Field(default=None, description="Of track_execution.")
    executions: int = Field(default=0, description="All of them; from here on, of get_state.")
    failures: int = 0
    success_rate: float | None = Field(
        default=None, description="Of those whose outcome is known; null without any."
    )
    last_active_at: datetime | None = None
    recent: list[ExecutionReply] = Field(default=[], description="The newest 10, newest first.")

    def text_lines(self) -> Iterator[str]:
        """The agent in a line; then its success rate and its latest executions."""
        session = f"session {self.session_id}" if self.session_id else None
        yield joined(
            f"{self.agent_name}: {self.status}", session, f"agent_id {self.agent_id}", by=", "
        )
        if self.execution_id is not None:
            yield f"kept: {self.execution_id}"
        if "executions" in self.model_fields_set:
            rate = "" if self.success_rate is None else f", {self.success_rate:.0%} succeeded"
            yield f"{self.executions} executions, {self.failures} failed{rate}"
        yield from (INDENT + execution.line() for execution in self.recent)


@TOOLSET.tool("Keep track of agents", operations=OPERATIONS)
async def agent(caller: Caller, arguments: Agent) -> AgentReply:
    """Keep track of the agents that work in this project.

    - create_session: first, make an agent known by its name.
    - track_execution: after it did something, as much as is known.
    - get_state: whether it is at work, its successes, failures and latest doings. Look before you
      start it again.
    """
    from codebase_mcp.records import sessions as records  # noqa: PLC0415 - not for the handshake

    name = arguments.agent_name
    is_read = arguments.operation == "get_state"
    async with caller.enter(arguments.project_id, readonly=is_read) as project:
        match arguments.operation:
            case "create_session":
                session_id = arguments.session_id
                opened = await records.open_agent(project.tx, name, session_id, project.owner)
                return _reply(project, opened)
            case "track_execution":
                outcome = arguments.model_dump(include={*OPERATIONS["track_execution"].optional})
                if arguments.success is None and arguments.error:
                    outcome["success"] = False
                tracked, execution_id = await records.track_execution(
                    project.tx, name, outcome, project.owner
                )
                return _reply(project, tracked, execution_id=execution_id)
            case "get_state":
                record = await records.find_agent(project.tx, name)
                recent = await records.recent_executions(project.tx, name)
                return _reply(
                    project,
                    record,
                    executions=record.executions,
                    failures=record.failures,
                    success_rate=record.success_rate,
                    last_active_at=record.last_active_at,
                    recent=[ExecutionReply.model_validate(execution) for execution in recent],
                )


def _reply(project: InProject, agent: AgentRecord, **more: object) -> AgentReply:
    return AgentReply.of(
        project,
        agent_id=agent.id,
        agent_name=agent.name,
        status="idle" if agent.is_idle else "active",
        session_active=agent.session_active,
        session_id=agent.session_id,
        **more,
    )
