"""Update the index when files change, in the foreground; prints a line per update."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from codebase_mcp.app.app import App
from codebase_mcp.app.freshness.watcher import IndexUpdate, Watcher
from codebase_mcp.cli.output import picked, print_json
from codebase_mcp.cli.shell import identity_here, progress_bar
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.database.naming import DEFAULT_ID, Project
from codebase_mcp.errors import InvalidInput, ProjectNotFound
from codebase_mcp.printable import printable_line
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.git_directory import is_bare_repository
from codebase_mcp.web.shutdown import Shutdown


async def watch(options: argparse.Namespace, settings: Settings) -> int:
    """Watch the named directories, or all of a project, until stopped."""
    shutdown = Shutdown()
    printer = _Printer(as_json=options.json)
    with shutdown.handle_signals():
        async with await App.open(settings) as app:
            project, roots = await _find(app, options, settings)

            async def projects() -> Sequence[Project]:
                return [project]

            watcher = Watcher(
                app.database,
                app.trees,
                projects,
                roots=roots,
                watch_events=not options.poll,
                on_update=printer.on_update,
                on_taken_elsewhere=printer.on_taken_elsewhere,
            )
            printer.begin(roots)
            await shutdown.run(watcher.run())
    return 0


async def _find(
    app: App, options: argparse.Namespace, settings: Settings
) -> tuple[Project, Collection[Path] | None]:
    """The project and the named directories; new directories are indexed first."""
    project_id, identity = options.project, identity_here(settings)
    roots = [Path(path).expanduser().resolve() for path in options.paths]
    if not roots:
        try:
            return (await app.resolver.resolve(project_id, identity))[0], None
        except ProjectNotFound as error:
            error.hint = "Index a repository first: codebase-mcp index PATH"
            raise
    project: Project | None = None
    for root in roots:
        if is_bare_repository(root):
            raise _nothing_to_watch(root)
        if project is not None:
            project_id = project.project_id or DEFAULT_ID
        project, _ = await app.resolver.resolve(project_id, identity, repository=root, create=True)
        if all(tree.root != root for tree in await app.trees.load(project)):
            with progress_bar(hidden=options.json) as report:
                await app.index(root, project.project_id or DEFAULT_ID, progress=report)
    assert project is not None
    return project, frozenset(roots)


def _nothing_to_watch(root: Path) -> InvalidInput:
    return InvalidInput.of(
        "path",
        str(root),
        f"A bare repository has no files to watch: {root}",
        rule="a directory with files",
        hint="It needs no watcher: each search follows its HEAD.",
    )


class _Printer:
    """Prints each update on standard error, or as JSON on standard output."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Terminal(stderr=True)

    def begin(self, roots: Collection[Path] | None) -> None:
        if not self._as_json:
            shown = "all repositories" if roots is None else ", ".join(map(str, sorted(roots)))
            self._print(f"Watching {shown}. Ctrl-C ends it.", "dim")

    def on_taken_elsewhere(self, root: Path) -> None:
        """Another process follows it."""
        if not self._as_json:
            self._print(f"{root} is watched by another process until that ends", "dim")

    def on_update(self, followed: IndexUpdate) -> None:
        if self._as_json:
            print_json(_content(followed), indent=None)
            return
        when = f"{datetime.now().astimezone():%H:%M:%S}  {followed.root.name or followed.root}  "
        run = followed.run
        if run is None:
            message = followed.error.message if followed.error else "unknown reason"
            self._print(f"{when}not updated: {message}", "yellow")
            return
        self._print(
            f"{when}{run.files_indexed} changed, {run.files_removed} removed,"
            f" {run.chunks_created} new chunks, {followed.seconds * 1000:.0f} ms",
            None,
        )
        for error in run.errors:
            self._print(f"          {printable_line(error)}", "yellow")

    def _print(self, text: str, style: str | None) -> None:
        self._console.print(text, style=style, soft_wrap=True)


def _content(followed: IndexUpdate) -> dict[str, Any]:
    content: dict[str, Any] = {
        "at": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "root": followed.root,
        "milliseconds": round(followed.seconds * 1000),
    }
    if followed.error is not None:
        return content | {"status": "failed", "error": followed.error.as_dict()}
    run = followed.run
    assert run is not None
    return content | picked(run, "status files_indexed files_removed chunks_created errors")
