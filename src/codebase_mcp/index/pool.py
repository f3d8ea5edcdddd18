"""Who splits and embeds? Worker processes for much, this process for little."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import connection, current_process, get_context, parent_process

from codebase_mcp.embedding.embedder import LocalModel, LocalSource
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index.prepare import PreparedBlob, Preparer, RawText
from codebase_mcp.interrupts import deaf_children

_log = logging.getLogger(__name__)

# The collector looks for cycles after so many new objects. Preparing makes many and no cycles: with
# Python's own 700 a sixth of the time would go into looking.
_OBJECTS_PER_COLLECTION = 1_000_000

# Two workers hold half a gigabyte between them, and starting them anew takes a second.
IDLE_S = 30.0

# Below this many characters starting processes (1 to 2 s) costs more than it saves.
SMALL_CHARS = 2_000_000


@dataclass(frozen=True, slots=True)
class Job:
    """For what texts are prepared, and by which model."""

    profile_id: int
    generation: int
    model: LocalModel


# How a process ends that should become a worker and was made to open the product …
_EXIT_UNGUARDED = 78
# … or met an error before it was one.
_EXIT_UNSTARTED = 1

# Processes that were told to end are gone in a tenth of it; then something waits for them in vain.
_ENDING_S = 2.0


class PreparerPool:
    """Prepares texts without blocking the event loop; processes start when they are needed and end
    when they have been idle.

    The threads of this process use a job's own model; a worker process loads it from its source.
    """

    def __init__(self, workers: int, *, idle_s: float = IDLE_S) -> None:
        self.workers = workers
        self._idle_s = idle_s
        self._under_way = 0
        self._rest: asyncio.TimerHandle | None = None
        self._executor: ProcessPoolExecutor | None = None
        # Its other end is in every worker process, which ends when this one closes.
        self._end: connection.Connection | None = None
        self._life: connection.Connection | None = None
        self._is_closed = False
        self._quarantine = asyncio.Lock()
        self._local = Preparer()
        self._local_lock = threading.Lock()

    async def prepare(
        self, texts: Sequence[RawText], job: Job, *, small: bool
    ) -> list[PreparedBlob]:
        """Prepare one batch: in a thread where the whole run is ``small``, else in a process."""
        if not texts:
            return []
        if small:
            return await asyncio.to_thread(self._prepare_here, texts, job)
        self._under_way += 1
        if self._rest is not None:
            self._rest.cancel()
        try:
            return await self._in_processes(texts, job)
        finally:
            self._under_way -= 1
            if not self._under_way and not self._is_closed:
                loop = asyncio.get_running_loop()
                self._rest = loop.call_later(self._idle_s, self._end_processes)

    async def _in_processes(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
        if self._executor is None:
            self._executor = self._start_executor(self.workers)
        executor = self._executor
        try:
            return await _in_worker(executor, texts, job)
        except (BrokenProcessPool, BrokenPipeError):  # whichever of its threads sees it first
            if self._is_closed:
                raise IndexingFailed("The index run was broken off") from None
            if self._executor is executor:  # of the batches that it broke under, the first
                self._executor = None
                await _clear_away(executor)
        async with self._quarantine:
            return await self._one_by_one(texts, job)

    async def _one_by_one(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
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
                        prepared += await _in_worker(executor, [attempt], job)
                        break
                    except BrokenProcessPool:
                        _log.warning("a worker process died over a %s text", raw.language)
                        await _clear_away(executor)
                        executor = self._start_executor(1)
                else:
                    raise IndexingFailed(
                        "Worker processes keep dying",
                        hint="Is there enough memory? CODEBASE_MCP_WORKERS=1 needs less.",
                    )
        finally:
            await asyncio.to_thread(_put_away, executor)
        return prepared

    def close(self) -> None:
        """End the worker processes at once, whatever they are at: nothing of it is stored yet."""
        self._is_closed = True
        if self._rest is not None:
            self._rest.cancel()
        for side in (self._life, self._end):
            if side is not None:
                side.close()
        if self._executor is not None:
            _put_away(self._executor)
            self._executor = None

    def _end_processes(self) -> None:
        """Let idle processes go; nothing waits for them."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)

    def _start_executor(self, workers: int) -> ProcessPoolExecutor:
        context = get_context("spawn")
        if self._end is None:
            self._end, self._life = context.Pipe(duplex=False)
        return ProcessPoolExecutor(
            workers, mp_context=context, initializer=_start_worker, initargs=(self._end,)
        )

    def _prepare_here(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
        with self._local_lock:
            return self._local.prepare(texts, job.profile_id, job.generation, job.model)


def require_main_guard() -> None:
    """End a process that imports the main program, to become a worker, and is made to open it all.

    It would wait for a lock that its parent holds, which waits for its worker.
    """
    if getattr(current_process(), "_inheriting", False):  # as multiprocessing itself finds it out
        os._exit(_EXIT_UNGUARDED)


async def _clear_away(executor: ProcessPoolExecutor) -> None:
    """Put away an executor of which a process died.

    Raises:
        IndexingFailed: it died before it was a worker.
    """
    codes = await asyncio.to_thread(_put_away, executor)
    if codes & {_EXIT_UNGUARDED, _EXIT_UNSTARTED}:
        raise IndexingFailed(
            "The worker processes cannot start: they import the main program, and that must not run"
            ' then. Let what it runs stand below the line: if __name__ == "__main__":',
            hint="Whatever else went wrong in them is on standard error.",
        )


def _put_away(executor: ProcessPoolExecutor) -> set[int | None]:
    """Wait for the end of an executor whose processes end whatever they are at; how they did.

    Its threads may wait for ever for the rest of a result that a process was sending, or for one
    that takes the next batch, as this process itself holds the other ends of their pipes. Those are
    closed only then: a thread that is about to end closes them, too.
    """
    inner = vars(executor)  # the library has no other way
    manager = inner["_executor_manager_thread"]
    processes = list((inner["_processes"] or {}).values())
    if manager is None:
        executor.shutdown(wait=False, cancel_futures=True)
        return set()
    ends = (inner["_result_queue"]._writer, inner["_call_queue"]._reader)
    executor.shutdown(wait=False, cancel_futures=True)
    manager.join(_ENDING_S)
    if manager.is_alive():
        for end in ends:
            end.close()
        manager.join()
    return {process.exitcode for process in processes}


async def _in_worker(
    executor: ProcessPoolExecutor, texts: Sequence[RawText], job: Job
) -> list[PreparedBlob]:
    source = job.model.source
    loop = asyncio.get_running_loop()
    with deaf_children(), _one_blas_thread_in_children():  # the first batch starts the processes
        prepared = loop.run_in_executor(
            executor, _prepare_in_worker, texts, job.profile_id, job.generation, source
        )
    return await prepared


@contextmanager
def _one_blas_thread_in_children() -> Iterator[None]:
    """Processes started in this block multiply matrices in one thread, unless configured.

    Each core has its process already. Our own environment, a library's host's, stays as it was.
    """
    if "OPENBLAS_NUM_THREADS" in os.environ:  # noqa: TID251
        yield
        return
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # noqa: TID251
    try:
        yield
    finally:
        del os.environ["OPENBLAS_NUM_THREADS"]  # noqa: TID251


_worker: Preparer | None = None


def _start_worker(end: connection.Connection) -> None:
    global _worker  # noqa: PLW0603 - one preparer per worker process, as the executor offers it
    threading.Thread(target=_end_with_pool, args=(end,), daemon=True).start()
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    _worker = Preparer()


def _end_with_pool(end: connection.Connection) -> None:
    """End when the pool closes, or its process was killed: the queue never closes by itself."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel, end])
        os._exit(1)


def _prepare_in_worker(
    texts: Sequence[RawText], profile_id: int, generation: int, source: LocalSource
) -> list[PreparedBlob]:
    assert _worker is not None
    return _worker.prepare(texts, profile_id, generation, _loaded(source))


# Two, for a rebuild with another model; more would only take memory.
@lru_cache(maxsize=2)
def _loaded(source: LocalSource) -> LocalModel:
    return source()
