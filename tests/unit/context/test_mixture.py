"""The mixture: its file fits the columns, and more evidence never lowers a probability."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

from codebase_mcp.context.features import COLUMNS, Floats
from codebase_mcp.context.mixture import (
    Probabilities,
    Trees,
    mixture,
    outside_signs,
    with_guess,
)

FACTS = ("is_", "has_", "main_language", "language_of_", "words_of_task", "names_of_task_known")


def unknown(matrix: Floats) -> Probabilities:
    """No first guess of any candidate."""
    return np.full(len(matrix), np.nan)


def test_more_evidence_for_a_file_never_lowers_its_probability() -> None:
    numbers = np.random.default_rng(7)
    matrix = numbers.choice([0.0, 0.1, 0.5, 1.0], (400, len(COLUMNS))).astype(np.float32)
    before = mixture().probabilities(matrix, unknown(matrix))
    assert before.min() > 0
    assert before.max() < 1
    for column, name in enumerate(COLUMNS):
        if not name.startswith(FACTS):
            for row in numbers.integers(len(matrix), size=5):
                more = matrix.copy()
                more[row, column] += 0.3
                assert mixture().probabilities(more, unknown(more))[row] >= before[row] - 1e-4, name


def test_a_tree_goes_left_up_to_its_threshold() -> None:
    tree = {"columns": [3], "thresholds": [0.5], "values": [-2.0, 2.0]}
    content = {"columns": list(COLUMNS), "depth": 1, "base": 0.0, "trees": [tree]}
    matrix = np.zeros((3, len(COLUMNS)), np.float32)
    matrix[:, 3] = [0.4, 0.5, 0.6]
    low, high = 1 / (1 + np.exp(2)), 1 / (1 + np.exp(-2))
    assert Trees.from_json(content).probabilities(matrix) == pytest.approx([low, low, high])


def test_a_mixture_of_other_columns_is_refused() -> None:
    content = json.loads(files("codebase_mcp.context").joinpath("mixture.json").read_text("utf-8"))
    with pytest.raises(ValueError, match="other columns"):
        Trees.from_json(content["first"] | {"columns": [*content["first"]["columns"], "moods"]})


def test_candidates_have_the_first_guess_its_share_of_the_best_and_its_rank() -> None:
    matrix = np.zeros((3, len(COLUMNS)), np.float32)
    added = with_guess(matrix, np.array([0.2, 0.8, 0.4]))[:, len(COLUMNS) :]
    assert added == pytest.approx(np.array([[0.2, 0.25, 1 / 3], [0.8, 1, 1], [0.4, 0.5, 1 / 2]]))


def test_without_candidates_nothing_here_answers() -> None:
    matrix = np.zeros((0, len(COLUMNS)), np.float32)
    assert len(mixture().probabilities(matrix, unknown(matrix))) == 0
    assert mixture().outside_probability(matrix, np.zeros(0)) > 0.5
    assert len(outside_signs(matrix, np.zeros(0))) == len(mixture().outside)
