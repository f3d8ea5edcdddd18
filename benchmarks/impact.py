"""Does the impact of a change name the file that somebody forgot?

    python benchmarks/impact.py REPOSITORY...

Of each repository the last 200 commits count that are no merges and change 2 to 10 files, at least
one of which was there before. Each such file is left out in turn, and the impact of the others is
asked for: is the file among the first ten that it names? Beside it three lists of ten are asked for
the same:

- same folder: the files in the folders of the others, those that most commits touched first
- co-change: the files that changed together with the others most reliably, each share of commits
  added up
- references: the files that use what the others changed, the surest first

Nothing is known of the future: index and history (1,000 commits) are those of the commit's parent.
The states are read from git's objects, the oldest first, so each costs what differs from the one
before. The interval is that of the difference to the best of the other lists, in 2,000 samples of
the commits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.app.app import App
from codebase_mcp.changes.compare import Difference, Differences, find_differences
from codebase_mcp.changes.impact import MAX_COMMIT_PATHS, Change, assess
from codebase_mcp.changes.likely import folders_of
from codebase_mcp.database.transaction import Transaction
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.git_changes import changed_files, parents_of
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from own_server import own_folder

COMMITS, HISTORY = 200, 1_000
LEAST, MOST = 2, 10
FIRST = 10
SAMPLES = 2_000
LISTS = ("impact", "same folder", "co-change", "references")

_TOUCHED = """
SELECT c.paths
FROM commit_entry AS c
WHERE c.repository_id = %(repository_id)s AND NOT c.is_merge AND c.paths_total <= %(max_paths)s
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A change without one of its files, which the index of the state before it has.

    ``indexed`` are that index's files, ``commits`` what each earlier commit touched.
    """

    tx: Transaction
    repository_id: UUID
    change: Change
    left_out: str
    indexed: frozenset[str]
    commits: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether each list has the file that was left out of a commit among its first ten."""

    commit: str
    found: tuple[bool, ...]


def main() -> None:
    """Ask about every repository, and print a table."""
    parser = argparse.ArgumentParser(description="Does impact name what was left out?")
    parser.add_argument("repositories", nargs="+", type=Path, help="git directories")
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--json", type=argparse.FileType("w"), help="write each question here")
    options = parser.parse_args()
    with own_folder("bench-impact-") as folder:
        asyncio.run(measure(folder, options))


async def measure(folder: Path, options: argparse.Namespace) -> None:
    """Ask about every repository, and print a row of each and one of all."""
    settings = replace(Settings.load(), data_dir=folder / "data")
    print(f"| repository | commits | left out | {' | '.join(LISTS)} | better by |")
    print(f"|{'---|' * (len(LISTS) + 4)}", flush=True)
    every: list[Answer] = []
    async with await App.open(settings) as app:
        for source in options.repositories:
            name = (source.parent if source.name == "repo" else source).name
            asked = questions(app, source, folder / name, options.commits)
            answers = [await ask(question, options.json) async for question in asked]
            print(row(name, answers), flush=True)
            every += answers
    print(row("all", every))


async def ask(question: Question, file: TextIO | None) -> Answer:
    """What is named for a question, in four ways."""
    impact = await assess(question.tx, question.repository_id, question.change)
    paths = [one.file.path for one in question.change.differences.files]
    lists = (
        first_files(one.path for one in impact.places if one.path not in paths),
        first_files(neighbours(question, paths)),
        first_files(companions(question, paths)),
        first_files(one.path for one in impact.users),
    )
    if file is not None:
        asked = {"commit": question.change.label, "changed": paths, "left_out": question.left_out}
        file.write(json.dumps(asked | dict(zip(LISTS, lists, strict=True))) + "\n")
    return Answer(question.change.label, tuple(question.left_out in one for one in lists))


def neighbours(question: Question, paths: Collection[str]) -> list[str]:
    """The files in the same folders, those first that most commits touched."""
    folders = set(folders_of(paths))
    touched = Counter(path for touched in question.commits for path in touched)
    found = [one for one in question.indexed.difference(paths) if {*folders_of([one])} <= folders]
    return sorted(found, key=lambda one: (-touched[one], one))


def companions(question: Question, paths: Collection[str]) -> list[str]:
    """The files that changed together with some: by the share of the commits that touched each of
    these, all shares added up."""
    found: defaultdict[str, float] = defaultdict(float)
    for path in paths:
        commits = [touched for touched in question.commits if path in touched]
        for other in (other for touched in commits for other in touched):
            found[other] += 1 / len(commits)
    known = question.indexed.difference(paths)
    return sorted(known.intersection(found), key=lambda one: (-found[one], one))


def first_files(paths: Iterable[str]) -> list[str]:
    """The first ten different ones."""
    return list(dict.fromkeys(paths))[:FIRST]


def row(name: str, answers: Sequence[Answer]) -> str:
    """The share that each list found, and how much better the first is than the best other."""
    commits = dict.fromkeys(one.commit for one in answers)
    numbers = {commit: number for number, commit in enumerate(commits)}
    asked = np.zeros(len(numbers))
    found = np.zeros((len(numbers), len(LISTS)))
    for one in answers:
        asked[numbers[one.commit]] += 1
        found[numbers[one.commit]] += one.found
    shares = found.sum(axis=0) / max(asked.sum(), 1)
    best = 1 + int(shares[1:].argmax())
    low, high = interval(found[:, 0] - found[:, best], asked)
    cells = " | ".join(f"{share:.3f}" for share in shares)
    better = f"{shares[0] - shares[best]:+.3f} ({low:+.3f} to {high:+.3f})"
    return f"| {name} | {len(numbers)} | {len(answers)} | {cells} | {better} |"


def interval(gained: NDArray[np.float64], asked: NDArray[np.float64]) -> tuple[float, float]:
    """Of the share that was gained, within which 95 % of the samples lie."""
    if not len(asked):
        return 0.0, 0.0
    drawn = np.random.default_rng(1).integers(len(asked), size=(SAMPLES, len(asked)))
    shares = gained[drawn].sum(axis=1) / asked[drawn].sum(axis=1)
    low, high = np.percentile(shares, [2.5, 97.5])
    return float(low), float(high)


async def questions(app: App, source: Path, bare: Path, count: int) -> AsyncIterator[Question]:
    """The questions about a repository, each in an index of the state before."""
    git("clone", "-q", "--bare", "--shared", str(source), str(bare))
    repository = git_repository_at(bare)
    assert repository is not None
    project = "bench-" + "".join(c for c in bare.name.lower() if c.isalnum())
    for commit in suitable(repository, count):
        [base, *_] = parents_of(repository, commit)
        git("-C", str(bare), "update-ref", "--no-deref", "HEAD", base)
        report = await app.index(bare, project, history_depth=HISTORY)
        files = find_differences(repository, base, commit).files
        async with app.enter(project, readonly=True) as here:
            rows = await here.tx.fetch_all(
                "SELECT f.path FROM file AS f JOIN snapshot AS s ON s.id = f.snapshot_id"
                " WHERE s.active"
            )
            indexed = frozenset(path for (path,) in rows)
            repository_id = report.run.repository_id
            rows = await here.tx.fetch_all(
                _TOUCHED, repository_id=repository_id, max_paths=MAX_COMMIT_PATHS
            )
            commits = [touched for (touched,) in rows]
            for one in files:
                left_out = one.file.path
                if one.file.status == "changed" and left_out in indexed:
                    change = change_of(commit, [other for other in files if other is not one])
                    yield Question(here.tx, repository_id, change, left_out, indexed, commits)


def git(*arguments: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def suitable(repository: GitRepository, count: int) -> list[str]:
    """The last commits that count, the oldest first."""
    found: list[str] = []
    listed = git("-C", str(repository.root), "rev-list", "--no-merges", "--topo-order", "HEAD")
    for commit in listed.split():
        if parents := parents_of(repository, commit):
            files = changed_files(repository, parents[0], commit).files
            if LEAST <= len(files) <= MOST and any(one.status == "changed" for one in files):
                found.append(commit)
        if len(found) == count:
            break
    return found[::-1]


def change_of(commit: str, files: Sequence[Difference]) -> Change:
    """What a commit changed in some files, as if these were all."""
    return Change(commit, Differences(tuple(files), len(files), True, {}), commits=[commit])


if __name__ == "__main__":
    main()
