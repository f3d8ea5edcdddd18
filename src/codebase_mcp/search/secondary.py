"""Computes the query's vector by the secondary model, if the model answers in time.

A search does not wait for a service that is down or busy: after a moment it continues without it.
The request goes on in the background, so that a model that is being loaded is ready for a later
search. Until it ends, that model gets no further request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from codebase_mcp.embedding.embedder import Vectors, as_sent
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import EmbeddingUnavailable

_log = logging.getLogger(__name__)

SecondaryUse = Literal["used", "away", "missing"]

# A service in the same network needs 10 to 50 ms for a query, a remote service 100 to 200. A longer
# wait is noticed, and the answer of the built-in model is more useful then.
WAIT_S = 0.3

# The time after a failure without requests to the model.
PAUSE_S = 5.0


@dataclass(slots=True)
class _ModelState:
    """The overdue requests to a model, and when it may get a request again (monotonic time)."""

    overdue: int = 0
    not_before: float = 0.0


class SecondaryModel:
    """Computes vectors of queries by the secondary models of projects."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._states: dict[str, _ModelState] = {}
        self._tasks: set[asyncio.Task[Vectors | None]] = set()

    async def vector(
        self, profile: Profile, question: str, input_of: Callable[[str], str]
    ) -> Vectors | None:
        """The vector of a question; None if it is not available in time, or is zero.

        ``input_of`` makes the model's input text of the question, once its secrets are masked.
        """
        state = self._states.setdefault(profile.fingerprint, _ModelState())
        if state.overdue or time.monotonic() < state.not_before:
            return None
        task = asyncio.create_task(self._embed(state, profile, question, input_of))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        done, _ = await asyncio.wait([task], timeout=WAIT_S)
        if done:
            return task.result()
        state.overdue += 1
        task.add_done_callback(lambda _: _end_overdue(state))
        return None

    async def close(self) -> None:
        """Cancel the requests that are under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _embed(
        self, state: _ModelState, profile: Profile, question: str, input_of: Callable[[str], str]
    ) -> Vectors | None:
        try:
            model = await self._models.of_profile(profile)
            text = await as_sent(model.embedder, question)
            vector = await model.embedder.embed_query(input_of(text))
        except EmbeddingUnavailable as error:
            state.not_before = time.monotonic() + PAUSE_S
            _log.info("searching without the secondary model %s: %s", profile.model, error.message)
            return None
        return vector if np.any(vector) else None


def _end_overdue(state: _ModelState) -> None:
    state.overdue -= 1
