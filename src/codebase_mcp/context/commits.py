"""Which files did commits change that resemble the task, or that changed given files? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codebase_mcp.changes.likely import History
from codebase_mcp.context.features import Features, Seed
from codebase_mcp.search.scope import ScopedSnapshot

# The number of commits after which a commit counts half.
_HALF_LIFE = 400

# A commit that is less like the task says nothing.
_LEAST_LIKENESS = 0.15
_MOST_LIKE = 60

# As a reason a commit is told that resembles the task clearly, and did not change very much.
_LEAST_TOLD, _MOST_TOLD = 0.35, 12
_SUBJECT_CHARS = 40


@dataclass(frozen=True, slots=True)
class PastCommit:
    """A commit of the stored history: ``age`` commits before the state that is asked.

    ``likeness`` is how much it resembles the task: its share of the task's words, and how near it
    is in meaning, both from 0 to 1.
    """

    hash: str
    subject: str
    paths: Sequence[str]
    age: int
    likeness: float = 0.0


def add_commits(
    features: Features, snapshot: ScopedSnapshot, commits: Sequence[PastCommit]
) -> None:
    """What commits that resemble the task changed, and what changes often, and lately."""
    votes: defaultdict[int, float] = defaultdict(float)
    alike = sorted(commits, key=lambda commit: -commit.likeness)[:_MOST_LIKE]
    for commit in alike:
        if commit.likeness < _LEAST_LIKENESS:
            break
        vote = commit.likeness**2 * 0.5 ** (commit.age / _HALF_LIFE) / len(commit.paths) ** 0.5
        for path in commit.paths:
            if (row := features.rows.get((snapshot.id, path))) is not None:
                votes[row] += vote
                reason = f"past commit {commit.hash[:7]} '{_short(commit.subject)}' changed it"
                is_told = len(commit.paths) <= _MOST_TOLD and commit.likeness >= _LEAST_TOLD
                features.put("best_commit", row, commit.likeness / len(commit.paths) ** 0.5,
                             reason if is_told else "", 0.8 * commit.likeness)  # fmt: skip
    for row, vote in votes.items():
        features.put("commits", row, vote)
    changes = [
        (row, commit.age)
        for commit in commits
        for path in commit.paths
        if (row := features.rows.get((snapshot.id, path))) is not None
    ]
    if changes:
        rows, ages = np.array(changes).T
        weights = 0.5 ** (ages / _HALF_LIFE)
        total = sum(0.5 ** (commit.age / _HALF_LIFE) for commit in commits)
        changed, numbers = np.unique(rows, return_inverse=True)
        features.put_all("churn", changed, np.bincount(numbers, weights) / total)
        features.put_all("recent", rows, 1 / (1 + ages / 10))


def add_together(
    features: Features,
    snapshot: ScopedSnapshot,
    commits: Sequence[PastCommit],
    seeds: Sequence[Seed],
    name: str,
) -> None:
    """What changed together with some files; ``name`` is that of the columns."""
    changed = {
        features.files[seed.row].path: seed.weight
        for seed in seeds
        if features.files[seed.row].snapshot.id == snapshot.id
    }
    if not changed:
        return
    history = History(changed, [commit.paths for commit in commits])
    for path in history.paths(0):
        row = features.rows.get((snapshot.id, path))
        if row is None or path in changed:
            continue
        features.put(f"likely_{name}", row, history.likelihood(path))
        if pair := history.together(path):
            share = pair.support / (pair.commits + 4) * changed[pair.changed_file]
            reason = (f"changed with {pair.changed_file} in {pair.support} of"
                      f" {pair.commits} commits")  # fmt: skip
            told = reason if pair.support > 1 else ""
            features.put(f"together_{name}", row, share, told, 1.5 * share)


def likeness(words: float, whole: float, nearness: float) -> float:
    """How much a commit resembles a task, by its BM25 score out of ``whole``, and its cosine."""
    share = min(max(words, 0.0) / (whole or 1.0), 1.0)
    return (share + max(nearness, 0.0)) / 2


def _short(subject: str) -> str:
    return subject if len(subject) <= _SUBJECT_CHARS else subject[: _SUBJECT_CHARS - 1] + "…"
