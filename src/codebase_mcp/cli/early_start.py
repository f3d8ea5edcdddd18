"""May the database start while what indexes is still being loaded? Either takes half a second."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path

from codebase_mcp.app.background.lifespan import prepare_to_index
from codebase_mcp.cli.output import warn
from codebase_mcp.database.connection import Database
from codebase_mcp.processes import task_group
from codebase_mcp.settings.choices import database_target
from codebase_mcp.settings.loading import Settings

EXIT_USAGE = 2  # as argparse has it

_NEEDED = ("codebase_mcp.cli.indexing", "codebase_mcp.index.build")


async def index(options: argparse.Namespace, settings: Settings) -> int:
    """The command ``index``; the database starts early where it is sure to be needed."""
    if not (options.paths or options.list_file or options.organisation):
        warn("codebase-mcp index: error: a PATH is required, or --from, or --organisation")
        return EXIT_USAGE
    if len(options.paths) != 1 or options.list_file or options.organisation:
        from codebase_mcp.cli.index_many import index_many  # noqa: PLC0415 - for this alone

        return await index_many(options, settings)
    [options.path] = options.paths
    database = await Database.open(database_target(settings))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        async with task_group() as group:
            group.create_task(asyncio.to_thread(_load))
            if not options.dry_run and Path(options.path).is_dir():
                group.create_task(asyncio.to_thread(prepare_to_index, settings))
                group.create_task(_reach(database))
        from codebase_mcp.cli import indexing  # noqa: PLC0415 - loaded above

        return await indexing.index(options, settings, database)


def _load() -> None:
    for module in _NEEDED:
        import_module(module)


async def _reach(database: Database) -> None:
    """Connect, and bring the catalogue up to date."""
    async with database.catalogue(readonly=True):
        pass
