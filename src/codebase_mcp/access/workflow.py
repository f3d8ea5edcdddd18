"""Asks workflow-mcp for the active project.

``GET {url}/api/v1/projects/active`` returns a JSON object whose ``project_id`` is a string, or null
if none is active. It must not delay calls: a request takes a second at most, concurrent callers
share one, and its outcome is cached for a minute, even a failure. After a failure the default
workspace is used, and a warning is logged.
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
from codebase_mcp.telemetry.metrics import looked_up

_log = logging.getLogger(__name__)

PATH = "/api/v1/projects/active"
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ActiveProjectReply:
    """The active project, or why it is unknown (``problem``)."""

    project_id: str | None = None
    problem: str | None = None


class WorkflowClient:
    """A client of workflow-mcp; ``clock`` counts seconds for the cache."""

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
        self._answer = ActiveProjectReply()
        self._expires = float("-inf")
        self._asking: asyncio.Task[ActiveProjectReply] | None = None

    async def active_project(self) -> ActiveProjectReply:
        """The answer, cached until it expires; never raises."""
        is_fresh = self._clock() < self._expires
        looked_up("workflow", hit=is_fresh)
        if is_fresh:
            return self._answer
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        # The first caller may be cancelled while further callers wait for the answer.
        return await asyncio.shield(self._asking)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> ActiveProjectReply:
        try:
            async with asyncio.timeout(self._time_limit_s):
                answer = ActiveProjectReply(project_of(await self._fetch()))
        except TimeoutError:
            answer = ActiveProjectReply(problem=f"no answer within {self._time_limit_s:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            answer = ActiveProjectReply(problem=str(error) or type(error).__name__)
        if answer.problem is not None:
            _log.warning(
                "workflow-mcp does not report the active project (%s): for %g s calls without"
                " project_id use the default workspace",
                answer.problem,
                self._cache_s,
            )
        self._answer, self._expires = answer, self._clock() + self._cache_s
        return answer

    async def _fetch(self) -> bytes:
        """The body of the reply.

        Raises:
            ValueError: the status is not 200, or the body is too long.
            httpx2.HTTPError, httpx2.InvalidURL, OSError: it cannot be reached.
        """
        # Proxies and passwords in the environment are not meant for this address. No compression,
        # as a small compressed body could expand to a very large body.
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
    """The active project in a reply; None if no project is active.

    Raises:
        ValueError: the reply is invalid.
    """
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(content, dict) or "project_id" not in content:
        raise ValueError("the body is not an object with project_id")
    project_id = content["project_id"]
    if project_id is None:
        return None
    if not isinstance(project_id, str):
        raise ValueError("its project_id is not a string")
    try:
        return validate_project_id(project_id)
    except InvalidInput:
        raise ValueError("its project_id is invalid") from None
