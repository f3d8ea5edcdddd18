"""Which passages has an observation, and what is worth its place in a prompt? Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

PREVIEW_CHARS = 200

# Sentences are joined to passages of about this length, so that no text has too many.
PASSAGE_CHARS = 120
MAX_PASSAGES = 32
_SENTENCE_END = re.compile(r"(?<=[.;!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")

BYTES_PER_TOKEN = 4
TOKEN_METHOD = "utf8_bytes/4"

# What an observation is worth in a prompt: what it says on the question counts most, then what kind
# of thing it is and how new, which count alike.
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


def passages(content: str) -> list[str]:
    """The passages of a text, some sentences each; none where it is but one."""
    length = max(PASSAGE_CHARS, len(content) // MAX_PASSAGES)
    found: list[str] = []
    for sentence in filter(str.strip, _SENTENCE_END.split(content)):
        if found and len(found[-1]) + len(sentence) < length:
            found[-1] = f"{found[-1]} {sentence}"
        else:
            found.append(sentence)
    return found if len(found) > 1 else []


@dataclass(frozen=True, slots=True)
class Candidate:
    """An observation that may be worth its place in a prompt.

    ``relevance`` is None where nothing was asked; ``is_own`` says that it comes from the session
    that the prompt is for; ``changed`` names the places that it is about and that have changed.
    """

    id: UUID
    content: str
    type: str
    tags: tuple[str, ...]
    stored_at: datetime
    relevance: float | None = None
    is_own: bool = False
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Packed:
    """Text for a prompt, what is in it, and how many candidates did not fit."""

    context: str
    ids: list[UUID]
    estimated_tokens: int
    omitted: int


def pack(candidates: Iterable[Candidate], max_tokens: int, now: datetime) -> Packed:
    """The most valuable candidates that fit, each as a whole; those of the session come first."""
    once = {candidate.id: candidate for candidate in candidates}.values()
    ordered = sorted(once, key=lambda c: (not c.is_own, -value(c, now), c.id))
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


def value(candidate: Candidate, now: datetime) -> float:
    """The value of an observation in a prompt: by relevance, type and age."""
    age_days = max((now - candidate.stored_at).total_seconds(), 0.0) / 86_400
    return (
        RELEVANCE_WEIGHT * (candidate.relevance or 0.0)
        + TYPE_WORTH.get(candidate.type, 0.0)
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
    """The position of the last white space of a text; its end if it has none."""
    places = [place for place, character in enumerate(text) if character.isspace()]
    return places[-1] if places else len(text)


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def _entry(candidate: Candidate) -> str:
    about = [candidate.type, candidate.stored_at.date().isoformat()]
    if candidate.tags:
        about.append("tags: " + ", ".join(candidate.tags))
    if candidate.changed:
        about.append("may be out of date, the code changed: " + ", ".join(candidate.changed))
    return f"\n\n### {' · '.join(about)}\n\n{candidate.content}"
