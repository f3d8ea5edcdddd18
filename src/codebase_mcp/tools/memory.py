"""The toolset ``memory``: observations, by session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

from pydantic import FailFast, Field

from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.vocabulary import ObservationType
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.fields import Anchors, ProjectId, RecordReply, Tags, anchor_lines, places_of
from codebase_mcp.tools.rules import MAX_SESSION_ID_CHARS, QUERY, Limits, record_id, text
from codebase_mcp.tools.sessions import SESSION, Detail, ObservationReply, observation_reply
from codebase_mcp.tools.toolset import REPEATS, Caller, Operation, Toolset

if TYPE_CHECKING:
    from codebase_mcp.app.app import InProject
    from codebase_mcp.embedding.models import Model
    from codebase_mcp.records.memory import Observation, Upkeep

TOOLSET = Toolset(
    "memory",
    "session start, then memory inject or search for what is known; store decisions and what you "
    "learned, with anchors to the code.",
)

MAX_CONTENT_CHARS = 20_000
MAX_IDS = 100

OPERATIONS = {
    "store": Operation(
        ("content", "observation_type"), ("tags", "session_id", "anchors", "detail")
    ),
    "search": Operation(
        ("query",), ("tags", "observation_type", "session_id", "limit", "detail"), "read"
    ),
    "timeline": Operation(
        (), ("anchor_id", "depth_before", "depth_after", "session_id", "detail"), "read"
    ),
    "get": Operation(("ids",), scope="read"),
    "inject": Operation((), ("session_id", "query", "tags", "max_tokens"), "read"),
}


def _check_count(ids: list[str], field: str) -> list[str]:
    if 1 <= len(ids) <= MAX_IDS:
        return ids
    message = f"Ids must be 1 to {MAX_IDS}, got {len(ids)}"
    raise InvalidInput.of(field, len(ids), message, rule=f"1..{MAX_IDS} ids")


class Memory(Arguments):
    operation: Annotated[
        Literal["store", "search", "timeline", "get", "inject"],
        Field(description="What to do; each parameter says for which."),
    ]
    project_id: ProjectId = None
    content: Annotated[
        str | None,
        text(MAX_CONTENT_CHARS),
        Field(description="store: what to remember, clear without this conversation."),
    ] = None
    observation_type: Annotated[
        ObservationType | None,
        Field(description="store: a Pattern is one to follow. search: only these."),
    ] = None
    tags: Annotated[
        Tags, Field(description="store: single words. search, inject: only with all of them.")
    ] = None
    session_id: Annotated[
        str | None,
        text(MAX_SESSION_ID_CHARS),
        Field(
            description="store: the open one unless given. search, timeline: only this. "
            "inject: this first."
        ),
    ] = None
    anchors: Anchors = None
    query: Annotated[
        str | None, QUERY, Field(description="search, inject: a question or words.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="search: at most.")] = 10
    anchor_id: Annotated[
        UUID | None,
        record_id("Observation"),
        Field(description="timeline: the one in the middle; else the newest."),
    ] = None
    depth_before: Annotated[int, Field(ge=0, le=50, description="timeline.")] = 5
    depth_after: Annotated[int, Field(ge=0, le=50, description="timeline.")] = 5
    ids: Annotated[
        list[Annotated[UUID, record_id("Observation")]] | None,
        FailFast(),
        Limits(_check_count, of=list, minItems=1, maxItems=MAX_IDS),
        Field(description="get: ids of observations."),
    ] = None
    max_tokens: Annotated[
        int, Field(ge=1, le=100_000, description="inject: the most it may take.")
    ] = 2_000
    detail: Annotated[Detail, Field(description="Whole contents, or the first 200 characters.")] = (
        "full"
    )


class MemoryReply(RecordReply):
    observations: list[ObservationReply] = Field(
        default=[], description="store: the one. search: best first. timeline: oldest first."
    )
    deduplicated: bool = Field(
        default=False, description="store: the same content was there; tags were added to it."
    )
    missing: list[UUID] = Field(default=[], description="get: ids that are unknown.")
    context: str = Field(default="", description="inject: Markdown to put into a prompt.")
    observation_ids: list[UUID] = Field(default=[], description="inject: what it holds, in order.")
    estimated_tokens: int = Field(default=0, description="inject: of the whole context.")
    token_method: str = Field(
        default="",
        description="inject: how tokens are estimated, bytes of UTF-8 divided by four, rounded up.",
    )
    omitted: int = Field(
        default=0, description="inject: how many more would be worth it and did not fit."
    )

    def text_lines(self) -> Iterator[str]:
        """Observations; of a stored observation only the facts that the caller does not know."""
        if "deduplicated" in self.model_fields_set:
            state = "known already" if self.deduplicated else "stored"
            for observation in self.observations:
                yield f"{state}: {observation.id}"
                yield from anchor_lines(observation.anchors)
        elif "context" in self.model_fields_set:
            yield self.context or "nothing worth knowing is stored"
            if self.omitted:
                yield f"{self.omitted} more did not fit into max_tokens"
        else:
            for observation in self.observations:
                yield from observation.text_lines()
            if self.missing:
                yield f"unknown: {', '.join(map(str, self.missing))}"
            elif not self.observations:
                yield "no observations"


@TOOLSET.tool("Remember and recall", REPEATS, operations=OPERATIONS)
async def memory(caller: Caller, arguments: Memory) -> MemoryReply:
    """Remember what was decided, done or learned in this project, and recall it.

    - store (content, observation_type): one thing, with its reason, when it is decided, tried or
      found out.
    - search (query): before you decide what may have been decided. Empty: nothing is known.
    - inject: at the start of work, what is worth knowing within max_tokens.
    - timeline: around anchor_id, or the newest.
    - get (ids): whole, after previews.

    For code use search_code, for work to do tasks.
    """
    run = {
        "store": _store, "search": _search, "timeline": _timeline, "get": _get, "inject": _inject
    }[arguments.operation]  # fmt: skip
    return await run(caller, arguments)


async def _store(caller: Caller, arguments: Memory) -> MemoryReply:
    # Imports within functions are heavy, and not for the handshake.
    from codebase_mcp.records import memory as records  # noqa: PLC0415
    from codebase_mcp.records.anchors import set_anchors  # noqa: PLC0415
    from codebase_mcp.records.sessions import session_for  # noqa: PLC0415

    assert arguments.content is not None
    assert arguments.observation_type is not None
    places = places_of(arguments.anchors)
    model = await caller.app.models.configured()
    said = records.ObservationText(arguments.content, tuple(arguments.tags or ()))
    [prepared] = await records.prepare(model, [said])
    async with caller.enter(arguments.project_id) as project:
        session_id = await session_for(project.tx, arguments.session_id, project.owner)
        identity, is_new = await records.store_observation(
            project.tx, model, prepared, arguments.observation_type, session_id
        )
        if "anchors" in arguments.model_fields_set:
            await set_anchors(project.tx, "observation", identity, places)
        stored = await records.load_observations(project.tx, [identity])
        upkeep = await records.look_after(project.tx, model)
    await _maintain(caller, project, model, upkeep)
    reply = _observations(project, stored, arguments.detail)
    reply.deduplicated = not is_new
    return reply


async def _search(caller: Caller, arguments: Memory) -> MemoryReply:
    from codebase_mcp.records.memory import look_after  # noqa: PLC0415
    from codebase_mcp.records.memory_search import (  # noqa: PLC0415
        MemoryFilters,
        ask,
        search_observations,
    )

    assert arguments.query is not None
    filters = MemoryFilters(
        tuple(arguments.tags or ()), arguments.observation_type, arguments.session_id
    )
    question = await ask(caller.app.models, arguments.query)
    async with caller.enter(arguments.project_id, readonly=True) as project:
        observations = await search_observations(
            project.tx, question, filters, limit=arguments.limit
        )
        upkeep = await look_after(project.tx, question.model)
    await _maintain(caller, project, question.model, upkeep)
    return _observations(project, observations, arguments.detail)


async def _timeline(caller: Caller, arguments: Memory) -> MemoryReply:
    from codebase_mcp.records.memory import newest, timeline  # noqa: PLC0415

    before, after, of = arguments.depth_before, arguments.depth_after, arguments.session_id
    async with caller.enter(arguments.project_id, readonly=True) as project:
        if arguments.anchor_id is not None:
            observations = await timeline(project.tx, arguments.anchor_id, before, after, of)
        else:
            observations = (await newest(project.tx, before + after, session_id=of))[::-1]
    return _observations(project, observations, arguments.detail)


async def _get(caller: Caller, arguments: Memory) -> MemoryReply:
    from codebase_mcp.records.memory import get_observations  # noqa: PLC0415

    async with caller.enter(arguments.project_id, readonly=True) as project:
        observations, missing = await get_observations(project.tx, arguments.ids or [])
    reply = _observations(project, observations, "full")
    reply.missing = missing
    return reply


async def _inject(caller: Caller, arguments: Memory) -> MemoryReply:
    from codebase_mcp.records.memory_search import TOKEN_METHOD, ask, pack, worth_injecting  # noqa: PLC0415

    asked = arguments.query
    question = None if asked is None else await ask(caller.app.models, asked)
    async with caller.enter(arguments.project_id, readonly=True) as project:
        candidates = await worth_injecting(
            project.tx,
            question=question,
            tags=tuple(arguments.tags or ()),
            session_id=arguments.session_id,
        )
    packed = pack(candidates, arguments.session_id, arguments.max_tokens, datetime.now(UTC))
    return MemoryReply.of(project, packed, observation_ids=packed.ids, token_method=TOKEN_METHOD)


async def _maintain(caller: Caller, project: InProject, model: Model, upkeep: Upkeep) -> None:
    """Occasional maintenance, in transactions of its own, after the reply is known."""
    from codebase_mcp.records import memory as records  # noqa: PLC0415

    project_id = project.project.project_id or DEFAULT_ID
    if upkeep.index:
        async with caller.enter(project_id) as again:
            await records.tend_index(again.tx, model)
    if upkeep.renew:
        async with caller.enter(project_id, readonly=True) as again:
            old = await records.outdated(again.tx, model)
        prepared = await records.prepare(model, list(old.values()))
        async with caller.enter(project_id) as again:
            await records.renew(again.tx, dict(zip(old, prepared, strict=True)))


def _observations(
    project: InProject, observations: Iterable[Observation], detail: Detail
) -> MemoryReply:
    shown = [observation_reply(observation, detail) for observation in observations]
    return MemoryReply.of(project, observations=shown)


TOOLSET.tools.append(SESSION)
