"""Which observations are worth their tokens in a prompt? Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from codebase_mcp.records.memory import Observation

PREVIEW_CHARS = 200

BYTES_PER_TOKEN = 4
TOKEN_METHOD = "utf8_bytes/4"

# The relevance to the question counts most; type and age count less, and equally.
RELEVANCE_WEIGHT = 3.0
TYPE_WORTH: Mapping[str, float] = {
    "Decision": 1.0,
    "Pattern": 0.8,
    "Insight": 0.6,
    "Summary": 0.4,
    "Execution": 0.2,
}
HALF_LIFE_DAYS = 14.0

HEADING = "## Project memory"


@dataclass(frozen=True, slots=True)
class Packed:
    """A text for a prompt, its observations, and how many candidates did not fit."""

    context: str
    ids: list[UUID]
    estimated_tokens: int
    omitted: int


def pack(
    candidates: Iterable[Observation], session_id: str | None, max_tokens: int, now: datetime
) -> Packed:
    """The most valuable candidates that fit, uncut; those of the session come first."""
    distinct = {candidate.id: candidate for candidate in candidates}.values()
    ordered = sorted(
        distinct,
        key=lambda o: (session_id is None or o.session_id != session_id, -value(o, now), o.id),
    )
    parts, ids = [HEADING], []
    size = len(HEADING.encode())
    for candidate in ordered:
        part = _entry(candidate)
        grown = size + len(part.encode())
        if _tokens(grown) <= max_tokens:
            parts.append(part)
            ids.append(candidate.id)
            size = grown
    context = "".join(parts) if ids else ""
    return Packed(context, ids, estimate_tokens(context), len(ordered) - len(ids))


def value(observation: Observation, now: datetime) -> float:
    """The value of an observation in a prompt: by relevance, type and age."""
    age_days = max((now - observation.stored_at).total_seconds(), 0.0) / 86_400
    return (
        RELEVANCE_WEIGHT * (observation.relevance or 0.0)
        + TYPE_WORTH.get(observation.type, 0.0)
        + math.exp2(-age_days / HALF_LIFE_DAYS)
    )


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its bytes in UTF-8, rounded up."""
    return _tokens(len(text.encode()))


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


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def _entry(observation: Observation) -> str:
    about = [observation.type, observation.stored_at.date().isoformat()]
    if observation.tags:
        about.append("tags: " + ", ".join(observation.tags))
    changed = [
        anchor.symbol or anchor.file or anchor.commit or ""
        for anchor in observation.anchors
        if anchor.state == "needs_review"
    ]
    if changed:
        about.append("may be out of date, the code changed: " + ", ".join(changed))
    return f"\n\n### {' · '.join(about)}\n\n{observation.content}"
