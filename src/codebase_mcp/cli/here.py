"""Which project is searched from this directory? And what if nothing here is indexed yet?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codebase_mcp.access.identity import Identity
from codebase_mcp.access.repositories import projects_at
from codebase_mcp.app.app import App
from codebase_mcp.cli.output import ask, warn
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.source.git_directory import work_tree_of

if TYPE_CHECKING:
    from codebase_mcp.app.scopes import ReportProgress
    from codebase_mcp.index.progress import RunProgress


async def project_here(app: App, options: argparse.Namespace, identity: Identity) -> str | None:
    """The project to search; on request, the current repository is indexed there first.

    None leaves the choice to the usual order: context file, active project, default workspace.
    """
    named: str | None = options.project
    meant = await app.resolver.choose(named, identity)
    is_default = meant.source == "default"
    if not is_default and not options.index and not _is_interactive(options):
        return named
    directory = (identity.directory or Path.cwd()).resolve()
    holding = await projects_at(app.database, directory)
    if not is_default:
        holding = [
            candidate for candidate in holding if candidate.project.project_id == meant.project_id
        ]
    if not holding and (options.index or (not is_default and _is_wanted(directory, options))):
        await _index(app, directory, options, identity)
    if not is_default or not holding:
        return named
    names = [candidate.project.project_id or DEFAULT_ID for candidate in holding]
    if len(names) > 1:
        others = ", ".join(names[1:])
        warn(f"Searching {names[0]}, which was indexed last; also in {others}: see --project.")
    return names[0]


def repository_here(options: argparse.Namespace) -> Literal["all"] | None:
    """``all`` if the options ask for the whole project; else the current repository."""
    return "all" if options.all else None


@contextmanager
def shown_progress(*, hidden: bool) -> Iterator[ReportProgress]:
    """Shows how far an index run is that a question started: by a bar, on a terminal."""
    from codebase_mcp.cli.indexing import progress_bar  # noqa: PLC0415 - seldom needed

    with ExitStack() as stack:
        bar: list[Callable[[RunProgress], None]] = []

        async def report(progress: RunProgress) -> None:
            if not bar:
                bar.append(stack.enter_context(progress_bar(hidden=hidden)))
            bar[0](progress)

        yield report


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
