"""Worker processes: what they prepare, and what happens when one dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from codebase_mcp.embedding.embedder import Passages, Vectors
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index.pool import PreparerPool
from codebase_mcp.index.prepare import RawText

pytestmark = pytest.mark.anyio

GOOD = RawText(1, b"a" * 20, "python", "def alpha():\n    return 1\n")
FATAL = RawText(2, b"b" * 20, "python", "def fatal():\n    return 2\n")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class FatalEmbedder:
    """Kills its process over a definition, as a crash in native code would; lines are fine."""

    name, fingerprint, dimension = "fatal", "f", 2

    def __init__(self, over: str) -> None:
        self._over = over

    def encode_passages(self, passages: Passages) -> Vectors:
        frame = sys._getframe(1)
        if any(self._over in raw.text and not raw.unparsed for raw in frame.f_locals["texts"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return np.ones((len(passages.texts), 2), np.float32)

    def encode_query(self, query: str) -> Vectors:
        return np.ones(2, np.float32)


async def test_a_thread_and_a_process_prepare_the_same() -> None:
    pool = PreparerPool(StaticEmbedder.load, StaticEmbedder.load(), workers=1)
    here = await pool.prepare([GOOD, FATAL], 1, 1, small=True)
    there = await pool.prepare([GOOD, FATAL], 1, 1, small=False)
    pool.close()
    assert [blob.chunk_rows for blob in here] == [blob.chunk_rows for blob in there]
    assert [blob.vector_rows for blob in here] == [blob.vector_rows for blob in there]


async def test_a_text_that_kills_its_worker_is_cut_by_lines() -> None:
    pool = PreparerPool(partial(FatalEmbedder, "fatal"), FatalEmbedder(""), workers=1)
    blobs = await pool.prepare([GOOD, FATAL], 1, 1, small=False)
    pool.close()
    assert [blob.blob_id for blob in blobs] == [1, 2]
    assert b"alpha" in blobs[0].symbol_rows
    assert blobs[1].symbol_rows == b""
    assert blobs[1].chunk_count == 1


async def test_batches_that_share_the_dying_pool_are_not_blamed() -> None:
    pool = PreparerPool(partial(FatalEmbedder, "fatal"), FatalEmbedder(""), workers=2)
    innocent = [replace(GOOD, blob_id=number) for number in range(10, 14)]
    batches = [[FATAL], *([raw] for raw in innocent)]
    prepared = await asyncio.gather(*(pool.prepare(batch, 1, 1, small=False) for batch in batches))
    pool.close()
    symbols = {blob.blob_id: blob.symbol_rows for [blob] in prepared}
    assert symbols.pop(FATAL.blob_id) == b""
    assert len(symbols) == 4
    assert all(b"alpha" in rows for rows in symbols.values())


def refuse_to_start() -> StaticEmbedder:
    os._exit(3)


async def test_workers_that_cannot_live_end_the_run_with_a_reason() -> None:
    pool = PreparerPool(refuse_to_start, FatalEmbedder(""), workers=1)
    with pytest.raises(IndexingFailed, match="keep dying"):
        await pool.prepare([GOOD], 1, 1, small=False)
    pool.close()
