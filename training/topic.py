"""Is this question about software at all?

Fits a linear probe of the built-in model's question vectors: everyday questions about code and
names from code against phrases about other things (``elsewhere.txt``). Search uses it where words
and meaning alone cannot tell a question in words that the code does not use from one about cooking.
Writes ``topic.safetensors`` beside the model.

    python training/topic.py --model src/codebase_mcp/embedding/builtin
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.optimize import minimize

from codebase_mcp.embedding.static import StaticEmbedder

Numbers = NDArray[np.float64]

HERE = Path(__file__).parent
FOLDS = 5
RIDGE = 1e-4

# How many names of a concept make one query, as typed by a user who knows them.
NAMES_AT_ONCE = 3


def about_software() -> list[str]:
    """Questions and names that belong to code."""
    found: list[str] = []
    for file in sorted((HERE / "concepts").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            concept = json.loads(line)
            found += concept["say"]
            names = concept["code"][: 2 * NAMES_AT_ONCE]
            found += [" ".join(names[:NAMES_AT_ONCE]), " ".join(names[NAMES_AT_ONCE:])]
    for file in sorted((HERE / "questions").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            found += json.loads(line)["ask"]
    return found


def about_other_things() -> list[str]:
    """Phrases that belong anywhere else."""
    lines = (HERE / "elsewhere.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip()]


def fit(vectors: Numbers, truth: Numbers, weights: Numbers) -> Numbers:
    """Logistic regression with a ridge: a weight for each dimension, and the constant."""
    design = np.column_stack([vectors, np.ones(len(vectors))])
    sign = 2 * truth - 1

    def loss(found: Numbers) -> tuple[float, Numbers]:
        odds = design @ found
        probability = 1 / (1 + np.exp(-odds))
        gradient = design.T @ (weights * (probability - truth))
        gradient[:-1] += 2 * RIDGE * found[:-1]
        value = weights @ np.logaddexp(0, -sign * odds) + RIDGE * (found[:-1] ** 2).sum()
        return float(value), gradient

    start = np.zeros(design.shape[1])
    found: Numbers = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    args = parser.parse_args()
    embedder = StaticEmbedder.load(args.model)
    ours, others = about_software(), about_other_things()
    vectors = np.array([embedder.encode_query(text) for text in [*ours, *others]], np.float64)
    truth = np.repeat([1.0, 0.0], [len(ours), len(others)])
    weights = np.repeat([0.5 / len(ours), 0.5 / len(others)], [len(ours), len(others)])
    fold = np.random.default_rng(0).integers(FOLDS, size=len(truth))
    odds = np.zeros(len(truth))
    for k in range(FOLDS):
        found = fit(vectors[fold != k], truth[fold != k], weights[fold != k])
        odds[fold == k] = vectors[fold == k] @ found[:-1] + found[-1]
    right = weights @ ((odds > 0) == (truth > 0))
    print(f"{len(ours)} about software, {len(others)} not; cross-validated {right:.3f} correct")
    found = fit(vectors, truth, weights).astype(np.float32)
    save_file({"topic": found}, args.model / "topic.safetensors")


if __name__ == "__main__":
    main()
