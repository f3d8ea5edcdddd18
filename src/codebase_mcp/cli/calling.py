"""Call tools from the shell, as a client would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from codebase_mcp.access.identity import Identity
from codebase_mcp.app.app import App
from codebase_mcp.app.background.worker import allow_worker_start
from codebase_mcp.settings.loading import Settings


class Shell:
    """The product for the user of a directory; it is opened when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self.identity = identity_here(settings)
        self._settings = settings
        self._app: App | None = None

    async def app(self) -> App:
        if self._app is None:
            self._app = await App.open(self._settings, only_once=True)
            allow_worker_start(self._app)
        return self._app

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The reply of a tool as JSON values; what a flag says is text, whatever it stands for.

        Raises:
            CodebaseError: what the contract names.
        """
        # A command that shows a report itself needs neither a tool nor what checks its arguments.
        from codebase_mcp.tools.arguments import aliases_in, parsed  # noqa: PLC0415
        from codebase_mcp.tools.calling import call_tool, no_progress  # noqa: PLC0415
        from codebase_mcp.tools.catalog import tool_named  # noqa: PLC0415

        spec = tool_named(tool)
        properties = spec.input_schema()["properties"]
        own_names = aliases_in(properties)
        values = {
            name: parsed(properties.get(own_names.get(name, name), {}), value)
            for name, value in arguments.items()
        }
        return await call_tool(spec, values, self.app, self.identity, no_progress)

    async def close(self) -> None:
        if self._app is not None:
            await self._app.close()


@asynccontextmanager
async def open_shell(settings: Settings) -> AsyncIterator[Shell]:
    """A shell for a command; it is closed at the end."""
    shell = Shell(settings)
    try:
        yield shell
    finally:
        await shell.close()


def identity_here(settings: Settings) -> Identity:
    """The user of a command. A command ends with its process, so this identity owns nothing."""
    return Identity(directory=settings.project_dir or Path.cwd())
