"""What is the vector of this question by the stronger model, if it can be had at once?

A search does not wait for a service that is away or busy: after a moment it answers without it.
What was asked for goes on by itself, so that a model which is only being loaded is there soon, and
nothing more is asked meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

import numpy as np

from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import EmbeddingUnavailable

_log = logging.getLogger(__name__)

# A service in the same network needs 10 to 50 ms for a question, one far away 100 to 200. A longer
# wait a person notices, who would rather have the answer of the model that is here.
WAIT_S = 0.3

# After a failure nobody is asked for so long.
PAUSE_S = 5.0


@dataclass(slots=True)
class _Asked:
    """What is known of one model: how many questions nobody waits for any more that it has not
    answered yet, and until when to ask nothing more (on the monotonic clock)."""

    late: int = 0
    not_before: float = 0.0


class StrongerModel:
    """Asks the second tier's models for the vectors of questions."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._asked: dict[str, _Asked] = {}
        self._tasks: set[asyncio.Task[Vectors | None]] = set()

    async def vector(self, profile: Profile, question: str) -> Vectors | None:
        """The question's vector; None where it cannot be had at once, or means nothing."""
        asked = self._asked.setdefault(profile.fingerprint, _Asked())
        if asked.late or time.monotonic() < asked.not_before:
            return None
        task = asyncio.create_task(self._ask(asked, profile, question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        done, _ = await asyncio.wait([task], timeout=WAIT_S)
        if done:
            return task.result()
        asked.late += 1
        task.add_done_callback(lambda _: _arrived(asked))
        return None

    async def close(self) -> None:
        """Wait for no answer any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, asked: _Asked, profile: Profile, question: str) -> Vectors | None:
        try:
            model = await self._models.of_profile(profile)
            vector = await model.embedder.embed_query(question)
        except EmbeddingUnavailable as error:
            asked.not_before = time.monotonic() + PAUSE_S
            _log.info("Answered without %s: %s", profile.model, error.message)
            return None
        return vector if np.any(vector) else None


def _arrived(asked: _Asked) -> None:
    asked.late -= 1
