"""Which folders does the client of a server on stdio have open?

Clients that know say so (MCP ``roots``): they are asked once, and again when they report a change.
A client of an earlier revision is asked while its call waits; one of 2026-07-28 gets a question
back, and calls again with the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from fastmcp import Context
from fastmcp.tools.base import InputRequiredToolResult
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import InputRequests, InputRequiredResult, ListRootsRequest, ListRootsResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_log = logging.getLogger(__name__)

_KEY = "roots"

# A client that does not answer is treated as one without roots.
_TIMEOUT_S = 2.0

# Clients of 2026-07-28 cannot report a change.
_FRESH_S = 30.0


class ClientRoots:
    """The folders of the one client that a process on stdio serves."""

    def __init__(self) -> None:
        self._roots: tuple[Path, ...] | None = None
        self._asked_at = 0.0

    async def forget(self, *_: Any) -> None:
        """The client has reported a change."""
        self._roots = None

    async def of(self, context: Context) -> tuple[Path, ...] | InputRequiredToolResult:
        """The folders, or the question to the client; none if it does not say."""
        call = context.request_context
        if call is None:
            return ()
        capabilities = context.session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return ()
        is_modern = call.protocol_version in MODERN_PROTOCOL_VERSIONS
        if is_modern and time.monotonic() - self._asked_at > _FRESH_S:
            self._roots = None
        if self._roots is not None:
            return self._roots
        if not is_modern:
            return self._keep(await _asked(context))
        answer = (context.input_responses or {}).get(_KEY)
        if answer is None:
            requests: InputRequests = {_KEY: ListRootsRequest()}
            return InputRequiredToolResult(InputRequiredResult(input_requests=requests))
        return self._keep(answer if isinstance(answer, ListRootsResult) else None)

    def _keep(self, answer: ListRootsResult | None) -> tuple[Path, ...]:
        uris = [str(root.uri) for root in answer.roots] if answer else []
        self._roots = tuple(dict.fromkeys(path for uri in uris if (path := _directory(uri))))
        self._asked_at = time.monotonic()
        return self._roots


async def _asked(context: Context) -> ListRootsResult | None:
    """What the client answers; None if it does not."""
    try:
        with warnings.catch_warnings():
            # Deprecated by 2026-07-28, but the only way for clients of earlier revisions.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            async with asyncio.timeout(_TIMEOUT_S):
                return await context.session.list_roots()
    except (TimeoutError, MCPError) as error:
        _log.info("The client does not say which folders it has open: %s", error)
        return None


def _directory(uri: str) -> Path | None:
    """The directory that a URI names, if it is one of this machine."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    path = Path(unquote(parts.path))
    try:
        return path.resolve(strict=True) if path.is_dir() else None
    except OSError:
        return None
