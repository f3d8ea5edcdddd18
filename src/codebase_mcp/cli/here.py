"""Which project is searched from this directory? And what if nothing here is indexed yet?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from codebase_mcp.app.app import App
from codebase_mcp.cli.output import ask, warn
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.projects.identity import Identity
from codebase_mcp.source.git_directory import work_tree_of


async def project_here(app: App, options: argparse.Namespace, identity: Identity) -> str | None:
    """The project to search; a repository here that it lacks is indexed first, if that is wanted.

    None leaves it to the usual order: context file, active project, default workspace.
    """
    named: str | None = options.project
    meant = await app.resolver.choose(named, identity)
    if meant.source != "default" and not options.index and not _is_interactive(options):
        return named
    directory = (identity.directory or Path.cwd()).resolve()
    holding = await app.projects_at(directory)
    if meant.source != "default":
        holding = [one for one in holding if one.project.project_id == meant.project_id]
    if not holding and (options.index or _is_wanted(directory, options)):
        await _index(app, directory, options, identity)
    if meant.source != "default" or not holding:
        return named
    names = [one.project.project_id or DEFAULT_ID for one in holding]
    if len(names) > 1:
        others = ", ".join(names[1:])
        warn(f"Searching {names[0]}, which was indexed last; also in {others}: see --project.")
    return names[0]


def _is_interactive(options: argparse.Namespace) -> bool:
    """Whether a person can be asked."""
    return not options.json and sys.stdin.isatty() and sys.stderr.isatty()


def _is_wanted(directory: Path, options: argparse.Namespace) -> bool:
    """Ask a person whether to index the repository that they stand in."""
    top = work_tree_of(directory)
    if top is None or not _is_interactive(options):
        return False
    ask(f"{top} is not indexed yet. Index it now? [Y/n]")
    try:
        return input().strip().lower() in ("", "y", "yes")
    except EOFError:
        return False


async def _index(
    app: App, directory: Path, options: argparse.Namespace, identity: Identity
) -> None:
    from codebase_mcp.cli.indexing import progress_bar  # noqa: PLC0415 - seldom needed

    root = work_tree_of(directory) or directory
    with progress_bar(hidden=options.json) as report:
        await app.index(root, options.project, progress=report, identity=identity)
