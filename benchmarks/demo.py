"""The main job, shown: index a repository and ask three questions over the real MCP protocol.

``make demo`` runs it: the server is a process of its own, spoken to on its standard input.
"""

from __future__ import annotations

import asyncio
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp_types import TextContent

from codebase_mcp.cli.output import say
from codebase_mcp.settings.loading import environment_for_child

OWN_QUESTIONS = (
    "how is a long function cut into chunks",
    "where does the embedded database stop when it is not used",
    "rank_files",
)
GENERAL_QUESTIONS = (
    "where does the program start",
    "how is the configuration loaded",
    "error handling and retries",
)


async def demo(repository: Path) -> None:
    """Index ``repository`` and print the answers to three questions, as agents get them."""
    started = time.monotonic()
    questions = GENERAL_QUESTIONS
    if (repository / "src" / "codebase_mcp").is_dir():
        questions = OWN_QUESTIONS
    project = f"demo-{sha256(str(repository).encode()).hexdigest()[:8]}"
    environment = environment_for_child() | {"CODEBASE_MCP_REPLIES": "text"}
    server = StdioTransport(sys.executable, ["-m", "codebase_mcp.cli.main"], env=environment)
    async with Client(server) as client:
        say(f"index_repository {repository}")
        arguments = {"repo_path": str(repository), "project_id": project}
        say(await _call(client, "index_repository", arguments))
        for question in questions:
            say(f"\nsearch_code {question}")
            say(await _call(client, "search_code", {"query": question, "project_id": project}))
    say(f"\n{time.monotonic() - started:.1f} s in all")


async def _call(client: Client[Any], tool: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(tool, arguments)
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


if __name__ == "__main__":
    asyncio.run(demo(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
