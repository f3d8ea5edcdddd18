"""In which portions texts are embedded."""

from __future__ import annotations

import pytest

from codebase_mcp.app.background.backfill import grouped
from codebase_mcp.index.secondary_model import PendingText


def text(number: int, chunks: int) -> PendingText:
    return PendingText(number, ("x",) * chunks)


@pytest.mark.parametrize(
    ("chunks", "portions"),
    [
        ([], []),
        ([1, 2, 3], [[0, 1], [2]]),
        ([4, 4, 4], [[0], [1], [2]]),
        ([1, 9, 1], [[0], [1], [2]]),
        ([1, 1, 1, 1, 1], [[0, 1, 2, 3], [4]]),
    ],
)
def test_texts_go_together_up_to_a_number_of_chunks_and_stay_whole(
    chunks: list[int], portions: list[list[int]]
) -> None:
    texts = [text(number, count) for number, count in enumerate(chunks)]
    assert [[one.blob_id for one in group] for group in grouped(texts, 4)] == portions
