"""The names of coding agents, whose models read the replies as text.

Names were looked up in July to November 2026. The list of mcp-client-capabilities is keyed by the
literal ``clientInfo.name`` of each client; further names stand in the client's own source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Replies = Literal["json", "text"]

_LIST = "apify/mcp-client-capabilities, src/mcp_client_capabilities/mcp-clients.json"

# Name in lower case: where it was seen.
CODING_AGENTS: Mapping[str, str] = {
    "amp-mcp-client": _LIST,
    "antigravity-client": _LIST,
    "claude-code": f"{_LIST}; makenotion/lsp-mcp#61",
    "cline": _LIST,
    "codex": _LIST,
    "codex-mcp-client": _LIST,
    "continue-cli-client": _LIST,
    "crush": _LIST,
    "cursor-vscode": _LIST,
    "factory-cli": _LIST,
    "gemini-cli-mcp-client": "google-gemini/gemini-cli, packages/core/src/tools/mcp-client.ts,"
    " there followed by the server's name",
    "github-copilot-developer": f"{_LIST}; github/copilot-cli#1268",
    "goose": _LIST,
    "jetbrains-iu-copilot-intellij": _LIST,
    "jetbrains-jbc-copilot-intellij": _LIST,
    "kilo-code": _LIST,
    "kimi-code": "MoonshotAI/kimi-code, packages/agent-core/src/mcp/client-shared.ts",
    "opencode": "anomalyco/opencode, packages/opencode/src/mcp/index.ts; anomalyco/opencode#2289",
    "q-dev-cli": f"{_LIST}; kirodotdev/Kiro#6935 writes it with spaces",
    "roo-code": _LIST,
    "visual-studio-code": _LIST,
    "windsurf": _LIST,
    "windsurf-client": _LIST,
    "xcode-copilot-xcode": _LIST,
    "zed": _LIST,
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
