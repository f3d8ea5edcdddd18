"""Who splits and embeds texts? Worker processes for large runs, this process for small ones."""

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
from multiprocessing import connection, current_process, get_context

from codebase_mcp.embedding.embedder import LocalModel, LocalSource
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index.prepare import PreparedBlob, Preparer, RawText
from codebase_mcp.processes import block_sigint_in_children, on_parent_exit

_log = logging.getLogger(__name__)

# The garbage collector runs after this many new objects. Preparing makes many objects and no
# cycles: with Python's default of 700 a sixth of the time would be spent on collections.
_OBJECTS_PER_COLLECTION = 1_000_000

# Two workers take half a gigabyte, and starting them again takes a second.
IDLE_S = 30.0

# Below this many characters starting processes (1 to 2 s) takes longer than it saves.
SMALL_CHARS = 2_000_000


@dataclass(frozen=True, slots=True)
class Job:
    """The profile and generation that texts are prepared for, and the model."""

    profile_id: int
    generation: int
    model: LocalModel


# Exit status of a process that imported an unguarded main program instead of becoming a worker …
_EXIT_UNGUARDED = 78
# … or failed before it became one.
_EXIT_UNSTARTED = 1

# Processes stop within a tenth of this; after it their pipes are closed by force.
_STOP_TIMEOUT_S = 2.0


class PreparerPool:
    """Prepares texts without blocking the event loop.

    Worker processes start when they are needed and end after they have been idle for a while.
    Threads of this process use a job's own model; a worker process loads it from its source.
    """

    def __init__(self, workers: int, *, idle_s: float = IDLE_S) -> None:
        self.workers = workers
        self._idle_s = idle_s
        self._under_way = 0
        self._rest: asyncio.TimerHandle | None = None
        self._executor: ProcessPoolExecutor | None = None
        # Every worker process has the read end, and exits when the write end closes.
        self._read_end: connection.Connection | None = None
        self._write_end: connection.Connection | None = None
        self._is_closed = False
        self._quarantine = asyncio.Lock()
        self._local = Preparer()
        self._local_lock = threading.Lock()

    async def prepare(
        self, texts: Sequence[RawText], job: Job, *, small: bool
    ) -> list[PreparedBlob]:
        """Prepare one batch: in a thread if the whole run is ``small``, else in a process."""
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
        except (BrokenProcessPool, BrokenPipeError):  # depends on which of its threads fails first
            if self._is_closed:
                raise IndexingFailed("The index run was stopped") from None
            if self._executor is executor:  # the first of the batches that failed with it
                self._executor = None
                await _shut_down_broken(executor)
        async with self._quarantine:
            return await self._one_by_one(texts, job)

    async def _one_by_one(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
        """After a worker crashed: find the text that crashes its parser, and split it by lines.

        Grammars are native code, and some input crashes them. A worker that prepares one text at a
        time shows which text it is.
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
                        _log.warning("a worker process crashed on a %s text", raw.language)
                        await _shut_down_broken(executor)
                        executor = self._start_executor(1)
                else:
                    raise IndexingFailed(
                        "Worker processes crash repeatedly",
                        hint="Check the memory of the machine; CODEBASE_MCP_WORKERS=1 needs less.",
                    )
        finally:
            await asyncio.to_thread(_shut_down, executor)
        return prepared

    def close(self) -> None:
        """Stop the worker processes at once: nothing of their current batches is stored yet."""
        self._is_closed = True
        if self._rest is not None:
            self._rest.cancel()
        for side in (self._write_end, self._read_end):
            if side is not None:
                side.close()
        if self._executor is not None:
            _shut_down(self._executor)
            self._executor = None

    def _end_processes(self) -> None:
        """Stop idle processes without waiting for them."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)

    def _start_executor(self, workers: int) -> ProcessPoolExecutor:
        context = get_context("spawn")
        if self._read_end is None:
            self._read_end, self._write_end = context.Pipe(duplex=False)
        return ProcessPoolExecutor(
            workers, mp_context=context, initializer=_start_worker, initargs=(self._read_end,)
        )

    def _prepare_here(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
        with self._local_lock:
            return self._local.prepare(texts, job.profile_id, job.generation, job.model)


def require_main_guard() -> None:
    """Exit if this process should become a worker but runs an unguarded main program instead.

    It would wait for a lock that its parent holds, while the parent waits for its worker.
    """
    if getattr(current_process(), "_inheriting", False):  # the check of multiprocessing itself
        os._exit(_EXIT_UNGUARDED)


async def _shut_down_broken(executor: ProcessPoolExecutor) -> None:
    """Shut down an executor of which a process died.

    Raises:
        IndexingFailed: the process died before it became a worker.
    """
    codes = await asyncio.to_thread(_shut_down, executor)
    if codes & {_EXIT_UNGUARDED, _EXIT_UNSTARTED}:
        raise IndexingFailed(
            "The worker processes cannot start: they import the main program, which must not run"
            ' then. Put the code that runs below the line: if __name__ == "__main__":',
            hint="Other errors of the workers are on standard error.",
        )


def _shut_down(executor: ProcessPoolExecutor) -> set[int | None]:
    """Wait until an executor and its processes, which exit at once, have ended; their exit codes.

    Its threads may block for ever on the rest of a result that a process was sending, or on sending
    the next batch, as this process itself holds the other ends of their pipes. Those ends are
    closed only after a while, because a thread that ends normally closes them itself.
    """
    inner = vars(executor)  # the library has no public way
    manager = inner["_executor_manager_thread"]
    processes = list((inner["_processes"] or {}).values())
    if manager is None:
        executor.shutdown(wait=False, cancel_futures=True)
        return set()
    ends = (inner["_result_queue"]._writer, inner["_call_queue"]._reader)
    executor.shutdown(wait=False, cancel_futures=True)
    manager.join(_STOP_TIMEOUT_S)
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
    # The first batch starts the processes.
    with block_sigint_in_children(), _one_blas_thread_in_children():
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


def _start_worker(read_end: connection.Connection) -> None:
    global _worker  # noqa: PLW0603 - one preparer per worker process, as the executor offers it
    # The queue does not close by itself when the pool does, or when its process is killed.
    on_parent_exit(lambda: os._exit(1), read_end)
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    _worker = Preparer()


def _prepare_in_worker(
    texts: Sequence[RawText], profile_id: int, generation: int, source: LocalSource
) -> list[PreparedBlob]:
    assert _worker is not None
    return _worker.prepare(texts, profile_id, generation, _loaded(source))


# Two, for a rebuild with another model; more would only use memory.
@lru_cache(maxsize=2)
def _loaded(source: LocalSource) -> LocalModel:
    return source()
