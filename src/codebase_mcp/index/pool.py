"""Who does the splitting and embedding? Worker processes for much, this process for little."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import connection, get_context, parent_process

from codebase_mcp.embedding.embedder import Embedder
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index.prepare import EmbedderSource, PreparedBlob, Preparer, RawText

_log = logging.getLogger(__name__)

# Below this many characters starting processes (1 to 2 s) costs more than it saves.
SMALL_CHARS = 2_000_000


class PreparerPool:
    """Prepares texts without blocking the event loop; processes start when first needed.

    ``embedder`` serves the threads of this process; a worker process makes its own.
    """

    def __init__(self, embedder_source: EmbedderSource, embedder: Embedder, workers: int) -> None:
        self._embedder_source = embedder_source
        self.workers = workers
        self._executor: ProcessPoolExecutor | None = None
        self._quarantine = asyncio.Lock()
        self._local = Preparer(embedder)
        self._local_lock = threading.Lock()

    async def prepare(
        self, texts: Sequence[RawText], profile_id: int, generation: int, *, small: bool
    ) -> list[PreparedBlob]:
        """Prepare one batch: in a thread where the whole run is ``small``, else in a process."""
        if not texts:
            return []
        if small:
            return await asyncio.to_thread(self._prepare_here, texts, profile_id, generation)
        if self._executor is None:
            self._executor = self._start_executor(self.workers)
        executor = self._executor
        try:
            return await _in_worker(executor, texts, profile_id, generation)
        except BrokenProcessPool:
            if self._executor is executor:  # of the batches that it broke under, the first
                self._executor = None
                await asyncio.to_thread(executor.shutdown)
        async with self._quarantine:
            return await self._one_by_one(texts, profile_id, generation)

    async def _one_by_one(
        self, texts: Sequence[RawText], profile_id: int, generation: int
    ) -> list[PreparedBlob]:
        """After a worker died: find the text that its parser cannot bear, and cut it by lines.

        Grammars are native code, and now and then one crashes on what nobody thought of. The
        worker that tries them has no other work, so that no text is blamed for another's crash.
        """
        prepared = []
        executor = self._start_executor(1)
        try:
            for raw in texts:
                for attempt in (raw, replace(raw, unparsed=True)):
                    try:
                        prepared += await _in_worker(executor, [attempt], profile_id, generation)
                        break
                    except BrokenProcessPool:
                        _log.warning("a worker process died over a %s text", raw.language)
                        executor.shutdown()
                        executor = self._start_executor(1)
                else:
                    raise IndexingFailed(
                        "Worker processes keep dying",
                        hint="Is there enough memory? CODEBASE_MCP_WORKERS=1 needs less.",
                    )
        finally:
            await asyncio.to_thread(executor.shutdown, cancel_futures=True)
        return prepared

    def close(self) -> None:
        """End the worker processes; batches not yet begun are dropped."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    def _start_executor(self, workers: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            workers,
            mp_context=get_context("spawn"),
            initializer=_start_worker,
            initargs=(self._embedder_source,),
        )

    def _prepare_here(
        self, texts: Sequence[RawText], profile_id: int, generation: int
    ) -> list[PreparedBlob]:
        with self._local_lock:
            return self._local.prepare(texts, profile_id, generation)


async def _in_worker(
    executor: ProcessPoolExecutor, texts: Sequence[RawText], profile_id: int, generation: int
) -> list[PreparedBlob]:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, _prepare_in_worker, texts, profile_id, generation)


_worker: Preparer | None = None


def _start_worker(embedder_source: EmbedderSource) -> None:
    global _worker  # noqa: PLW0603 - one preparer per worker process, as the executor offers it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = Preparer(embedder_source())


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers, and their queue never closes by itself."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _prepare_in_worker(
    texts: Sequence[RawText], profile_id: int, generation: int
) -> list[PreparedBlob]:
    assert _worker is not None
    return _worker.prepare(texts, profile_id, generation)
