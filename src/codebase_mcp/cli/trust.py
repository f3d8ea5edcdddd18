"""Let a ``.mcp-context.toml`` name a project that was there before it."""

from __future__ import annotations

import argparse
from pathlib import Path

from codebase_mcp.app.app import App
from codebase_mcp.cli.output import print_json, say
from codebase_mcp.projects.context_file import path_text
from codebase_mcp.settings.loading import Settings


async def trust(options: argparse.Namespace, settings: Settings) -> int:
    """Confirm the nearest file upward from a directory."""
    directory = Path(options.directory).expanduser().absolute()
    async with await App.open(settings) as app:
        context, project = await app.resolver.confirm(directory)
    file, named = path_text(context.path), context.project_id
    if options.json:
        print_json({"file": file, "project_id": named, "trusted": project is not None}, indent=None)
    elif project is None:
        say(f"{file} names {named}, which does not exist yet; codebase-mcp index makes it")
    else:
        say(f"{file} may name {named or 'the default workspace'} from now on")
    return 0
