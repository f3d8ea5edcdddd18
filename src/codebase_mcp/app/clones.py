"""How does a clone of a URL get what is new there? Fetches it, with the token that may read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import clones_in
from codebase_mcp.source.clone import GITHUB, GITLAB, Clone, CloneOptions, fetch, origin_of
from codebase_mcp.source.remote import Remote
from codebase_mcp.source.transfer import Transfer

# Any name will do, but there has to be one.
_USERS = {GITHUB: "x-access-token", GITLAB: "oauth2"}


async def fetch_clone(
    settings: Settings,
    remote: Remote,
    options: CloneOptions | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Clone:
    """Clone a repository, or update its clone; when cancelled, it waits for the end of git.

    Raises:
        InvalidInput, Conflict, IndexingFailed: as ``source.clone.fetch``.
    """
    options = options or CloneOptions()
    transfer = Transfer(_with_token(remote, options.token, settings), on_progress)
    work = asyncio.ensure_future(
        asyncio.to_thread(fetch, transfer.remote, clones_in(settings), options, transfer)
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        transfer.stop()
        await asyncio.wait([work])  # until the partial clone is removed
        work.exception()
        raise


async def update_clone(settings: Settings, root: Path) -> None:
    """Fetch what is new of the clone at ``root``; nothing if that is no clone of ours.

    Raises:
        InvalidInput, Conflict, IndexingFailed: as ``source.clone.fetch``.
    """
    if is_clone(settings, root) and (origin := origin_of(root)) is not None:
        remote, token = origin
        await fetch_clone(settings, remote, CloneOptions(token=token))


def is_clone(settings: Settings, root: Path) -> bool:
    """Whether a directory is in the folder of our clones, and exists."""
    return root.is_relative_to(clones_in(settings)) and root.is_dir()


def _with_token(remote: Remote, token: str | None, settings: Settings) -> Remote:
    tokens = {GITHUB: settings.github_token, GITLAB: settings.gitlab_token}
    password = tokens.get(token or "")
    if password is None:  # then git's own credentials are used
        return remote
    return replace(remote, username=_USERS[token or ""], password=password)
