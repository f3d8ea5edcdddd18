"""The caller of a tool: its identity over HTTP, the name of its client, the folders it has open."""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from fastmcp import Context
from fastmcp.tools.base import InputRequiredToolResult
from mcp.server.auth.provider import principal_components
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import InputRequests, InputRequiredResult, ListRootsRequest, ListRootsResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codebase_mcp.access.identity import Access, Identity
from codebase_mcp.tools.reply import Replies

if TYPE_CHECKING:
    from mcp.server.auth.provider import AccessToken

_log = logging.getLogger(__name__)

_IDENTITY = "codebase_mcp.identity"
_NOTHING = Identity(access=Access(frozenset(), (), reads_as_server=False))


def identity_in(request: Any) -> Identity:
    """The caller of an HTTP request, as the door has stored it."""
    return identity_of(getattr(request, "scope", {}))


def identity_of(scope: Mapping[str, Any]) -> Identity:
    """The caller in a request's scope; without it the request may do nothing."""
    identity: Identity = scope.get(_IDENTITY, _NOTHING)
    return identity


def enter_identity(scope: MutableMapping[str, Any], identity: Identity) -> None:
    scope[_IDENTITY] = identity


def owner_of(token: AccessToken) -> str:
    """The name of a key's owner: its client and, where it has users, the user."""
    client, issuer, subject = principal_components(token)
    user = f" {quote(subject or '')} {quote(issuer or '')}".rstrip()
    return f"key {quote(client)}{user}"


# The names of coding agents, whose models read the replies as text. Looked up in July to November
# 2026. The list of mcp-client-capabilities is keyed by the literal ``clientInfo.name`` of each
# client; further names stand in the client's own source.
_LIST = "apify/mcp-client-capabilities, src/mcp_client_capabilities/mcp-clients.json"

# Name in lower case: where it was seen.
CODING_AGENTS: Mapping[str, str] = {
    **dict.fromkeys(
        "amp-mcp-client antigravity-client cline codex codex-mcp-client continue-cli-client crush"
        " cursor-vscode factory-cli goose jetbrains-iu-copilot-intellij"
        " jetbrains-jbc-copilot-intellij kilo-code roo-code visual-studio-code windsurf"
        " windsurf-client xcode-copilot-xcode zed".split(),
        _LIST,
    ),
    "claude-code": f"{_LIST}; makenotion/lsp-mcp#61",
    "gemini-cli-mcp-client": "google-gemini/gemini-cli, packages/core/src/tools/mcp-client.ts,"
    " there followed by the server's name",
    "github-copilot-developer": f"{_LIST}; github/copilot-cli#1268",
    "kimi-code": "MoonshotAI/kimi-code, packages/agent-core/src/mcp/client-shared.ts",
    "opencode": "anomalyco/opencode, packages/opencode/src/mcp/index.ts; anomalyco/opencode#2289",
    "q-dev-cli": f"{_LIST}; kirodotdev/Kiro#6935 writes it with spaces",
}

# Clients that add the name of the server, which the user chose.
_PREFIXES = ("gemini-cli-mcp-client-",)


def replies_for(client_name: str | None) -> Replies:
    """The form of replies for a client of this name: text for coding agents, else JSON.

    Spaces count as hyphens, and what a relay adds in brackets does not count.
    """
    if client_name is None:
        return "json"
    name = client_name.partition(" (via ")[0].strip().lower().replace(" ", "-")
    is_agent = name in CODING_AGENTS or name.startswith(_PREFIXES)
    return "text" if is_agent else "json"


_ROOTS = "roots"

# After this time a client counts as a client without roots.
_TIMEOUT_S = 2.0

# Clients of 2026-07-28 cannot report a change.
_FRESH_S = 30.0


class ClientRoots:
    """The folders that the client of a process on stdio has open (MCP ``roots``).

    The client is asked once, and again when it reports a change. A client of an earlier revision is
    asked while its call waits; a client of 2026-07-28 gets a question back, and calls again with
    the answer.
    """

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
        answer = (context.input_responses or {}).get(_ROOTS)
        if answer is None:
            requests: InputRequests = {_ROOTS: ListRootsRequest()}
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
