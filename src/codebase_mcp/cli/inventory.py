"""Print the repositories and projects that are indexed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from codebase_mcp.access.health import model_notices
from codebase_mcp.app.app import App, ProjectFacts
from codebase_mcp.app.background.indexing import IndexingState, indexing_state
from codebase_mcp.app.background.worker import allow_worker_start
from codebase_mcp.app.freshness.trees import TreeState
from codebase_mcp.cli.model import in_words, secondary_state
from codebase_mcp.cli.output import SHOWN, encoding_counts, print_json
from codebase_mcp.cli.shell import CHECK_MS, identity_here
from codebase_mcp.cli.terminal import console
from codebase_mcp.cli.tool_commands import in_commands
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.index.inventory import RepositoryFacts
from codebase_mcp.index.queue import NO_WORKER
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.text import counted
from codebase_mcp.values import matches

# What a person should know about an index that is not ready.
_NOTES = {
    "indexing": "An index run is in progress: {} files to go.",
    "incomplete": "The index is incomplete: {} files to go. Run: codebase-mcp index PATH",
    "stale": "{} files have changed and are not indexed yet. Run: codebase-mcp index PATH",
    "unchecked": "It is unknown whether files have changed since they were indexed.",
    "outdated": "An earlier version of this program made the index. Until it is rebuilt in the "
    "background, only words and names are searched.",
}


async def status(options: argparse.Namespace, settings: Settings) -> int:
    """The repositories of a project: sizes, freshness, failures."""
    identity = identity_here(settings)
    async with await App.open(settings) as app:
        allow_worker_start(app)
        project, _ = await app.resolver.resolve(options.project, identity)
        facts = await app.projects([project])
        repositories = facts[0].repositories if facts else ()
        states = await app.freshness.check(project, budget_s=CHECK_MS / 1000)
        is_outdated = any(state.state == "outdated" for state in states.values())
        has_started_worker = is_outdated and app.jobs.start_worker is not None
        notices = model_notices(repositories, app.models)
        secondary = await secondary_state(app, project)
        indexing = await indexing_state(app, options.project, identity=identity)
    chosen, left_out = _chosen(facts, options)
    shown = chosen[0].repositories if chosen else ()
    if options.json:
        return print_json([_as_json(r) | _state_json(states.get(r.id)) for r in shown])
    if not repositories and not indexing.progress.is_indexing:
        console.print("Nothing is indexed yet. Run: codebase-mcp index PATH")
        return 0
    for repository in shown:
        _show(repository, states.get(repository.id))
    _show_count(chosen, left_out, options)
    _show_indexing(indexing, has_worker=indexing.has_worker or has_started_worker)
    if secondary is not None:
        console.print(f"secondary model: {in_words(secondary)}", style="dim")
    for notice in notices:
        console.print(in_commands(notice), style="yellow")
    return 0


async def projects(options: argparse.Namespace, settings: Settings) -> int:
    """All projects, or the named project, with their repositories."""
    async with await App.open(settings) as app:
        listed = await app.projects()
    if options.project is not None:
        listed = [facts for facts in listed if facts.project.project_id == options.project]
    listed, left_out = _chosen(listed, options)
    if options.json:
        return print_json([_project_json(facts) for facts in listed])
    whole_path = Column("repository", overflow="fold")
    table = Table("project", whole_path, "files", "chunks", "indexed", box=None)
    for facts in listed:
        label = facts.project.project_id or "(default)"
        for repository in facts.repositories:
            table.add_row(
                label,
                repository.root,
                str(repository.files),
                str(repository.chunks),
                _time(repository),
            )
            label = ""
        if not facts.repositories:
            table.add_row(label, "—", "0", "0", "never")
    console.print(table)
    _show_count(listed, left_out, options)
    return 0


def _chosen(
    listed: Sequence[ProjectFacts], options: argparse.Namespace
) -> tuple[list[ProjectFacts], int]:
    """The projects with the repositories to show, and how many more there are.

    A project without any is shown unless patterns are given, which may fit its name.
    """
    is_for_person = sys.stdout.isatty() and not options.json
    room = options.limit or (SHOWN if is_for_person else sys.maxsize)
    chosen, left_out = [], 0
    for facts in listed:
        project = facts.project.project_id or DEFAULT_ID
        fitting = [
            r
            for r in facts.repositories
            if matches((r.name, r.name.rpartition("/")[2], r.root, project), options.match or ())
        ]
        is_empty = not facts.repositories and matches((project,), options.match or ())
        if fitting[:room] or (room and is_empty):
            chosen.append(replace(facts, repositories=tuple(fitting[:room])))
        left_out += len(fitting[room:])
        room = max(room - max(len(fitting), 1), 0)
    return chosen, left_out


def _show_count(chosen: Sequence[ProjectFacts], left_out: int, options: argparse.Namespace) -> None:
    """How many repositories are shown, and how to see others."""
    shown = sum(len(facts.repositories) for facts in chosen)
    if left_out:
        console.print(
            f"{shown} of {counted(shown + left_out, 'repository')} are shown: --limit N shows more,"
            " --match PATTERN only some",
            style="yellow",
        )
    elif not shown and options.match:
        console.print("No repository fits; * stands for any characters: --match '*api*'")
    else:
        console.print(counted(shown, "repository"), style="dim")


def _show(repository: RepositoryFacts, state: TreeState | None) -> None:
    missing = "" if Path(repository.root).is_dir() else "  directory is gone"
    console.print(
        Text.assemble(
            (repository.name, "bold"), "  ", (repository.root, "dim"), (missing, "yellow")
        )
    )
    console.print(
        f"  {counted(repository.files, 'file')}, {counted(repository.chunks, 'chunk')}, "
        f"{repository.size / 1e6:.1f} MB, indexed {_time(repository)} "
        f"with {repository.profile.model}"
    )
    languages = sorted(repository.languages.items(), key=lambda item: -item[1])[:8]
    console.print("  " + ", ".join(f"{name} {count}" for name, count in languages), style="dim")
    if repository.encodings:
        console.print(f"  {encoding_counts(repository.encodings)}", style="dim")
    if repository.commits:
        console.print(f"  {counted(repository.commits, 'commit')} of history", style="dim")
    if state is not None and (note := _NOTES.get(state.state)):
        console.print(f"  {note.format(state.pending)}", style="yellow")
    if repository.files_failed:
        failed = counted(repository.files_failed, "file")
        console.print(f"  {failed} could not be indexed", style="yellow")
    if repository.files_skipped:
        listed = ", ".join(f"{n} {reason}" for reason, n in repository.files_skipped.items())
        console.print(f"  skipped: {listed}", style="dim")


def _show_indexing(indexing: IndexingState, *, has_worker: bool) -> None:
    for repository in indexing.repositories:
        progress = repository.progress
        if progress.is_indexing:
            done = "queued" if progress.queued else f"{progress.percent} % indexed"
            console.print(f"{repository.root}: {done}")
    if not has_worker:
        console.print(f"{NO_WORKER}.", style="yellow")


def _time(repository: RepositoryFacts) -> str:
    if repository.indexed_at is None:
        return "never completely"
    return repository.indexed_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _as_json(repository: RepositoryFacts) -> dict[str, Any]:
    content = asdict(repository)
    content["model"] = content.pop("profile")["model"]
    return content


def _state_json(state: TreeState | None) -> dict[str, Any]:
    if state is None:
        return {}
    return {
        "state": state.state, "files_pending": state.pending, "checked_at": state.checked_at
    }  # fmt: skip


def _project_json(facts: ProjectFacts) -> dict[str, Any]:
    return {
        "project_id": facts.project.project_id,
        "schema_name": facts.project.schema_name,
        "repositories": [_as_json(repository) for repository in facts.repositories],
    }
