"""The folders that the client of a server on stdio has open (MCP ``roots``).

The client is asked once, and again when it reports a change.
A client of an earlier revision is asked while its call waits; a client of 2026-07-28 gets a
question back, and calls again with the answer.
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

# After this time a client counts as a client without roots.
_TIMEOUT_S = 2.0

# Clients of 2026-07-28 cannot report a change.
_FRESH_S = 30.0


class ClientRoots:
    """The folders of the client of a process on stdio."""

    def __init__(self) -> None:
        self._roots: tuple[Path, ...] | None = None
        self._asked_at = 0.0

    async def forget(self, *_: Any) -> None:
        """The client has reported a change."""
        self._roots = None

    async def of(self, context: Context) -> tuple[Path, ...] | InputRequiredToolResult:
        """The folders, or the question to the client; empty if the client has no roots."""
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
            return self._keep(await _answer_of(context))
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


async def _answer_of(context: Context) -> ListRootsResult | None:
    """The answer of the client; None without an answer."""
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
    """The directory that a URI names, if it is on this machine."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    path = Path(unquote(parts.path))
    try:
        return path.resolve(strict=True) if path.is_dir() else None
    except OSError:
        return None
