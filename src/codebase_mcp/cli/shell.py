"""The user of a command: which project they mean, how tools are called, how progress is shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from codebase_mcp.access.identity import Identity
from codebase_mcp.access.repositories import projects_at
from codebase_mcp.app.app import App
from codebase_mcp.app.background.worker import allow_worker_start
from codebase_mcp.app.scopes import ReportProgress
from codebase_mcp.cli.output import ask, warn
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.settings.loading import DEFAULT, Settings
from codebase_mcp.source.git_directory import work_tree_of

# A command may spend more time on checking files than a search of a server.
CHECK_MS = 2_000


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

    async def scope(
        self, options: argparse.Namespace
    ) -> tuple[App, str | None, Literal["all"] | None]:
        """The product, the project to search, and ``all`` for all its repositories.

        None leaves the choice to the usual order: context file, active project, default workspace;
        or means the current repository. On request, that is indexed first.
        """
        app = await self.app()
        project = await _project_here(app, options, self.identity)
        return app, project, "all" if options.all else None

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The reply of a tool as JSON values; what a flag says is text, whatever it stands for."""
        # A command that shows a report itself needs neither a tool nor what checks its arguments.
        from codebase_mcp.tools.arguments import aliases_in, parsed  # noqa: PLC0415
        from codebase_mcp.tools.calling import reply_of  # noqa: PLC0415
        from codebase_mcp.tools.catalog import tool_named  # noqa: PLC0415

        spec = tool_named(tool)
        properties = spec.input_schema()["properties"]
        own_names = aliases_in(properties)
        values = {
            name: parsed(properties.get(own_names.get(name, name), {}), value)
            for name, value in arguments.items()
        }
        return (await reply_of(spec, values, self.app, self.identity)).as_json()

    async def close(self) -> None:
        if self._app is not None:
            await self._app.close()


@asynccontextmanager
async def open_shell(settings: Settings) -> AsyncIterator[Shell]:
    """A shell for a command, with the time limit of a command for checking files unless one was
    set; it is closed at the end."""
    if settings.sources.get("check_ms", DEFAULT) == DEFAULT:
        settings = replace(settings, check_ms=CHECK_MS)
    shell = Shell(settings)
    try:
        yield shell
    finally:
        await shell.close()


def identity_here(settings: Settings) -> Identity:
    """The user of a command. A command ends with its process, so this identity owns nothing."""
    return Identity(directory=settings.project_dir or Path.cwd())


async def _project_here(app: App, options: argparse.Namespace, identity: Identity) -> str | None:
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
        root = work_tree_of(directory) or directory
        with progress_bar(hidden=options.json) as report:
            await app.index(root, named, progress=report, identity=identity)
    if not is_default or not holding:
        return named
    names = [candidate.project.project_id or DEFAULT_ID for candidate in holding]
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


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Callable[[RunProgress], None]]:
    """A progress bar on standard error, and the function that updates it."""
    if hidden:
        yield lambda _: None
        return
    from codebase_mcp.cli.terminal import shown_bar  # noqa: PLC0415 - not for programs

    with shown_bar() as report:
        yield report


@contextmanager
def later_progress_bar(*, hidden: bool) -> Iterator[ReportProgress]:
    """A progress bar that appears when a question starts an index run."""
    with ExitStack() as stack:
        bar: list[Callable[[RunProgress], None]] = []

        async def report(progress: RunProgress) -> None:
            if not bar:
                bar.append(stack.enter_context(progress_bar(hidden=hidden)))
            bar[0](progress)

        yield report
