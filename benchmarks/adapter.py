"""Our index and search as an adapter of the retrieval evaluation (``ndcg.py --adapter``).

The whole real path: embedded PostgreSQL, indexing, search. Data lies in ``CODEBASE_MCP_DATA_DIR``;
each root is a project of its own, so one root's files never answer for another.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from codebase_mcp import App
from codebase_mcp.search.search import Request

NAME = "codebase-mcp"


def project_of(root: Path) -> str:
    """The project of a root, the same each time."""
    return "eval-" + hashlib.sha1(str(root).encode()).hexdigest()[:12]


class Opened:
    """One indexed root."""

    def __init__(self, root: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._project = project_of(root)
        self._app = self._loop.run_until_complete(App.open())
        report = self._loop.run_until_complete(self._app.index(root, self._project))
        if report.run.status == "failed":
            raise RuntimeError("; ".join(report.run.errors))
        self.size = report.run.chunks_created

    def search(self, query: str, k: int) -> list[tuple[str, int, int]]:
        """The best places: path relative to the root, first and last line."""
        request = Request(limit=k, context_lines=0)
        report = self._loop.run_until_complete(self._app.search(query, self._project, request))
        return [(hit.file_path, hit.start_line, hit.end_line) for hit in report.answer.hits]

    def close(self) -> None:
        """Give the database and the worker processes back."""
        self._loop.run_until_complete(self._app.close())
        self._loop.close()


def open_index(root: Path) -> Opened:
    """Index a tree."""
    return Opened(root)
