"""When is a clone of a URL fetched and indexed again? When its index is older than a setting.

Every server and every worker looks for such clones once a minute, among those in its own data
folder. The queue takes one job for each, however many processes look.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from codebase_mcp.access.repositories import indexed_repositories
from codebase_mcp.app.app import App
from codebase_mcp.app.clones import is_clone
from codebase_mcp.errors import CodebaseError

_log = logging.getLogger(__name__)

_POLL_S = 60.0


async def refresh_forever(app: App) -> None:
    """Queue updates of old clones, wait a minute, and repeat, until cancelled."""
    while True:
        try:
            await queue_refreshes(app)
        except CodebaseError as error:
            _log.info("Clones cannot be listed: %s", error.message)
        await asyncio.sleep(_POLL_S)


async def queue_refreshes(app: App) -> None:
    """Queue an update of each clone that was indexed longer ago than the setting allows.

    Raises:
        DatabaseUnavailable: the database is unavailable.
    """
    minutes = app.settings.refresh_minutes
    before = datetime.now(UTC) - timedelta(minutes=minutes)
    due = [
        (repository.project, repository.root)
        for repository in await indexed_repositories(app.database)
        if repository.indexed_at < before and is_clone(app.settings, repository.root)
    ]
    if due and (queued := await app.jobs.enqueue_fetches(due, minutes)):
        _log.info("%d of %d old clones are queued to be updated", queued, len(due))
