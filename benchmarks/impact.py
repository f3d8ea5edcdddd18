"""Does the impact of a change name the file that somebody forgot?

    python benchmarks/impact.py REPOSITORY...

Of each repository the last 200 commits count that are no merges and change 2 to 10 files that were
there before. Each such file is left out in turn, and the impact of the others is asked for: is the
file among the first ten that it names? Beside it three lists of ten are asked for the same:

- same folder: the files in the folders of the others, those that most commits touched first
- co-change: the files that changed together with the others most reliably
- references: the files that use what the others changed, the surest first

Nothing is known of the future: for every 20 commits, oldest first, the parent of the first of them
is checked out and indexed, with the 1,000 commits before it as history.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from codebase_mcp.app.app import App
from codebase_mcp.changes.compare import Difference, Differences
from codebase_mcp.changes.impact import Change, assess
from codebase_mcp.changes.symbols import compare_symbols
from codebase_mcp.changes.texts import read_texts
from codebase_mcp.database.transaction import Transaction
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.classify import kind_of
from codebase_mcp.source.git_changes import FileChange, changed_files, parents_of
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from own_server import own_folder

COMMITS, EVERY, HISTORY = 200, 20, 1_000
LEAST, MOST = 2, 10
FIRST = 10

_NEIGHBOURS = """
SELECT f.path
FROM file AS f
JOIN snapshot AS s ON s.id = f.snapshot_id AND s.active AND s.repository_id = %(repository_id)s
WHERE regexp_replace(f.path, '[^/]*$', '') = ANY(%(folders)s) AND f.path <> ALL(%(paths)s)
ORDER BY (SELECT count(*) FROM commit_entry AS c
          WHERE c.repository_id = %(repository_id)s AND c.paths @> ARRAY[f.path]) DESC, f.path
LIMIT 10
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A change without one of its files, which the index of the state before it has."""

    tx: Transaction
    repository_id: UUID
    change: Change
    left_out: str


@dataclass(slots=True)
class Score:
    """How many files were asked for, and how many each list named among its first ten."""

    commits: set[str] = field(default_factory=set)
    asked: int = 0
    found: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, question: Question, lists: dict[str, list[str]]) -> None:
        """Count a question."""
        self.asked += 1
        self.commits.add(question.change.label)
        for name, paths in lists.items():
            self.found[name] += question.left_out in first_files(paths)


def first_files(paths: Iterable[str]) -> list[str]:
    """The first ten different ones."""
    return list(dict.fromkeys(paths))[:FIRST]


def main() -> None:
    """Ask about every repository, and print a table."""
    parser = argparse.ArgumentParser(description="Does impact name what was left out?")
    parser.add_argument("repositories", nargs="+", type=Path, help="git directories")
    parser.add_argument("--commits", type=int, default=COMMITS)
    options = parser.parse_args()
    with own_folder("bench-impact-") as folder:
        asyncio.run(measure(folder, options))


async def measure(folder: Path, options: argparse.Namespace) -> None:
    """Ask about every repository, and print a row of each."""
    settings = replace(Settings.load(), data_dir=folder / "data")
    names = ["impact", "same folder", "co-change", "references"]
    print(f"| repository | commits | left out | {' | '.join(names)} |\n|{'---|' * 7}", flush=True)
    async with await App.open(settings) as app:
        for source in options.repositories:
            score = Score()
            async for question in questions(app, source, folder / "tree", options.commits):
                score.add(question, await lists_of(question))
            shares = " | ".join(f"{score.found[one] / max(score.asked, 1):.3f}" for one in names)
            name = (source.parent if source.name == "repo" else source).name
            print(f"| {name} | {len(score.commits)} | {score.asked} | {shares} |", flush=True)


async def lists_of(question: Question) -> dict[str, list[str]]:
    """What is named for a question, in four ways."""
    impact = await assess(question.tx, question.repository_id, question.change)
    paths = [one.file.path for one in question.change.differences.files]
    rows = await question.tx.fetch_all(
        _NEIGHBOURS,
        repository_id=question.repository_id,
        folders=list({path[: path.rfind("/") + 1] for path in paths}),
        paths=paths,
    )
    return {
        "impact": [one.path for one in impact.places if one.path not in paths],
        "same folder": [path for (path,) in rows],
        "co-change": [one.path for one in impact.companions],
        "references": [one.path for one in impact.users],
    }


async def questions(app: App, source: Path, tree: Path, count: int) -> AsyncIterator[Question]:
    """The questions about a repository, each in an index of the state before."""
    await asyncio.to_thread(clone, source, tree)
    repository = git_repository_at(tree)
    assert repository is not None
    project = "bench-" + "".join(c for c in source.parent.name.lower() if c.isalnum())
    commits = suitable(repository, count)
    for first in range(0, len(commits), EVERY):
        block = commits[first : first + EVERY]
        [base, *_] = parents_of(repository, block[0][0])
        await asyncio.to_thread(git, tree, "checkout", "-q", "--force", "--detach", base)
        report = await app.index(tree, project, history_depth=HISTORY)
        async with app.enter(project, readonly=True) as here:
            rows = await here.tx.fetch_all(
                "SELECT f.path FROM file AS f JOIN snapshot AS s ON s.id = f.snapshot_id"
                " WHERE s.active"
            )
            indexed = {path for (path,) in rows}
            for commit, files in block:
                for one in files:
                    if one.status == "changed" and one.path in indexed:
                        others = [other for other in files if other is not one]
                        change = change_of(repository, commit, others)
                        yield Question(here.tx, report.run.repository_id, change, one.path)


def clone(source: Path, tree: Path) -> None:
    """A clone without files, in place of what is there."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    git(tree, "clone", "-q", "--shared", "--no-checkout", str(source), ".")


def git(tree: Path, *arguments: str) -> str:
    """What git prints."""
    asked = ["git", "-C", str(tree), *arguments]
    return subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout


def suitable(repository: GitRepository, count: int) -> list[tuple[str, list[FileChange]]]:
    """The last commits that count, with their files, the oldest first."""
    found: list[tuple[str, list[FileChange]]] = []
    for commit in git(repository.root, "rev-list", "--no-merges", "--topo-order", "HEAD").split():
        parents = parents_of(repository, commit)
        if parents:
            files = list(changed_files(repository, parents[0], commit).files)
            before = sum(one.status == "changed" for one in files)
            if before >= LEAST and len(files) <= MOST:
                found.append((commit, files))
        if len(found) == count:
            break
    return found[::-1]


def change_of(repository: GitRepository, commit: str, files: Sequence[FileChange]) -> Change:
    """What a commit changed in some files, as if these were all."""
    texts = read_texts(repository, tuple(files), {})
    compared = dict(zip(texts.pairs, compare_symbols(list(texts.pairs.values())), strict=True))
    differences = tuple(Difference(one, kind_of(one.path), compared.get(one.path)) for one in files)
    return Change(
        commit, Differences(differences, len(files), True, texts.left_out), commits=[commit]
    )


if __name__ == "__main__":
    main()
