"""An observation, as clients see it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from codebase_mcp.records.vocabulary import ObservationType
from codebase_mcp.tools.fields import AnchorReply, anchor_lines, anchor_replies
from codebase_mcp.tools.text import joined, moment

if TYPE_CHECKING:
    from codebase_mcp.records.memory import Observation

Detail = Literal["full", "preview"]

PREVIEW_CHARS = 200


class ObservationReply(BaseModel):
    """Something that was observed."""

    id: UUID
    content: str
    type: ObservationType
    relevance_score: float | None = Field(
        description="How surely it answers the query, 0 to 1; null where nothing was asked."
    )
    created_at: datetime
    tags: list[str]
    session_id: str | None
    anchors: list[AnchorReply]
    truncated: bool = Field(default=False, description="The content goes on: get shows all.")

    def text_lines(self) -> Iterator[str]:
        """A line about it, its anchors, and its content."""
        score = self.relevance_score
        yield joined(
            str(self.id),
            self.type,
            moment(self.created_at),
            None if score is None else f"{score:.2f}",
            f"tags: {', '.join(self.tags)}" if self.tags else None,
            f"session: {self.session_id}" if self.session_id else None,
        )
        yield from anchor_lines(self.anchors)
        yield self.content + (" …" if self.truncated else "")


def observation_reply(observation: Observation, detail: Detail) -> ObservationReply:
    """An observation, whole or its beginning."""
    content, cut, relevance = observation.content, False, observation.relevance
    if detail == "preview":
        content, cut = preview(content)
    reply = ObservationReply(
        id=observation.id,
        content=content,
        type=observation.type,
        relevance_score=None if relevance is None else round(relevance, 4),
        created_at=observation.created_at,
        tags=list(observation.tags),
        session_id=observation.session_id,
        anchors=anchor_replies(observation.anchors),
    )
    if cut:
        reply.truncated = True
    return reply


def preview(content: str) -> tuple[str, bool]:
    """The first 200 characters, back to the end of a word; and whether anything was cut."""
    if len(content) <= PREVIEW_CHARS:
        return content, False
    cut = content[:PREVIEW_CHARS]
    if not content[PREVIEW_CHARS].isspace():
        cut = cut[: _last_space(cut)]
    return cut.rstrip(), True


def _last_space(text: str) -> int:
    """The position of the last white space of a text; its length if it has none."""
    return next((i for i in reversed(range(len(text))) if text[i].isspace()), len(text))
