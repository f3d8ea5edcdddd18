"""What is the evidence for every candidate? One file of arrays, to fit weights on.

Signals are written by name, whichever there are. So weights can be fitted, and signals left out,
without a database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.model import FileKind
from codebase_mcp.search.ranking import Ranking
from quality_queries import EvalQuery, Repository
from quality_scoring import DEPTH, name_held, ndcg, reciprocal

Numbers = NDArray[np.float64]

# Which lists found a candidate, as bits of ``lists``.
BY_WORDS, BY_MEANING, BY_DEFINITION = 1, 2, 4

FACTS = (
    "score", "coverage", "best_words", "best_meaning", "body_sum", "comments_sum", "lists",
    "chunk_count", "kind",
)  # fmt: skip
_KINDS = tuple(FileKind)
_TEXTS = ("questions", "names", "paths")
_ARRAYS = ("starts", "path", "targets", "signals", "added", "score", "chunks")


@dataclass(frozen=True, slots=True)
class Dump:
    """The candidates of many questions, question by question, in the order of their ranking.

    ``questions`` describes each question (``wanted`` is its number of targets, ``evidence`` the
    fields of `QueryEvidence`); ``starts`` is where its candidates begin. For each candidate,
    ``targets`` are the targets that it meets, as bits; ``signals`` are without weights, ``added``
    is what each adds to ``score``, one column for each of ``names``; ``facts`` holds other values
    by name, among them evidence that is not divided by the best candidate's (``kind`` is a number
    in ``FileKind``'s order). ``chunks`` are what the lists found: candidate, ordinal, score by
    words, by meaning, by expansion.
    """

    questions: list[dict[str, Any]]
    names: tuple[str, ...]
    starts: NDArray[np.int64]
    paths: list[str]
    path: NDArray[np.int32]
    targets: NDArray[np.int64]
    signals: Numbers
    added: Numbers
    score: Numbers
    facts: Mapping[str, Numbers]
    chunks: Numbers

    @property
    def relevant(self) -> NDArray[np.bool_]:
        """Which candidates meet a target."""
        return np.not_equal(self.targets, 0)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], slice]]:
        """Each question with the slice of its candidates."""
        for number, question in enumerate(self.questions):
            yield question, slice(int(self.starts[number]), int(self.starts[number + 1]))

    def question_of(self) -> NDArray[np.int64]:
        """The number of each candidate's question."""
        return np.repeat(np.arange(len(self.questions)), np.diff(self.starts))

    def column(self, name: str) -> Numbers:
        """A signal, or another fact of the candidates."""
        return self.signals[:, self.names.index(name)] if name in self.names else self.facts[name]

    def where(self, wanted: Callable[[dict[str, Any]], bool]) -> list[int]:
        """The numbers of the questions that meet a condition."""
        return [number for number, question in enumerate(self.questions) if wanted(question)]

    def ranks(self, scores: Numbers, number: int) -> list[int | None]:
        """The ranks of a question's targets when its candidates are ordered by some scores."""
        at = slice(int(self.starts[number]), int(self.starts[number + 1]))
        # Candidates with equal scores keep the order of the ranking.
        met = self.targets[at][np.argsort(-scores[at], kind="stable")]
        found: list[int | None] = []
        for bit in range(self.questions[number]["wanted"]):
            places = np.flatnonzero(met >> bit & 1)
            found.append(int(places[0]) + 1 if len(places) else None)
        return found

    def value(self, scores: Numbers, number: int) -> float:
        """MRR@10 of an order for everyday and phrased questions, else NDCG@10 by file."""
        ranks = self.ranks(scores, number)
        if self.questions[number]["set"] in ("everyday", "phrased"):
            return reciprocal(ranks)
        return ndcg(ranks, len(ranks), DEPTH)


@dataclass(slots=True)
class Dumping:
    """Collects candidates, question by question."""

    questions: list[dict[str, Any]] = field(default_factory=list)
    _starts: list[int] = field(default_factory=lambda: [0])
    _paths: dict[str, int] = field(default_factory=dict)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _signals: list[dict[str, float]] = field(default_factory=list)
    _added: list[dict[str, float]] = field(default_factory=list)
    _chunks: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, repository: Repository, asked: EvalQuery, ranking: Ranking) -> None:
        """Add the candidates of one question."""
        for file in ranking.files:
            candidate, evidence = file.candidate, file.candidate.evidence
            lists = (
                BY_WORDS * bool(evidence.words)
                | BY_MEANING * bool(evidence.meaning)
                | BY_DEFINITION * bool(evidence.definitions)
            )
            scores = evidence.words, evidence.meaning, evidence.expansion
            self._chunks += [
                (len(self._rows), n, *(of_list.get(n, 0.0) for of_list in scores))
                for n in sorted(set().union(*scores))
            ]
            self._rows.append(
                {
                    "path": self._paths.setdefault(candidate.path, len(self._paths)),
                    "targets": sum(
                        1 << bit
                        for bit, target in enumerate(asked.targets)
                        if candidate.path in target.files
                    ),
                    "score": file.score,
                    "coverage": file.coverage,
                    "best_words": evidence.best_words,
                    "best_meaning": evidence.best_meaning,
                    "body_sum": evidence.body,
                    "comments_sum": evidence.comments,
                    "lists": lists,
                    "chunk_count": evidence.chunk_count,
                    "kind": _KINDS.index(candidate.kind),
                }
            )
            self._signals.append(file.signals)
            self._added.append(file.weighted())
        self._starts.append(len(self._rows))
        self.questions.append(
            _facts_of(repository, asked)
            | {
                "evidence": asdict(ranking.evidence),
                "least_meaning": ranking.candidates.least_meaning,
                "frequency": dict(ranking.candidates.frequency),
            }
        )

    def dump(self) -> Dump:
        """All that was collected."""
        names = tuple(dict.fromkeys(name for signals in self._signals for name in signals))
        columns = {
            name: np.array([row[name] for row in self._rows], dtype=np.float64) for name in FACTS
        }
        return Dump(
            questions=self.questions,
            names=names,
            paths=list(self._paths),
            starts=np.array(self._starts),
            path=np.array([row["path"] for row in self._rows], dtype=np.int32),
            targets=np.array([row["targets"] for row in self._rows], dtype=np.int64),
            signals=_table(self._signals, names),
            added=_table(self._added, names),
            chunks=np.array(self._chunks, dtype=np.float64).reshape(-1, 5),
            score=columns.pop("score"),
            facts=columns,
        )


def joined(dumps: Sequence[Dump]) -> Dump:
    """Several dumps as one."""
    first, *others = dumps
    for other in others:
        candidates = len(first.score)
        first = Dump(
            questions=first.questions + other.questions,
            names=first.names,
            starts=np.append(first.starts, other.starts[1:] + candidates),
            paths=first.paths + other.paths,
            path=np.append(first.path, other.path + len(first.paths)),
            targets=np.append(first.targets, other.targets),
            signals=np.vstack([first.signals, other.signals]),
            added=np.vstack([first.added, other.added]),
            score=np.append(first.score, other.score),
            facts={name: np.append(first.facts[name], other.facts[name]) for name in first.facts},
            chunks=np.vstack([first.chunks, other.chunks + np.array([candidates, 0, 0, 0, 0])]),
        )
    return first


def write_dump(dump: Dump, path: Path) -> None:
    """Write a compressed numpy file; everything but arrays is in it as JSON."""
    arrays: dict[str, Any] = {
        **{name: getattr(dump, name) for name in _ARRAYS},
        **{name: np.array(json.dumps(getattr(dump, name))) for name in _TEXTS},
        **dump.facts,
    }
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def read_dump(path: Path) -> Dump:
    """Read what `write_dump` wrote."""
    with np.load(path) as stored:
        arrays: dict[str, Any] = dict(stored)
    questions, names, paths = (json.loads(str(arrays.pop(name))) for name in _TEXTS)
    taken = {name: arrays.pop(name) for name in _ARRAYS}
    return Dump(questions=questions, names=tuple(names), paths=paths, facts=arrays, **taken)


def _facts_of(repository: Repository, asked: EvalQuery) -> dict[str, Any]:
    return {
        "set": asked.set,
        "form": asked.form,
        "repository": repository.name,
        "language": repository.language,
        "category": asked.category,
        "split": asked.split,
        "query": asked.text,
        "original": asked.original,
        "held": name_held(asked.text, [target.path for target in asked.targets]),
        "wanted": len(asked.targets),
    }


def _table(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> Numbers:
    table = [[row.get(name, 0.0) for name in names] for row in rows]
    return np.array(table, dtype=np.float64).reshape(len(rows), len(names))
