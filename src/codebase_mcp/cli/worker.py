"""Run background jobs in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import logging
from contextlib import nullcontext

from codebase_mcp.app.app import App
from codebase_mcp.background.lifespan import backfilling
from codebase_mcp.background.worker import Worker
from codebase_mcp.cli.numbers import number_of
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.shutdown import Shutdown


async def worker(options: argparse.Namespace, settings: Settings) -> int:
    """Run jobs until stopped, or until none is left. A running job returns to the queue.

    Raises:
        InvalidInput: ``--concurrency`` is invalid.
    """
    # The log of its jobs is a worker's only output.
    logging.getLogger("codebase_mcp.background").setLevel(logging.INFO)
    shutdown = Shutdown()
    with shutdown.handle_signals():
        async with (
            await App.open(settings) as app,
            nullcontext() if options.once else backfilling(app),
        ):
            worker = Worker(app, _concurrency(options.concurrency, settings))
            working = asyncio.create_task(worker.run(once=options.once))
            stopping = asyncio.create_task(shutdown.wait())
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not working.done():
                worker.stop_waiting()
                working.cancel()
                await asyncio.wait([working])
            if not working.cancelled():
                working.result()
    return 0


def _concurrency(text: str | None, settings: Settings) -> int:
    if text is None:
        return max(1, settings.jobs)
    return number_of("concurrency", text, 1, 64)
