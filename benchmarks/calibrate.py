"""Fit the confidence of hits on annotated queries, and show how well it holds.

    python benchmarks/calibrate.py --eval DIR --repos-dir DIR

``--eval`` is the folder of the retrieval evaluation (``ndcg.py`` and its annotations),
``--repos-dir`` the trees that its ``materialise.py`` laid out. Prints the coefficients for
``search/confidence.py``, the share of relevant files in each band of the score, and how many
unrelated questions find anything.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codebase_mcp import App
from codebase_mcp.search.candidates import Filters
from codebase_mcp.search.confidence import FLOOR, Proof, proof_of, similarity

UNRELATED = (
    "quantum entanglement algorithm", "bake sourdough bread recipe", "football league standings",
    "mortgage interest amortization", "chess opening theory", "protein folding simulation",
    "weather radar precipitation", "guitar chord progression", "tax return deduction",
    "satellite orbit propagation", "vaccine trial enrollment", "wine tasting notes",
    "poker hand evaluator", "airline seat map", "soil moisture irrigation",
    "opera libretto translation", "knitting pattern generator", "earthquake magnitude estimation",
    "blood glucose insulin dosing", "ski lift queue",
)  # fmt: skip
SHOWN = 10


async def collect(evaluation: Path, repos_dir: Path) -> list[tuple[Proof, bool, bool, int]]:
    """For the first files of each query: proof, is it relevant, is the query related, its rank."""
    sys.path.insert(0, str(evaluation))
    import ndcg  # noqa: PLC0415 - the evaluation is a folder that the user names

    found: list[tuple[Proof, bool, bool, int]] = []
    async with await App.open() as app:
        for spec in ndcg.load_repos():
            checkout = repos_dir / spec["name"]
            if not checkout.is_dir():
                continue
            root = (checkout / (spec.get("benchmark_root") or "")).resolve()
            tree = ndcg.Tree.of(checkout, spec.get("benchmark_root"))
            project = "eval-" + hashlib.sha1(str(root).encode()).hexdigest()[:12]
            await app.index(root, project)
            asked = [
                (item["query"], [tree.resolve(target["path"]) for target in item["targets"]])
                for item in ndcg.load_queries(spec["name"])
            ]
            for query, targets in [*asked, *((query, []) for query in UNRELATED)]:
                ranked = await app.rank(query, project, Filters())
                for rank, file in enumerate(ranked[:SHOWN]):
                    relevant = any(file.candidate.path in target for target in targets)
                    proof = proof_of(file, ranked[0].score)
                    found.append((proof, relevant, bool(targets), rank))
    return found


def fit(features: NDArray[np.float64], relevant: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic regression by iteratively reweighted least squares, with a little ridge."""
    weights = np.zeros(features.shape[1])
    ridge = 0.01 * np.eye(features.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-features @ weights))
        spread = (probability * (1 - probability))[:, None]
        gradient = features.T @ (probability - relevant) + ridge @ weights
        weights -= np.linalg.solve((features * spread).T @ features + ridge, gradient)
    return weights


def main() -> None:
    """Collect, fit, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eval", type=Path, required=True)
    parser.add_argument("--repos-dir", type=Path, required=True)
    options = parser.parse_args()
    found = asyncio.run(collect(options.eval.resolve(), options.repos_dir.resolve()))
    proofs = np.array([astuple(proof) for proof, *_ in found])
    relevant = np.array([is_relevant for _, is_relevant, _, _ in found])
    related = np.array([is_related for _, _, is_related, _ in found])
    first = np.array([rank == 0 for *_, rank in found])
    weights = fit(np.column_stack([np.ones(len(proofs)), proofs]), relevant.astype(float))
    names = ("intercept", *Proof.__slots__)
    print("fitted:", {name: round(float(w), 2) for name, w in zip(names, weights, strict=True)})
    scores = np.array([similarity(proof) for proof, *_ in found])
    kept = np.array([proof.weight >= FLOOR for proof, *_ in found])
    for low, high in ((0.9, 1.01), (0.8, 0.9), (0.7, 0.8), (0.6, 0.7), (0.0, 0.6)):
        band = related & kept & (scores >= low) & (scores < high)
        share = relevant[band].mean() if band.any() else float("nan")
        print(f"score {low:.1f}..{min(high, 1):.1f}: {band.sum():5} files, {share:.2f} relevant")
    lost = (relevant & ~kept).sum() / relevant.sum()
    print(f"queries with a hit at 0.9 or more: {(scores >= 0.9)[related & first].mean():.2f}")
    print(f"relevant files lost to the floor: {lost:.3f}")
    print(f"unrelated queries with any result: {kept[~related & first].mean():.3f}")


if __name__ == "__main__":
    main()
