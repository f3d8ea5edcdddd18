"""Splits and embeds texts: in worker processes for large runs, in this process for small runs.

A worker process receives a batch at a time over a pipe. ``ProcessPoolExecutor`` is not used: it
fails all batches when a process dies, cannot be stopped within a batch, and leaves named semaphores
behind when it is killed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import connection, current_process, get_context
from pathlib import Path

from codebase_mcp.chunking import grammars
from codebase_mcp.embedding.providers import StaticSource
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index.prepare import PreparedBlob, Preparer, RawText
from codebase_mcp.processes import block_sigint_in_children, default_variable, on_parent_exit

# The garbage collector runs after this many new objects. Preparing makes many objects and no
# cycles: with Python's default of 700 a sixth of the time would be spent on collections.
_OBJECTS_PER_COLLECTION = 1_000_000

# A process has its name before it imports the main program.
_NAME = "codebase-mcp-worker"

# Exit status of a process that imported an unguarded main program instead of becoming a worker …
_EXIT_UNGUARDED = 78
# … or failed before it became a worker.
_EXIT_UNSTARTED = 1


class WorkerDied(Exception):
    """The process died within a batch, or before its first batch."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(f"exit status {exit_code}")
        self.has_not_started = exit_code in (_EXIT_UNGUARDED, _EXIT_UNSTARTED)


class WorkerProcess:
    """A process and our end of the pipe to it; a single thread at a time gives it work."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(theirs, grammars.chosen()), name=_NAME, daemon=True
        )
        # A single thread for matrices, as each core has its process already.
        with block_sigint_in_children(), default_variable("OPENBLAS_NUM_THREADS", "1"):
            self._process.start()
        theirs.close()  # else the pipe would not end with the process

    def prepare(
        self, texts: Sequence[RawText], profile_id: int, generation: int, source: StaticSource
    ) -> list[PreparedBlob]:
        """Prepare a batch; an error in the process is raised here.

        Raises:
            WorkerDied: also if another thread kills the process.
        """
        answer: list[PreparedBlob] | Exception
        try:
            self._pipe.send((texts, profile_id, generation, source))
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            raise WorkerDied(self._process.exitcode) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        """Stop the process at once: nothing of its batch is stored yet."""
        self._process.kill()
        self._process.join()


def require_main_guard() -> None:
    """Exit if this process should become a worker but runs an unguarded main program instead.

    It would wait for a lock that its parent holds, while the parent waits for its worker.
    """
    if current_process().name == _NAME:
        os._exit(_EXIT_UNGUARDED)


def _work(pipe: connection.Connection, grammar_folder: Path | None) -> None:
    on_parent_exit(lambda: os._exit(1))  # also within a batch
    grammars.choose(grammar_folder)
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    preparer = Preparer()
    with suppress(EOFError, OSError):  # the parent has gone
        while True:
            texts, profile_id, generation, source = pipe.recv()
            answer: list[PreparedBlob] | Exception
            try:
                answer = preparer.prepare(texts, profile_id, generation, _loaded(source))
            except Exception as error:  # the edge: raised in the process that asked
                error.add_note(f"In a worker process:\n{traceback.format_exc()}")
                answer = error
            pipe.send(answer)


# Two, for a rebuild with another model; more would only use memory.
@lru_cache(maxsize=2)
def _loaded(source: StaticSource) -> StaticEmbedder:
    return source()


_log = logging.getLogger(__name__)

# Two workers take half a gigabyte, and starting them again takes a second.
IDLE_S = 30.0

# Below this many characters starting processes (1 to 2 s) takes longer than it saves.
SMALL_CHARS = 2_000_000


@dataclass(frozen=True, slots=True)
class Job:
    """The profile and generation that texts are prepared for, and the model."""

    profile_id: int
    generation: int
    model: StaticEmbedder


class PreparerPool:
    """Prepares texts without blocking the event loop.

    Worker processes start when they are needed and end after they have been idle for a while; a
    thread waits for each of them. Threads of this process use a job's own model; a worker process
    loads it from its source.
    """

    def __init__(self, workers: int, *, idle_s: float = IDLE_S) -> None:
        self.workers = workers
        self._idle_s = idle_s
        self._under_way = 0
        self._rest: asyncio.TimerHandle | None = None
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="worker-process")
        self._processes: set[WorkerProcess] = set()
        self._idle: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._local = Preparer()
        self._local_lock = threading.Lock()

    async def prepare(
        self, texts: Sequence[RawText], job: Job, *, small: bool
    ) -> list[PreparedBlob]:
        """Prepare a batch: in a thread if the whole run is ``small``, else in a process.

        Raises:
            IndexingFailed: the workers cannot start, crash repeatedly, or were stopped.
        """
        if not texts:
            return []
        if small:
            return await asyncio.to_thread(self._prepare_in_thread, texts, job)
        self._under_way += 1
        if self._rest is not None:
            self._rest.cancel()
        try:
            return await self._in_process(texts, job)
        except WorkerDied:
            return await self._prepare_singly(texts, job)
        finally:
            self._under_way -= 1
            if not self._under_way and not self._is_closed:
                self._rest = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle)

    def close(self) -> None:
        """Stop the worker processes at once: nothing of their current batches is stored yet."""
        if self._rest is not None:
            self._rest.cancel()
        with self._lock:
            self._is_closed = True
            processes = list(self._processes)
        for process in processes:
            process.kill()
        self._threads.shutdown()

    async def _prepare_singly(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
        """After a worker crashed: find the text that crashes its parser, and split it by lines.

        Grammars are native code, and some input crashes them. A worker that prepares a single text
        at a time shows which text it is.
        """
        prepared = []
        for raw in texts:
            for attempt in (raw, replace(raw, unparsed=True)):
                try:
                    prepared += await self._in_process([attempt], job)
                    break
                except WorkerDied:
                    _log.warning("a worker process crashed on a %s text", raw.language)
            else:
                raise IndexingFailed(
                    "Worker processes crash repeatedly",
                    hint="Check the memory of the machine; CODEBASE_MCP_WORKERS=1 needs less.",
                )
        return prepared

    async def _in_process(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._prepare_in_process, texts, job)

    def _prepare_in_process(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
        with self._lock:
            if self._is_closed:
                raise IndexingFailed("The index run was stopped")
            process = self._idle.pop() if self._idle else WorkerProcess()
            self._processes.add(process)
        try:
            return process.prepare(texts, job.profile_id, job.generation, job.model.source)
        except WorkerDied as died:
            with self._lock:
                self._processes.discard(process)
            if self._is_closed:
                raise IndexingFailed("The index run was stopped") from None
            if died.has_not_started:
                raise IndexingFailed(
                    "The worker processes cannot start: they import the main program, which must"
                    " not run then. Put the code that runs below the line:"
                    ' if __name__ == "__main__":',
                    hint="Other errors of the workers are on standard error.",
                ) from None
            raise
        finally:
            with self._lock:
                if process in self._processes:
                    self._idle.append(process)

    def _end_idle(self) -> None:
        """End the processes that have nothing to do, without waiting for them."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._processes.difference_update(idle)
            is_any_left = bool(self._processes)
        for process in idle:
            self._threads.submit(process.kill)
        if is_any_left:  # on a batch that nothing waits for any more
            self._rest = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle)

    def _prepare_in_thread(self, texts: Sequence[RawText], job: Job) -> list[PreparedBlob]:
        with self._local_lock:
            return self._local.prepare(texts, job.profile_id, job.generation, job.model)
