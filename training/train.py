"""How must the rows change so that a question lies near the code that answers it?

Starts from ``distil.py``'s table. Two kinds of batches, both a softmax over the similarities of
every question to every piece of code in the batch:

- mined: the words of a pair should find their own code among the batch's, a part of which comes
  from the same package (the harder neighbours);
- taught: questions and code should be as alike as the transformer finds them, for pairs and for
  everyday phrases, which have no code of their own.

Several tables are trained from the same start and averaged.

    python training/train.py --start build/distilled --pairs build/pairs.jsonl \\
        --taught build/taught.npz --out src/codebase_mcp/embedding/builtin
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from tokenizers import Tokenizer

import corpus
import modelfile
from bags import Bags
from corpus import Corpus
from distil import TEACHER_NAME
from everyday import phrases

Floats = NDArray[np.float32]

OPENINGS = (
    "how does the", "where is the code that", "find the function which", "how are", "how do we",
    "what happens when", "where do we", "which part", "code for", "how to", "show me the",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recipe:
    """What can be tried; the defaults are what was kept."""

    steps: int = 500
    batch: int = 1024
    run: int = 64  # pairs of one package in a row
    rate: float = 0.02
    temperature: float = 0.05
    teacher_temperature: float = 0.05
    teacher_share: float = 0.6  # of the loss; 0: mined pairs alone
    own_share: float = 0.3  # of a taught pair's target that is its own code
    phrases: int = 192  # everyday phrases in a taught batch
    drop_words: float = 0.1
    drop_code: float = 0.25
    opened: float = 1 / 6  # questions that get an opening
    joined: float = 0.3  # code that is joined to its neighbour, as chunks hold several things


@dataclass(frozen=True, slots=True)
class Taught:
    """The teacher's unit vectors: of some pairs (rows of the corpus), and of everyday phrases."""

    rows: NDArray[np.int64]
    words: Floats
    code: Floats
    phrases: csr_matrix
    phrase_vectors: Floats


class Adam:
    """Adam over the rows that a step touched; the others keep their moments until their turn."""

    def __init__(self, table: Floats) -> None:
        self.table = table
        self._first = np.zeros_like(table)
        self._second = np.zeros_like(table)
        self._times = np.zeros(len(table), np.int32)

    def step(self, rows: NDArray[np.int64], gradient: Floats, rate: float) -> None:
        """Move ``rows`` against ``gradient`` [rows, d]."""
        first = self._first[rows] * 0.9 + 0.1 * gradient
        second = self._second[rows] * 0.999 + 0.001 * np.square(gradient)
        self._times[rows] += 1
        times = self._times[rows, None].astype(np.float32)
        self._first[rows], self._second[rows] = first, second
        size = np.sqrt(second / (1 - 0.999**times)) + 1e-8
        self.table[rows] -= rate * (first / (1 - 0.9**times)) / size


def softmax(scores: Floats) -> Floats:
    """Over the last axis."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True), np.float32)


def dropped(bags: csr_matrix, share: float, rng: np.random.Generator) -> csr_matrix:
    """The bags with a random share of their entries set to nothing."""
    kept = rng.random(len(bags.data), np.float32) >= share
    return csr_matrix((bags.data * kept, bags.indices, bags.indptr), shape=bags.shape)


def forward(bags: csr_matrix, table: Floats) -> tuple[Floats, Floats]:
    """Unit vectors of the bags and the lengths they had."""
    summed = bags @ table
    lengths = np.maximum(np.linalg.norm(summed, axis=1, keepdims=True), 1e-6)
    return summed / lengths, lengths


def back(bags: csr_matrix, units: Floats, lengths: Floats, slope: Floats) -> Floats:
    """The gradient by the table, [pieces, d], from the gradient by the unit vectors."""
    slope = slope - units * np.sum(units * slope, axis=1, keepdims=True)
    return np.asarray(bags.T @ (slope / lengths), np.float32)


class Trainer:
    """One table on its way."""

    def __init__(
        self,
        start: Floats,
        data: Corpus,
        taught: Taught | None,
        openings: csr_matrix,
        recipe: Recipe,
        seed: int,
    ) -> None:
        self._adam = Adam(start.copy())
        self._data, self._taught, self._recipe = data, taught, recipe
        self._openings = openings
        self._rng = np.random.default_rng(seed)
        self._first_of, self._size_of = self._packages()

    def _packages(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Runs of rows with one package and language: where each begins, how long it is."""
        both = self._data.package * 1000 + self._data.language
        starts = np.flatnonzero(np.diff(both, prepend=-1))
        return starts, np.diff(starts, append=len(both))

    def _mined_rows(self) -> NDArray[np.int64]:
        share = np.sqrt(self._size_of)
        share /= share.sum()
        runs = self._rng.choice(len(share), self._recipe.batch // self._recipe.run, p=share)
        rows = [
            self._first_of[r] + self._rng.integers(0, self._size_of[r], self._recipe.run)
            for r in runs
        ]
        return np.unique(np.concatenate(rows))

    def _questions(self, rows: NDArray[np.int64]) -> csr_matrix:
        picked = self._rng.integers(1, self._openings.shape[0], len(rows))
        picked[self._rng.random(len(rows)) >= self._recipe.opened] = 0
        bags = dropped(self._data.words[rows], self._recipe.drop_words, self._rng)
        return (bags + self._openings[picked]).tocsr()

    def _code(self, rows: NDArray[np.int64]) -> csr_matrix:
        bags = dropped(self._data.code[rows], self._recipe.drop_code, self._rng)
        beside = self._data.code[np.minimum(rows + 1, len(self._data) - 1)]
        joined = (self._rng.random(len(rows)) < self._recipe.joined).astype(np.float32)
        beside = beside.multiply(joined[:, None]).tocsr()
        # Counts add, and a bag holds their square roots.
        return (bags.multiply(bags) + beside.multiply(beside)).sqrt().tocsr()

    def _learn(
        self,
        questions: csr_matrix,
        code: csr_matrix,
        target: Floats,
        across: Floats,
        hidden: Floats,
    ) -> tuple[Floats, float]:
        """Gradient by the table, and loss.

        ``target`` [questions, code] says where each question should go; ``across`` [code, pairs]
        where each piece of code should, among the first questions, which are the pairs' own;
        ``hidden`` is added to the scores.
        """
        table, heat = self._adam.table, self._recipe.temperature
        asked, asked_lengths = forward(questions, table)
        given, given_lengths = forward(code, table)
        scores = asked @ given.T / heat + hidden
        pairs = across.shape[1]
        along, down = softmax(scores), softmax(np.ascontiguousarray(scores[:pairs].T))
        slope = (along - target) / (2 * len(target))
        slope[:pairs] += (down - across).T / (2 * pairs)
        loss = -float(np.sum(target * np.log(along + 1e-9)) / len(target))
        gradient = back(questions, asked, asked_lengths, slope @ given / heat)
        gradient += back(code, given, given_lengths, slope.T @ asked / heat)
        return gradient, loss

    def mined(self) -> tuple[Floats, float]:
        """One batch of pairs whose words should find their own code."""
        rows = self._mined_rows()
        keys = self._data.words_key[rows]
        same = keys[:, None] == keys[None, :]
        np.fill_diagonal(same, False)
        own = np.eye(len(rows), dtype=np.float32)
        hidden = np.where(same, np.float32(-1e4), np.float32(0))
        return self._learn(self._questions(rows), self._code(rows), own, own, hidden)

    def taught(self, taught: Taught) -> tuple[Floats, float]:
        """One batch of pairs and phrases that should be as alike as the teacher finds them."""
        recipe, rng = self._recipe, self._rng
        picked = rng.choice(len(taught.rows), recipe.batch, replace=False)
        rows = taught.rows[picked]
        code = dropped(self._data.code[rows], recipe.drop_code, rng)
        heat = recipe.teacher_temperature
        alike = taught.words[picked] @ taught.code[picked].T / heat
        own = np.eye(len(rows), dtype=np.float32) * recipe.own_share
        target = softmax(alike) * (1 - recipe.own_share) + own
        across = softmax(np.ascontiguousarray(alike.T)) * (1 - recipe.own_share) + own
        questions = self._questions(rows)
        if recipe.phrases and taught.phrases.shape[0]:
            chosen = rng.integers(0, taught.phrases.shape[0], recipe.phrases)
            questions = vstack([questions, taught.phrases[chosen]]).tocsr()
            by_teacher = taught.phrase_vectors[chosen] @ taught.code[picked].T / heat
            target = np.concatenate([target, softmax(by_teacher)])
        return self._learn(questions, code, target, across, np.zeros((1, 1), np.float32))

    def run(self) -> Floats:
        """All steps; the trained table."""
        recipe = self._recipe
        for step in range(recipe.steps):
            rate = recipe.rate * (1 - step / recipe.steps)
            gradient, loss = self.mined()
            heard = 0.0
            if self._taught and recipe.teacher_share:
                lesson, heard = self.taught(self._taught)
                gradient = gradient * (1 - recipe.teacher_share) + lesson * recipe.teacher_share
            touched = np.flatnonzero(gradient.any(axis=1))
            self._adam.step(touched, gradient[touched], rate)
            if step % 50 == 0:
                print(f"step {step}: mined {loss:.3f}, taught {heard:.3f}", flush=True)
        return self._adam.table


def load_taught(path: Path, data: Corpus, bags: Bags, said: list[str]) -> Taught:
    """What ``teach.py`` wrote, joined to the corpus by line number."""
    stored = np.load(path)
    return Taught(
        rows=np.searchsorted(data.line, stored["rows"]),
        words=stored["words"].astype(np.float32),
        code=stored["code"].astype(np.float32),
        phrases=bags.matrix(said),
        phrase_vectors=stored["phrases"].astype(np.float32),
    )


def load_start(folder: Path) -> tuple[Floats, Bags, Tokenizer]:
    """The table to start from, scaled to RMS 1 so that the rate means the same for any start."""
    table, tokenizer = modelfile.read(folder)
    return table / np.sqrt(np.mean(np.square(table))), Bags(tokenizer), tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", type=Path, required=True, help="what distil.py wrote")
    parser.add_argument("--pairs", type=Path, required=True, help="what mine.py wrote")
    parser.add_argument("--taught", type=Path, required=True, help="what teach.py wrote")
    parser.add_argument("--phrases", type=Path, default=Path(__file__).parent / "everyday.json")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the counted pairs")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--tables", type=int, default=3, help="trained apart and averaged")
    args = parser.parse_args()
    start, bags, tokenizer = load_start(args.start)
    data = corpus.load(args.pairs, bags, np.load(args.taught)["rows"], args.cache)
    taught = load_taught(args.taught, data, bags, phrases(args.phrases))
    openings = bags.matrix(["", *OPENINGS])
    tables = [
        Trainer(start, data, taught, openings, Recipe(), seed).run() for seed in range(args.tables)
    ]
    modelfile.write(args.out, np.mean(tables, axis=0), tokenizer, TEACHER_NAME)


if __name__ == "__main__":
    main()
