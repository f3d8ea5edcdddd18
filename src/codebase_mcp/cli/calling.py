"""Call tools from the shell, as a client would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebase_mcp.app import App
from codebase_mcp.background.detached import let_work_begin
from codebase_mcp.projects.identity import Identity
from codebase_mcp.settings import Settings
from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.tools.server import AppHolder, call_tool, no_progress


@dataclass(frozen=True, slots=True)
class Shell:
    """The product, opened when it is first needed, for whoever works in one directory."""

    holder: AppHolder
    identity: Identity

    async def app(self) -> App:
        """The product."""
        return await self.holder.get()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The reply of a tool as JSON values.

        Raises:
            CodebaseError: what the contract names.
        """
        spec = next(spec for spec in all_tools() if spec.name == tool)
        return await call_tool(spec, dict(arguments), self.holder.get, self.identity, no_progress)


@asynccontextmanager
async def open_shell(settings: Settings) -> AsyncIterator[Shell]:
    """A shell for one command; what it opened is closed at the end."""

    async def open_app() -> App:
        app = await App.open(settings)
        let_work_begin(app)
        return app

    holder = AppHolder(open_app)
    try:
        yield Shell(holder, identity_here(settings))
    finally:
        await holder.close()


def identity_here(settings: Settings) -> Identity:
    """Whoever runs one command; nothing kept for it would outlive it, so it owns nothing."""
    return Identity(directory=settings.project_dir or Path.cwd())
