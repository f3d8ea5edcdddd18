"""Makes the tasks on which the mixture of evidence is fitted.

    python training/context/samples.py --list repositories.tsv --out build/context/samples.jsonl

The tasks are those of ``benchmarks/context_samples.py``, but all tasks of a repository are asked of
one state, so it is indexed once. That state lies before the newest suitable commits, and a task
counts if all its files exist there. Half of the commits whose message has more than one line give a
fourth task:

- ``subject2code``: the first line of the message; the source files that the commit modifies.

Repositories that are kept for measuring are left out, and so are those of ``--exclude``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from context_samples import (
        Change,
        Repository,
        Sample,
        git,
        is_held_out,
        read_list,
        repositories_in,
        suitable_changes,
        tasks_of,
    )
finally:
    sys.path.pop(0)

CHANGES = 30  # of one repository


def training_samples(repository: Repository, changes: int, with_named: bool) -> Iterator[Sample]:
    """The tasks of the newest suitable commits, all asked of one state before them."""
    chosen = list(islice(suitable_changes(repository, with_named), changes))
    state = state_before(repository, chosen)
    if state is None:
        return
    existing = set(git(repository.git_dir, "ls-tree", "-rz", "--name-only", state).split("\0"))
    since = git(repository.git_dir, "rev-list", "--no-merges", "--reverse", f"{state}..HEAD")
    ages = {commit: age for age, commit in enumerate(since.split(), 1)}
    for change in reversed(chosen):
        if change.commit in ages:
            for sample in with_subjects(
                change, tasks_of(repository, change, state, ages[change.commit])
            ):
                if existing.issuperset(sample.given + sample.gold):
                    yield sample


def state_before(repository: Repository, changes: Sequence[Change]) -> str | None:
    """The newest commit of the main line that is older than all the changes."""
    if not changes:
        return None
    oldest = min(change.time for change in changes)
    line = git(repository.git_dir, "log", "--first-parent", "--format=%H %ct", "HEAD")
    commits = (entry.split() for entry in line.splitlines())
    return next((commit for commit, time in commits if int(time) < oldest), None)


def with_subjects(change: Change, samples: Iterator[Sample]) -> Iterator[Sample]:
    """The tasks of a commit, and for half of the commits one of the subject alone."""
    for sample in samples:
        yield sample
        if sample.task == "issue2code" and change.subject != change.message:
            key = sha256(sample.id.encode()).hexdigest()
            if int(key, 16) % 2 == 0:
                yield replace(sample, id=key[:16], task="subject2code", text=change.subject)


def main() -> None:
    """Write the tasks of all repositories, one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--repositories", type=Path, help="a folder of git directories")
    source.add_argument("--list", type=Path, help="name, language, git directory (tabs)")
    parser.add_argument("--exclude", type=Path, help="JSON list of owner/name")
    parser.add_argument("--changes", type=int, default=CHANGES, help="commits of a repository")
    parser.add_argument(
        "--with-named", action="store_true", help="also commits whose message names their files"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    excluded: set[str] = set()
    if options.exclude:
        excluded = {name.lower() for name in json.loads(options.exclude.read_text("utf-8"))}
    listed = read_list(options.list) if options.list else repositories_in(options.repositories)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", encoding="utf-8") as file:
        for repository in listed:
            if is_held_out(repository.name) or repository.name.lower() in excluded:
                continue
            made = list(training_samples(repository, options.changes, options.with_named))
            file.writelines(json.dumps(asdict(sample)) + "\n" for sample in made)
            print(f"{repository.name}: {len(made)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
