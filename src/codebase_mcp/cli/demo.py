"""The main job, shown: index a repository and ask three questions over the real MCP protocol.

``make demo`` runs it: the server is a process of its own, spoken to on its standard input.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from rich.text import Text

from codebase_mcp.cli.searching import show
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.settings import environment_for_child

PROJECT = "demo"
OWN_QUESTIONS = (
    "how is a long function cut into chunks",
    "where does the embedded database stop when nobody uses it",
    "rank_files",
)
GENERAL_QUESTIONS = (
    "where does the program start",
    "how is the configuration loaded",
    "error handling and retries",
)


async def demo(repository: Path) -> None:
    """Index ``repository`` and print the answers to three questions about it."""
    console = Terminal()
    started = time.monotonic()
    questions = GENERAL_QUESTIONS
    if (repository / "src" / "codebase_mcp").is_dir():
        questions = OWN_QUESTIONS
    server = StdioTransport(
        sys.executable, ["-m", "codebase_mcp.cli.main"], env=environment_for_child()
    )
    async with Client(server) as client:
        console.print(Text.assemble(("index_repository", "bold"), f" {repository}"))
        arguments = {"repo_path": str(repository), "project_id": PROJECT}
        indexed = await _call(client, "index_repository", arguments)
        console.print(
            f"{indexed['status']}: {indexed['files_indexed']} files indexed, "
            f"{indexed['files_unchanged']} unchanged, {indexed['chunks_created']} new chunks, "
            f"{indexed['duration_seconds']:.1f} s\n"
        )
        for question in questions:
            console.print(Text.assemble(("search_code", "bold"), f" {question}"))
            asked = {
                "query": question,
                "project_id": PROJECT,
                "repository_id": indexed["repository_id"],
                "limit": 3,
                "context_lines": 0,
            }
            show(await _call(client, "search_code", asked), console)
            console.print()
    console.print(f"{time.monotonic() - started:.1f} s in all", style="dim")


async def _call(client: Client[Any], tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    content: dict[str, Any] = result.structured_content or {}
    return content


if __name__ == "__main__":
    asyncio.run(demo(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
