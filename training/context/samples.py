"""Makes the tasks on which the mixture of evidence is fitted.

    python training/context/samples.py --repositories build/context/clones \
        --out build/context/samples.jsonl

The tasks are those of ``benchmarks/context_samples.py``, the oldest first. Further tasks, whose
answers are the source files that the commit modifies:

- ``report2code``: what a user might have reported, of the commits that ``reports.jsonl`` has;
- ``subject2code``: the first line of the message, of half of the messages with more lines;
- ``named2code``: the message of a commit that names a file that it modifies;
- ``test2code``: what a test run prints if the tests fail that the commit modifies;
- ``trace2code``: the first line and a made-up stack trace with a file that the commit modifies.

Repositories that are kept for measuring are left out, and so are those of ``--exclude``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    from context_samples import (
        CODE,
        TEST,
        Change,
        Repository,
        Sample,
        TaskName,
        as_report,
        git,
        is_held_out,
        read_list,
        read_reports,
        repositories_in,
        suitable_changes,
        tasks_of,
    )
finally:
    sys.path.pop(0)

CHANGES = 30  # of one repository


def training_samples(
    repository: Repository, changes: int, reports: Mapping[str, str]
) -> Iterator[Sample]:
    """The tasks of the newest suitable commits, each asked of the commit's parent; as many of those
    that name their files. ``reports`` are by commit."""
    left = {True: changes, False: changes}
    chosen = []
    for change in islice(suitable_changes(repository, with_named=True), 2 * changes):
        left[change.names_files] -= 1
        if left[change.names_files] >= 0:
            chosen.append(change)
    for change in reversed(chosen):
        listed = git(repository.git_dir, "ls-tree", "-rz", "--name-only", change.parent)
        tasks = tasks_of(repository, change)
        report = reports.get(change.commit, "")
        yield from with_others(change, tasks, set(listed.split("\0")), report)


def with_others(
    change: Change, samples: Iterator[Sample], existing: Collection[str], report: str
) -> Iterator[Sample]:
    """The tasks of a commit, and others that are made of the first, the message."""
    for sample in samples:
        if sample.task != "issue2code":
            if not change.names_files:
                yield sample
            continue
        number = int(sha256(sample.id.encode()).hexdigest(), 16)
        if report:
            yield as_report(sample, report)
        if change.names_files:
            yield replace(sample, id=f"{number % 16**16:016x}", task="named2code")
            continue
        yield sample
        if change.subject != change.message and number % 2 == 0:
            yield _of(sample, number + 1, "subject2code", change.subject)
        if change.tests:
            lines = (f"{path}:{10 + number % 90}: error: test failed" for path in change.tests)
            yield _of(sample, number + 2, "test2code", "\n".join(lines))
        if number % 3 == 0:
            text = f"{change.subject}\n\n{_trace(change, existing, number)}"
            yield _of(sample, number + 3, "trace2code", text)


def _of(sample: Sample, number: int, task: TaskName, text: str) -> Sample:
    return replace(sample, id=f"{number % 16**16:016x}", task=task, text=text)


def _trace(change: Change, existing: Collection[str], number: int) -> str:
    """A made-up stack trace: a file that the commit modified is among its first three frames, most
    often the innermost; the others lie in the same folder or next to it."""
    chosen = change.source[number % len(change.source)]
    folder = chosen.rpartition("/")[0].rpartition("/")[0]
    near = sorted(
        (path for path in existing
         if path.startswith(folder) and CODE.search(path) and not TEST.search(path)
         and path not in change.source),
        key=lambda path: sha256(f"{path}{number}".encode()).hexdigest(),
    )  # fmt: skip
    frames = near[:4]
    frames.insert((0, 0, 0, 1, 1, 2)[number % 6], chosen)
    return "Error: failed\n" + "\n".join(
        f"    at step{n} ({path}:{20 + n}:5)" for n, path in enumerate(frames)
    )


def main() -> None:
    """Write the tasks of all repositories, one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--repositories", type=Path, help="a folder of git directories")
    source.add_argument("--list", type=Path, help="name, language, git directory (tabs)")
    parser.add_argument("--exclude", type=Path, help="JSON list of owner/name")
    parser.add_argument("--changes", type=int, default=CHANGES, help="commits of a repository")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    excluded: set[str] = set()
    if options.exclude:
        excluded = {name.lower() for name in json.loads(options.exclude.read_text("utf-8"))}
    reports = read_reports(Path(__file__).with_name("reports.jsonl"))
    listed = read_list(options.list) if options.list else repositories_in(options.repositories)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", encoding="utf-8") as file:
        for repository in listed:
            if is_held_out(repository.name) or repository.name.lower() in excluded:
                continue
            made = list(training_samples(repository, options.changes, reports))
            file.writelines(json.dumps(asdict(sample)) + "\n" for sample in made)
            print(f"{repository.name}: {len(made)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
