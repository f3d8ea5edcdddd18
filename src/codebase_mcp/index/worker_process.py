"""A process that splits and embeds texts, a batch at a time, which it receives over a pipe.

Not an executor of the standard library: ``ProcessPoolExecutor`` fails all batches when a process
dies, cannot be stopped within a batch, and leaves named semaphores behind when it is killed.
"""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from multiprocessing import connection, current_process, get_context
from pathlib import Path

from codebase_mcp.chunking import grammars
from codebase_mcp.embedding.providers import StaticSource
from codebase_mcp.embedding.static import StaticEmbedder
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
