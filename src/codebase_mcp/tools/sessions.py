"""The tool ``session`` of the toolset ``memory``: stretches of work, and what they observed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

from pydantic import Field

from codebase_mcp.records.vocabulary import ObservationType
from codebase_mcp.tools import fields
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.reply import ReplyPart, rounded
from codebase_mcp.tools.rules import MAX_SESSION_ID_CHARS, text
from codebase_mcp.tools.text import joined, moment
from codebase_mcp.tools.toolset import REPEATS, Caller, Operation, ToolSpec

if TYPE_CHECKING:
    from codebase_mcp.records.memory import Observation
    from codebase_mcp.records.sessions import AgentActivity, TouchedTask
    from codebase_mcp.records.sessions import Session as SessionRecord
    from codebase_mcp.source.git import Head

OBSERVATIONS_SHOWN = 20
PREVIEW_CHARS = 200

Detail = Literal["full", "preview"]


class Session(Arguments):
    operation: Annotated[Literal["start", "end", "get_context"], Field(description="What to do.")]
    session_id: Annotated[
        str,
        text(MAX_SESSION_ID_CHARS),
        Field(description="A name that you choose: auth-refactor-2."),
    ]
    project_id: fields.ProjectId = None


class ObservationReply(ReplyPart):
    """Something that was observed."""

    id: UUID
    content: str
    type: ObservationType
    relevance_score: Annotated[float, rounded(4)] | None = Field(
        validation_alias="relevance",
        description="How surely it answers the query, 0 to 1; null where nothing was asked.",
    )
    created_at: datetime
    tags: list[str]
    session_id: str | None
    anchors: list[fields.AnchorReply]
    truncated: bool = Field(default=False, description="The content goes on: get shows all.")

    def text_lines(self) -> Iterator[str]:
        score = self.relevance_score
        yield joined(
            str(self.id),
            self.type,
            moment(self.created_at),
            None if score is None else f"{score:.2f}",
            f"tags: {', '.join(self.tags)}" if self.tags else None,
            f"session: {self.session_id}" if self.session_id else None,
        )
        yield from fields.anchor_lines(self.anchors)
        yield self.content + (" …" if self.truncated else "")


def observation_reply(observation: Observation, detail: Detail) -> ObservationReply:
    """An observation, whole or its beginning."""
    content, cut = observation.content, False
    if detail == "preview":
        content, cut = preview(content)
    return ObservationReply.made_from(observation, content=content, truncated=cut)


class TaskTouched(ReplyPart):
    """A task as it is now, and when the session last changed it."""

    id: UUID
    title: str
    status: str
    touched_at: datetime


class AgentSeen(ReplyPart):
    """What an agent did in the session."""

    agent_id: UUID
    agent_name: str
    executions: int
    failures: int
    last_active_at: datetime | None


class SessionContext(ReplyPart):
    """The work in a session, and its branch and commit."""

    observations: list[ObservationReply] = Field(description="The newest 20, as previews.")
    tasks: list[TaskTouched] = Field(description="Last touched first.")
    agents: list[AgentSeen] = Field(description="Last active first.")
    branch: fields.ShownName | None = Field(
        description="Checked out now; if that is unknown, at the start."
    )
    commit: str | None
    start_branch: fields.ShownName | None
    start_commit: str | None
    started_at: datetime
    ended_at: datetime | None

    def text_lines(self) -> Iterator[str]:
        ended = f"ended {moment(self.ended_at)}" if self.ended_at else None
        yield joined(f"started {moment(self.started_at)}", ended, by=", ")
        now, then = (self.branch, self.commit), (self.start_branch, self.start_commit)
        if any(now):
            yield f"on {joined(*now, by=' ')}"
        if any(then) and then != now:
            yield f"at the start on {joined(*then, by=' ')}"
        for task in self.tasks:
            yield f"task {task.id}  {task.status}  {task.title}"
        for agent in self.agents:
            yield (
                f"agent {agent.agent_name}: {agent.executions} executions, {agent.failures} failed"
            )
        for observation in self.observations:
            yield from observation.text_lines()


class SessionReply(fields.RecordReply):
    session_id: fields.ShownName = ""
    status: Literal["started", "ended", "active"] = Field(
        default="started", description="get_context: active or ended."
    )
    context: SessionContext | None = Field(default=None, description="Only of get_context.")
    timestamp: datetime | None = Field(
        default=None, description="When it was started, or ended; of get_context: now."
    )

    def text_lines(self) -> Iterator[str]:
        yield f"session {self.session_id}: {self.status}"
        if self.context is not None:
            yield from self.context.text_lines()


async def session(caller: Caller, arguments: Session) -> SessionReply:
    """Tie together what is done in one stretch of work.

    - start: what you store afterwards belongs to it. Starting again goes on with it.
    - end: when the work is done or handed over; store a Summary with memory first.
    - get_context: observations, tasks, agents, branch and commit of a session, to pick up where
      somebody left off.
    """
    # Imports within functions are not for the handshake.
    from codebase_mcp.records.sessions import end_session, start_session  # noqa: PLC0415

    if arguments.operation == "get_context":
        return await _get_context(caller, arguments)
    directory, session_id = caller.identity.directory, arguments.session_id
    head = await _head_of(directory)
    async with caller.enter(arguments.project_id) as project:
        if arguments.operation == "start":
            record = await start_session(project.tx, session_id, project.owner, directory, head)
        else:
            record = await end_session(project.tx, session_id, head)
    is_start = arguments.operation == "start"
    return SessionReply.of(
        project,
        session_id=record.id,
        status="started" if is_start else "ended",
        timestamp=record.started_at if is_start else record.ended_at,
    )


async def _get_context(caller: Caller, arguments: Session) -> SessionReply:
    from codebase_mcp.records.memory import newest  # noqa: PLC0415
    from codebase_mcp.records.sessions import activity_in, find_session  # noqa: PLC0415

    async with caller.enter(arguments.project_id, readonly=True) as project:
        record = await find_session(project.tx, arguments.session_id)
        observations = await newest(project.tx, OBSERVATIONS_SHOWN, session_id=record.id)
        tasks, agents = await activity_in(project.tx, record.id)
    # Only callers on this machine may look at the directory in which a session was started.
    local = caller.identity.directory is not None and record.directory is not None
    head = await _head_of(Path(record.directory) if local and record.directory else None)
    return SessionReply.of(
        project,
        session_id=record.id,
        status="active" if record.ended_at is None else "ended",
        context=_context(record, head, observations, tasks, agents),
        timestamp=datetime.now(UTC),
    )


def _context(
    record: SessionRecord,
    head: Head,
    observations: list[Observation],
    tasks: list[TouchedTask],
    agents: list[AgentActivity],
) -> SessionContext:
    is_checked_out = head.branch is not None or head.commit is not None
    return SessionContext.made_from(
        record,
        observations=[observation_reply(each, "preview") for each in observations],
        tasks=[TaskTouched.model_validate(task) for task in tasks],
        agents=[AgentSeen.model_validate(agent) for agent in agents],
        branch=head.branch if is_checked_out else record.start_branch,
        commit=head.commit if is_checked_out else record.start_commit,
    )


async def _head_of(directory: Path | None) -> Head:
    """The branch and commit in a directory; both None where they are unknown."""
    from codebase_mcp.source.git import Head, head_of  # noqa: PLC0415

    nothing = Head(None, None)
    if directory is None:
        return nothing
    return await asyncio.to_thread(head_of, directory) or nothing


SESSION = ToolSpec.of(
    session,
    "Work in a session",
    REPEATS,
    operations={
        "start": Operation(("session_id",)),
        "end": Operation(("session_id",)),
        "get_context": Operation(("session_id",), scope="read"),
    },
)


def preview(content: str) -> tuple[str, bool]:
    """The first 200 characters, back to the end of a word; and whether anything was cut."""
    if len(content) <= PREVIEW_CHARS:
        return content, False
    cut = content[:PREVIEW_CHARS]
    if not content[PREVIEW_CHARS].isspace():
        cut = re.sub(r"\S+\Z", "", cut) or cut
    return cut.rstrip(), True
