"""What two models say together of how near a chunk is."""

from __future__ import annotations

import pytest

from codebase_mcp.search.candidates import SECONDARY_SHARE, fuse


def test_where_both_models_know_a_chunk_each_has_its_share() -> None:
    assert fuse({(1, 0): 0.2}, {(1, 0): 0.6}) == {
        (1, 0): pytest.approx(0.2 + SECONDARY_SHARE * (0.6 - 0.2))
    }


def test_a_chunk_that_one_model_knows_has_what_that_one_says() -> None:
    first, stronger = {(1, 0): 0.2, (1, 1): 0.9}, {(1, 0): 0.2, (2, 0): 0.5}
    assert fuse(first, stronger) == {
        (1, 0): pytest.approx(0.2), (1, 1): 0.9, (2, 0): 0.5,
    }  # fmt: skip


def test_without_the_stronger_model_nothing_changes() -> None:
    first = {(1, 0): 0.2, (1, 1): 0.9}
    assert fuse(first, {}) == first
