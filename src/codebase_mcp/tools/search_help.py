"""The help that a reply gives when its results are weak."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import BaseModel, Field

from codebase_mcp.tools.text import joined

if TYPE_CHECKING:
    from codebase_mcp.search.help import Help


class BetterFileReply(BaseModel):
    repository_id: UUID
    file_path: str
    similarity_score: float


class HelpReply(BaseModel):
    """Why the results are few or poor, and what to ask instead."""

    hint: str = Field(description="What to do next.")
    reasons: list[str]
    words: dict[str, int] = Field(description="In how many chunks each word of the query occurs.")
    nearest_words: dict[str, list[str]] = Field(
        description="For words that this code lacks or hardly uses: its own words that are near."
    )
    without_filters: BetterFileReply | None = Field(
        default=None, description="The best file where the filters hide a better one."
    )

    def as_text(self) -> str:
        """What to do next, then why."""
        near = (
            f"{word}: {', '.join(words)}" for word, words in self.nearest_words.items() if words
        )
        lacking = [word for word, chunks in self.words.items() if not chunks]
        better = self.without_filters
        lines = [
            f"Try: {self.hint}",
            *self.reasons,
            f"Not in this code: {', '.join(lacking)}" if lacking else None,
            joined("Its own words", "; ".join(near), by=": ")
            if any(self.nearest_words.values())
            else None,
            f"Without filters: {better.file_path} ({better.similarity_score})" if better else None,
        ]
        return "\n".join(line for line in lines if line)


def help_reply(help: Help) -> HelpReply:
    """Help as clients see it."""
    reply = HelpReply(
        hint=help.hint,
        reasons=list(help.reasons),
        words=dict(help.words),
        nearest_words={word: list(near) for word, near in help.nearest.items()},
    )
    if help.better is not None:
        reply.without_filters = BetterFileReply(
            repository_id=help.better.repository_id,
            file_path=help.better.file_path,
            similarity_score=help.better.similarity_score,
        )
    return reply
