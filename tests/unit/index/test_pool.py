"""Worker processes: what they prepare, and what happens when one dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest

from codebase_mcp.embedding.embedder import Passages, Vectors
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index.pool import Job, PreparerPool
from codebase_mcp.index.prepare import RawText

pytestmark = pytest.mark.anyio

GOOD = RawText(1, b"a" * 20, "python", "def alpha():\n    return 1\n")
FATAL = RawText(2, b"b" * 20, "python", "def fatal():\n    return 2\n")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True, slots=True)
class FatalSource:
    """Loads a model that kills a worker process over a word, or as soon as it is loaded."""

    over: str = ""

    def __call__(self) -> FatalModel:
        if not self.over:
            os._exit(3)
        return FatalModel(self.over)


class FatalModel:
    """Kills its process over a definition, as a crash in native code would; lines are fine."""

    name = "fatal"
    fingerprint = "f"

    def __init__(self, over: str) -> None:
        self._over = over
        self.source = FatalSource(over)

    def encode_passages(self, passages: Passages) -> Vectors:
        frame = sys._getframe(1)
        parsed = [r for r in frame.f_locals["texts"] if isinstance(r, RawText) and not r.unparsed]
        if any(self._over in raw.text for raw in parsed):
            os.kill(os.getpid(), signal.SIGKILL)
        return np.ones((len(passages.texts), 2), np.float32)


@dataclass(frozen=True, slots=True)
class EndlessSource:
    """Loads a model that never comes to an end."""

    begun: str

    def __call__(self) -> EndlessModel:
        return EndlessModel(self.begun)


class EndlessModel:
    """Says that it has begun, and embeds for ever."""

    name = "endless"
    fingerprint = "e"

    def __init__(self, begun: str) -> None:
        self._begun = begun
        self.source = EndlessSource(begun)

    def encode_passages(self, passages: Passages) -> Vectors:
        Path(self._begun).touch()
        while True:
            time.sleep(60)


DEADLY = Job(1, 1, FatalModel("fatal"))


async def test_a_thread_and_a_process_prepare_the_same() -> None:
    pool = PreparerPool(workers=1)
    job = Job(1, 1, StaticEmbedder.load())
    here = await pool.prepare([GOOD, FATAL], job, small=True)
    there = await pool.prepare([GOOD, FATAL], job, small=False)
    pool.close()
    assert [blob.chunk_rows for blob in here] == [blob.chunk_rows for blob in there]
    assert [blob.vector_rows for blob in here] == [blob.vector_rows for blob in there]


@dataclass(frozen=True, slots=True)
class SingleThreadedSource:
    """Loads the built-in model only where OpenBLAS was told to use one thread."""

    def __call__(self) -> StaticEmbedder:
        assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
        return StaticEmbedder.load()


async def test_worker_processes_multiply_in_one_thread_and_this_one_as_it_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    model = FatalModel("")
    model.source = SingleThreadedSource()  # type: ignore[assignment]
    pool = PreparerPool(workers=1)
    [prepared] = await pool.prepare([GOOD], Job(1, 1, model), small=False)
    pool.close()
    assert prepared.vector_rows
    assert "OPENBLAS_NUM_THREADS" not in os.environ


@dataclass(frozen=True, slots=True)
class FailingSource:
    """Loads no model."""

    def __call__(self) -> StaticEmbedder:
        raise LookupError("no such model")


async def test_an_error_in_a_worker_process_is_raised_here_and_says_where_it_was() -> None:
    model = FatalModel("")
    model.source = FailingSource()  # type: ignore[assignment]
    pool = PreparerPool(workers=1)
    for _ in range(2):
        with pytest.raises(LookupError, match="no such model") as raised:
            await pool.prepare([GOOD], Job(1, 1, model), small=False)
        assert "in __call__" in raised.value.__notes__[0]
    pool.close()


async def test_processes_need_no_semaphores() -> None:
    shared = Path("/dev/shm")
    before = set(shared.glob("sem.mp-*"))
    pool = PreparerPool(workers=1)
    await pool.prepare([GOOD], Job(1, 1, StaticEmbedder.load()), small=False)
    assert set(shared.glob("sem.mp-*")) <= before
    pool.close()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from codebase_mcp.index.pool import Job, PreparerPool
from tests.unit.index.test_pool import GOOD, EndlessModel
async def main():
    begun = Path(sys.argv[1])
    job = Job(1, 1, EndlessModel(str(begun)))
    batch = asyncio.create_task(PreparerPool(workers=1).prepare([GOOD], job, small=False))
    while not begun.exists():
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_a_worker_ends_with_a_parent_that_is_killed_in_the_middle_of_a_batch(
    tmp_path: Path,
) -> None:
    root = str(Path(__file__).parents[3])
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "begun"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
        capture_output=True,  # ends when no process holds the output any more
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert b"leaked" not in ended.stderr


async def test_idle_processes_end_and_new_ones_take_the_next_batch() -> None:
    before = set(active_children())
    pool = PreparerPool(workers=2, idle_s=0)
    job = Job(1, 1, StaticEmbedder.load())
    [first] = await pool.prepare([GOOD], job, small=False)
    async with asyncio.timeout(60):
        while set(active_children()) - before:
            await asyncio.sleep(0.01)
    [again] = await pool.prepare([GOOD], job, small=False)
    pool.close()
    assert again.chunk_rows == first.chunk_rows


async def test_a_text_that_kills_its_worker_is_cut_by_lines() -> None:
    pool = PreparerPool(workers=1)
    blobs = await pool.prepare([GOOD, FATAL], DEADLY, small=False)
    pool.close()
    assert [blob.blob_id for blob in blobs] == [1, 2]
    assert b"alpha" in blobs[0].symbol_rows
    assert blobs[1].symbol_rows == b""
    assert blobs[1].chunk_count == 1


async def test_batches_that_share_the_dying_pool_are_not_blamed() -> None:
    pool = PreparerPool(workers=2)
    innocent = [replace(GOOD, blob_id=number) for number in range(10, 14)]
    batches = [[FATAL], *([raw] for raw in innocent)]
    prepared = await asyncio.gather(
        *(pool.prepare(batch, DEADLY, small=False) for batch in batches)
    )
    pool.close()
    symbols = {blob.blob_id: blob.symbol_rows for [blob] in prepared}
    assert symbols.pop(FATAL.blob_id) == b""
    assert len(symbols) == 4
    assert all(b"alpha" in rows for rows in symbols.values())


async def test_a_run_fails_with_a_reason_if_workers_keep_crashing() -> None:
    pool = PreparerPool(workers=1)
    with pytest.raises(IndexingFailed, match="crash repeatedly"):
        await pool.prepare([GOOD], Job(1, 1, FatalModel("")), small=False)
    pool.close()


async def test_a_pool_that_closes_ends_workers_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    pool = PreparerPool(workers=1)
    begun = tmp_path / "begun"
    job = Job(1, 1, EndlessModel(str(begun)))
    # The second batch is larger than a pipe, so it is on its way when nobody takes it any more.
    second = replace(GOOD, blob_id=2, text=GOOD.text * 50_000)
    batches = [asyncio.create_task(pool.prepare([t], job, small=False)) for t in (GOOD, second)]
    while not begun.exists():
        await asyncio.sleep(0.01)
    await asyncio.to_thread(pool.close)
    for batch in batches:
        with pytest.raises(IndexingFailed, match="was stopped"):
            await batch
