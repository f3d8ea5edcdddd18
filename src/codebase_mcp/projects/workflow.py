"""Which project does workflow-mcp say is active?

``GET {url}/api/v1/projects/active`` answers a JSON object whose ``project_id`` is a text, or null
where none is active. It must never hold anybody up: all of it takes a second at most, one request
serves all who ask meanwhile, and its outcome counts for a minute, a failure too. A failure means
the default workspace, and a line in the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from codebase_mcp.database.naming import validate_project_id
from codebase_mcp.errors import InvalidInput
from codebase_mcp.telemetry.calls import looked_up

_log = logging.getLogger(__name__)

PATH = "/api/v1/projects/active"
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What workflow-mcp said, or what was wrong with it (``problem``)."""

    project_id: str | None = None
    problem: str | None = None


class WorkflowClient:
    """Asks one workflow-mcp. ``clock`` counts seconds for the cache."""

    def __init__(
        self,
        url: str,
        *,
        time_limit_s: float = 1.0,
        cache_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url + PATH
        self._time_limit_s = time_limit_s
        self._cache_s = cache_s
        self._clock = clock
        self._answer = Answer()
        self._expires = float("-inf")
        self._asking: asyncio.Task[Answer] | None = None

    async def active_project(self) -> Answer:
        """Its last answer, or a new one where that is too old; never an error."""
        is_fresh = self._clock() < self._expires
        looked_up("workflow", hit=is_fresh)
        if is_fresh:
            return self._answer
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        # Whoever asked first may be cancelled; the others still wait for the answer.
        return await asyncio.shield(self._asking)

    async def close(self) -> None:
        """Give up a request that is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> Answer:
        try:
            async with asyncio.timeout(self._time_limit_s):
                answer = Answer(project_of(await self._fetch()))
        except TimeoutError:
            answer = Answer(problem=f"no answer within {self._time_limit_s:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            answer = Answer(problem=str(error) or type(error).__name__)
        if answer.problem is not None:
            _log.warning(
                "workflow-mcp does not say which project is active (%s): for %g s calls without"
                " project_id use the default workspace",
                answer.problem,
                self._cache_s,
            )
        self._answer, self._expires = answer, self._clock() + self._cache_s
        return answer

    async def _fetch(self) -> bytes:
        """The body of the reply.

        Raises:
            ValueError: another status than 200, or too long a body.
            httpx2.HTTPError, httpx2.InvalidURL, OSError: it cannot be reached.
        """
        # What the environment says about proxies and passwords is not meant for this address. A
        # compressed body is not asked for: a short one could unfold into a very long one.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx2.AsyncClient(
                timeout=None, follow_redirects=False, trust_env=False, headers=headers
            ) as client,
            client.stream("GET", self._url) as response,
        ):
            if response.status_code != httpx2.codes.OK:
                raise ValueError(f"status {response.status_code}")
            body = b""
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MAX_BYTES:
                    raise ValueError(f"the body is longer than {MAX_BYTES // 1024} KiB")
            return body


def project_of(body: bytes) -> str | None:
    """The active project that a reply names; None where it says that there is none.

    Raises:
        ValueError: the reply is something else.
    """
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(content, dict) or "project_id" not in content:
        raise ValueError("the body is no object with project_id")
    project_id = content["project_id"]
    if project_id is None:
        return None
    if not isinstance(project_id, str):
        raise ValueError("its project_id is not a text")
    try:
        return validate_project_id(project_id)
    except InvalidInput:
        raise ValueError("its project_id is no valid id of a project") from None
