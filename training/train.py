"""How must the rows change so that a question lies near the code that answers it?

Starts from ``distil.py``'s table. Two kinds of batches, both a softmax over the similarities of
every question to every piece of code in the batch:

- mined: the words of a pair should find their own code among the batch's, a part of which comes
  from the same package (the harder neighbours);
- taught: questions and code should be as alike as the transformer finds them: pairs, by what it
  makes of their comments and code; concepts and snippets with the everyday questions written for
  them; and everyday phrases, which have no code of their own.

Several tables are trained from the same start and averaged.

    python training/train.py --start build/distilled --pairs build/pairs.jsonl \\
        --taught build/taught.npz --everyday build/everyday.npz --cache build/corpus \\
        --out src/codebase_mcp/embedding/builtin
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from tokenizers import Tokenizer

import corpus
import modelfile
from bags import Bags
from codebase_mcp.embedding.embedder import unit_rows
from corpus import Corpus
from everyday import HERE, Item, items, phrases
from teacher import NAME as TEACHER_NAME

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
    teacher_share: float = 0.75  # of the loss; 0: mined pairs alone
    comment_share: float = 0.5  # of a taught code's vector that is its comment's
    own_share: float = 0.3  # of a taught pair's target that is its own code
    items: int = 768  # concepts and snippets in a taught batch
    own_share_of_item: float = 0.6
    said_for_code: float = 0.15  # of the items, whose code is another phrase for the same
    phrases: int = 128  # everyday phrases in a taught batch
    drop_words: float = 0.1
    drop_code: float = 0.25
    opened: float = 1 / 6  # questions that get an opening
    joined: float = 0.3  # code that is joined to its neighbour, as chunks hold several things


@dataclass(frozen=True, slots=True)
class Taught:
    """The teacher's unit vectors of some pairs (rows of the corpus) and everyday phrases.

    ``code`` is what it makes of a pair's comment and code together.
    """

    rows: NDArray[np.int64]
    words: Floats
    code: Floats
    phrases: csr_matrix
    phrase_vectors: Floats


@dataclass(frozen=True, slots=True)
class Everyday:
    """Concepts and snippets: ``said`` [phrases, pieces] with ``owner``, the item of each phrase, in
    order; ``parts`` [identifiers or snippets, pieces] hold counts, ``has`` [items, parts] says
    whose they are; the teacher's vectors of phrases and of items.
    """

    said: csr_matrix
    first_said: NDArray[np.int64]
    times_said: NDArray[np.int64]
    parts: csr_matrix
    has: csr_matrix
    said_vectors: Floats
    item_vectors: Floats

    def __len__(self) -> int:
        return len(self.first_said)


@dataclass(frozen=True, slots=True)
class Lessons:
    """All that tables are trained from."""

    start: Floats
    tokenizer: Tokenizer
    data: Corpus
    taught: Taught
    everyday: Everyday
    openings: csr_matrix


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

    def __init__(self, lessons: Lessons, recipe: Recipe, seed: int) -> None:
        self._adam = Adam(lessons.start.copy())
        self._data, self._taught, self._everyday = lessons.data, lessons.taught, lessons.everyday
        self._openings = lessons.openings
        self._recipe = recipe
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

    def _questions(self, bags: csr_matrix) -> csr_matrix:
        """Some words dropped, some openings put in front."""
        picked = self._rng.integers(1, self._openings.shape[0], bags.shape[0])
        picked[self._rng.random(len(picked)) >= self._recipe.opened] = 0
        return (dropped(bags, self._recipe.drop_words, self._rng) + self._openings[picked]).tocsr()

    def _code(self, rows: NDArray[np.int64]) -> csr_matrix:
        bags = dropped(self._data.code[rows], self._recipe.drop_code, self._rng)
        beside = self._data.code[np.minimum(rows + 1, len(self._data) - 1)]
        return self._joined(bags, beside)

    def _joined(self, bags: csr_matrix, beside: csr_matrix) -> csr_matrix:
        """Some of the bags with the one beside them; counts add, and bags hold their roots."""
        joined = (self._rng.random(bags.shape[0]) < self._recipe.joined).astype(np.float32)
        beside = beside.multiply(joined[:, None]).tocsr()
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
        slope: Floats = (along - target) / np.float32(2 * len(target))
        slope[:pairs] += (down - across).T / np.float32(2 * pairs)
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
        questions = self._questions(self._data.words[rows])
        return self._learn(questions, self._code(rows), own, own, hidden)

    def _items(self) -> tuple[csr_matrix, csr_matrix, Floats, Floats]:
        """Some concepts and snippets: a phrase for each, its code, and the teacher's vectors."""
        recipe, rng, everyday = self._recipe, self._rng, self._everyday
        rows = rng.choice(len(everyday), min(recipe.items, len(everyday)), replace=False)
        times = everyday.times_said[rows]
        at = rng.integers(0, times)
        picked = everyday.first_said[rows] + at
        other = everyday.first_said[rows] + (at + rng.integers(1, np.maximum(times, 2))) % times
        # A concept is never there with all its identifiers; a snippet is one part and stays.
        has = everyday.has[rows]
        of_part = np.diff(has.indptr)
        kept_share = np.repeat(np.where(of_part == 1, 1, rng.uniform(0.2, 0.9, len(rows))), of_part)
        has.data = (rng.random(len(has.data)) < kept_share).astype(np.float32)
        code = dropped((has @ everyday.parts).sqrt().tocsr(), recipe.drop_code, rng)
        code = self._joined(code, self._data.code[rng.integers(0, len(self._data), len(rows))])
        as_said = rng.random(len(rows)) < recipe.said_for_code
        keep = (~as_said).astype(np.float32)[:, None]
        code = code.multiply(keep) + everyday.said[other].multiply(1 - keep)
        questions = self._questions(everyday.said[picked])
        return questions, code.tocsr(), everyday.said_vectors[picked], everyday.item_vectors[rows]

    def taught(self) -> tuple[Floats, float]:
        """One batch of pairs, items and phrases: as alike as the teacher finds them."""
        recipe, rng, taught = self._recipe, self._rng, self._taught
        picked = rng.choice(len(taught.rows), recipe.batch, replace=False)
        rows = taught.rows[picked]
        code = dropped(self._data.code[rows], recipe.drop_code, rng)
        questions = self._questions(self._data.words[rows])
        asked, given = taught.words[picked], taught.code[picked]
        own_share = np.full(len(rows), recipe.own_share, np.float32)
        if recipe.items:
            more = self._items()
            questions, code = vstack([questions, more[0]]), vstack([code, more[1]]).tocsr()
            asked, given = np.concatenate([asked, more[2]]), np.concatenate([given, more[3]])
            own_share = np.append(own_share, np.full(len(more[2]), recipe.own_share_of_item))
        alike = asked @ given.T / recipe.teacher_temperature
        own = np.diag(own_share).astype(np.float32)
        rest = (1 - own_share)[:, None].astype(np.float32)
        target = softmax(alike) * rest + own
        across = softmax(np.ascontiguousarray(alike.T)) * rest + own
        if recipe.phrases:
            chosen = rng.integers(0, taught.phrases.shape[0], recipe.phrases)
            questions = vstack([questions, taught.phrases[chosen]])
            by_teacher = taught.phrase_vectors[chosen] @ given.T / recipe.teacher_temperature
            target = np.concatenate([target, softmax(by_teacher)])
        none = np.zeros((1, 1), np.float32)
        return self._learn(questions.tocsr(), code, target, across, none)

    def run(self) -> Floats:
        """All steps; the trained table."""
        recipe = self._recipe
        for step in range(recipe.steps):
            rate = recipe.rate * (1 - step / recipe.steps)
            gradient, loss = self.mined()
            taught_loss = 0.0
            if recipe.teacher_share:
                lesson, taught_loss = self.taught()
                gradient = gradient * (1 - recipe.teacher_share) + lesson * recipe.teacher_share
            touched = np.flatnonzero(gradient.any(axis=1))
            self._adam.step(touched, gradient[touched], rate)
            if step % 50 == 0:
                print(f"step {step}: mined {loss:.3f}, taught {taught_loss:.3f}", flush=True)
        return self._adam.table


def load_taught(
    path: Path, data: Corpus, bags: Bags, said: list[str], vectors: Floats, comment_share: float
) -> Taught:
    """What ``teach.py`` wrote, joined to the corpus by line number."""
    stored = np.load(path)
    lines, words = stored["rows"], stored["words"].astype(np.float32)
    code = words.copy()
    at = np.searchsorted(lines, stored["coded"])
    code[at] = words[at] * comment_share + stored["code"] * (1 - comment_share)
    return Taught(
        rows=np.searchsorted(data.line, lines),
        words=words,
        code=unit_rows(code),
        phrases=bags.matrix(said),
        phrase_vectors=vectors,
    )


def load_everyday(found: list[Item], bags: Bags, vector_of: dict[str, Floats]) -> Everyday:
    """Concepts and snippets as bags, with the teacher's vectors."""
    times = np.asarray([len(item.phrases) for item in found])
    parts = [part for item in found for part in item.code]
    of_item = np.asarray([len(item.code) for item in found])
    starts = np.append(0, np.cumsum(of_item))
    has = csr_matrix(
        (np.ones(len(parts), np.float32), np.arange(len(parts)), starts),
        shape=(len(found), len(parts)),
    )
    roots = bags.matrix(parts)
    item_sums = [
        np.mean([vector_of[p] for p in (*item.phrases, item.comment) if p], axis=0)
        + 0.5 * vector_of[" ".join(item.code)]
        for item in found
    ]
    phrases = [phrase for item in found for phrase in item.phrases]
    return Everyday(
        said=bags.matrix(phrases),
        first_said=np.cumsum(times) - times,
        times_said=times,
        parts=roots.multiply(roots).tocsr(),
        has=has,
        said_vectors=np.stack([vector_of[p] for p in phrases]),
        item_vectors=unit_rows(np.stack(item_sums)),
    )


def load_start(folder: Path) -> tuple[Floats, Bags, Tokenizer]:
    """The table to start from, scaled to RMS 1 so that the rate means the same for any start."""
    table, tokenizer = modelfile.read(folder)
    return table / np.sqrt(np.mean(np.square(table))), Bags(tokenizer), tokenizer


def load_lessons(args: argparse.Namespace, recipe: Recipe) -> Lessons:
    """Read, count and join everything; counted pairs come from the cache if they are there."""
    start, bags, tokenizer = load_start(args.start)
    data = corpus.load(args.pairs, bags, np.load(args.taught)["rows"], args.cache)
    stored = np.load(args.everyday)
    vectors = stored["vectors"].astype(np.float32)
    vector_of = dict(zip(json.loads(str(stored["texts"])), vectors, strict=True))
    said = phrases(args.texts / "everyday.json")
    found = items(args.texts, args.pairs)
    known = [i for i in found if {*i.phrases, i.comment, " ".join(i.code)} <= vector_of.keys()]
    if len(known) < len(found):
        print(f"{len(found) - len(known)} items were written after teach_everyday.py ran")
    phrase_vectors = np.stack([vector_of[phrase] for phrase in said])
    return Lessons(
        start=start,
        tokenizer=tokenizer,
        data=data,
        taught=load_taught(args.taught, data, bags, said, phrase_vectors, recipe.comment_share),
        everyday=load_everyday(known, bags, vector_of),
        openings=bags.matrix(["", *OPENINGS]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", type=Path, required=True, help="what distil.py wrote")
    parser.add_argument("--pairs", type=Path, required=True, help="what mine.py wrote")
    parser.add_argument("--taught", type=Path, required=True, help="what teach.py wrote")
    parser.add_argument("--everyday", type=Path, required=True, help="teach_everyday.py's")
    parser.add_argument("--texts", type=Path, default=HERE, help="everyday.json, concepts/, ...")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the counted pairs")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--tables", type=int, default=3, help="trained apart and averaged")
    args = parser.parse_args()
    recipe = Recipe()
    lessons = load_lessons(args, recipe)
    tables = [Trainer(lessons, recipe, seed).run() for seed in range(args.tables)]
    modelfile.write(args.out, np.mean(tables, axis=0), lessons.tokenizer, TEACHER_NAME)


if __name__ == "__main__":
    main()
