"""The directory that ``index`` reads: a given directory, or the updated clone of a URL."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from codebase_mcp.access.identity import Identity
from codebase_mcp.app.app import App
from codebase_mcp.cli.numbers import number_of
from codebase_mcp.errors import InvalidInput, NotFound, ProjectNotFound
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import clones_in
from codebase_mcp.source.clone import (
    Clone,
    CloneOptions,
    clone_path,
    delete_clone,
    fetch,
    is_cloned,
)
from codebase_mcp.source.remote import Remote, is_remote, parse_remote
from codebase_mcp.source.transfer import Transfer
from codebase_mcp.tools.rules import check_name


@dataclass(frozen=True, slots=True)
class Source:
    """A directory to index with its name, and the URL that it is a clone of, if any."""

    path: Path
    name: str | None
    remote: Remote | None = None
    clone: Clone | None = None

    def described(self) -> dict[str, Any]:
        """Where it comes from, for programs; empty for a directory."""
        if self.remote is None or self.clone is None:
            return {}
        return {
            "url": self.remote.url,
            "branch": self.clone.branch,
            "commit": self.clone.commit,
            "shallow": self.clone.is_shallow,
        }


def check_flags(options: argparse.Namespace) -> None:
    """Refuse options that do not fit together.

    Raises:
        InvalidInput: some flags contradict the path or further flags.
    """
    for flag in ("branch", "depth", "full"):
        if getattr(options, flag) and not is_remote(options.path):
            raise _contradiction(flag, "is for URLs: a directory is indexed as it is")
    if options.full and options.depth is not None:
        raise _contradiction("full", "and --depth contradict each other")
    if options.dry_run and options.background:
        raise _contradiction("dry-run", "and --background contradict each other")


async def find_source(
    options: argparse.Namespace,
    settings: Settings,
    history_depth: int | None,
    report: Callable[[RunProgress], None],
) -> Source:
    """The named directory, or the clone of the URL after a fetch.

    Raises:
        InvalidInput, IndexingFailed, Conflict: as `fetch`.
    """
    name = check_name(options.name)
    if not is_remote(options.path):
        return Source(Path(options.path).expanduser().absolute(), name)
    remote = parse_remote(options.path)
    clone_options = CloneOptions(options.branch, _depth(options, history_depth), options.full, name)
    transfer = Transfer(remote, lambda step: report(RunProgress(0, 0, step)))
    report(RunProgress(0, 0, f"Fetching {remote.url}"))
    work = asyncio.ensure_future(
        asyncio.to_thread(fetch, remote, clones_in(settings), clone_options, transfer)
    )
    try:
        clone = await asyncio.shield(work)
    except asyncio.CancelledError:
        transfer.stop()
        await asyncio.wait([work])  # until the partial clone is removed
        work.exception()
        raise
    return Source(clone.root, clone.name, remote, clone)


def cloned_source(options: argparse.Namespace, settings: Settings) -> Source:
    """The directory that is named, or the clone of the URL as it was last fetched.

    Raises:
        InvalidInput: the URL was never fetched.
    """
    if not is_remote(options.path):
        return Source(Path(options.path).expanduser().absolute(), None)
    remote = parse_remote(options.path)
    clones = clones_in(settings)
    if not is_cloned(remote, clones):
        raise InvalidInput.of(
            "path",
            remote.url,
            f"{remote.url} has not been fetched yet, so its files are unknown",
            rule="a directory, or a URL that was indexed before",
            hint="Index it without --dry-run, or clone it yourself and name the directory.",
        )
    return Source(clone_path(remote, clones), None, remote)


async def forget_clone(
    app: App, url: str, project: str | None, identity: Identity
) -> tuple[UUID | None, str]:
    """Remove a URL from the index, and delete its clone unless another project uses it.

    The repository's id, if it was indexed, and the URL as it may be shown.

    Raises:
        NotFound: it is neither indexed nor cloned.
    """
    remote, clones = parse_remote(url), clones_in(app.settings)
    clone = clone_path(remote, clones)
    removed = None
    try:
        removed = await app.remove(clone, project, identity)
    except (NotFound, ProjectNotFound):
        if not is_cloned(remote, clones):
            raise NotFound(
                f"Repository not found: {remote.url}",
                hint="`codebase-mcp projects` lists what is indexed.",
            ) from None
    indexed_roots = {
        facts.root for project_facts in await app.projects() for facts in project_facts.repositories
    }
    if str(clone) not in indexed_roots:
        await asyncio.to_thread(delete_clone, remote, clones)
    return removed, remote.url


def _depth(options: argparse.Namespace, history_depth: int | None) -> int | None:
    """How many commits to fetch: no fewer than are to be kept of the history."""
    if options.depth is None:
        return history_depth or None
    return number_of("depth", options.depth, 1, 1_000_000)


def _contradiction(flag: str, words: str) -> InvalidInput:
    return InvalidInput.of(flag.replace("-", "_"), True, f"--{flag} {words}", rule=words)
