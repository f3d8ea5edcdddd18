"""What a chunk means where it stands."""

from __future__ import annotations

import numpy as np
import pytest

from codebase_mcp.index.prepare import COMMENTS, NAMES, OF_CHUNK, in_context

X, Y, Z, NONE = [*np.eye(4, dtype=np.float32)[:3].tolist(), [0.0] * 4]


def rows(*vectors: list[float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array(vectors, np.float32).reshape(len(vectors), 4)


def test_a_chunk_is_turned_towards_its_name_its_file_and_the_comments() -> None:
    turned = in_context(rows(X), rows(Y), rows(Z), rows(Z), [1])
    assert np.linalg.norm(turned, axis=1) == pytest.approx(1.0)
    assert turned[0] / turned[0, 0] == pytest.approx([1.0, OF_CHUNK, NAMES + COMMENTS, 0.0])


def test_each_file_turns_its_own_chunks() -> None:
    context = rows(NONE, NONE, NONE), rows(Y, Z), rows(NONE, NONE), [2, 1]
    first, second, third = in_context(rows(X, X, X), *context)
    assert first == pytest.approx(second)
    assert first[1] > 0 == third[1]
    assert third[2] > 0 == first[2]


def test_what_means_nothing_stays_nothing_and_no_chunks_are_no_error() -> None:
    assert in_context(rows(NONE), rows(NONE), rows(NONE), rows(NONE), [1]).tolist() == [NONE]
    empty = rows()
    assert in_context(empty, empty, rows(Y), rows(Z), [0]).shape == (0, 4)
