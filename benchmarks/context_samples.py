"""Which files did a task need? Tasks with their answers, from the histories of repositories.

Of each suitable commit (no merge, 2 to 8 files changed, a message that says something and names
none of the files) up to three tasks are made. Only source and test files count that the commit
modifies; files that it adds cannot be found before it.

- ``issue2code``: the message; the source files that the commit modifies.
- ``code2test``: the message and one modified source file; the test files that the commit modifies.
- ``edit2ripple``: the message and the diff of one source file; the other source files.

With ``--reports`` instead of these:

- ``report2code``: what a user might have reported before the commit, as somebody wrote who knew
  its message and diff (``training/context/reports.jsonl``); the source files that it modifies.

A task is asked of a state without the commit. Everything is read from git's objects, and the same
history gives the same tasks.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal

TaskName = Literal[
    "issue2code",
    "code2test",
    "edit2ripple",
    "report2code",
    "subject2code",
    "named2code",
    "test2code",
    "trace2code",
]  # fmt: skip

LEAST_FILES, MOST_FILES = 2, 8
LEAST_SUBJECT_CHARS = 20
MOST_DIFF_CHARS = 6_000
MOST_COMMITS = 1_500  # how far back suitable commits are looked for

CODE = re.compile(
    r"\.(py|pyi|js|mjs|cjs|ts|tsx|jsx|vue|go|rs|java|kt|scala|rb|php|c|h|cc|cpp|hpp|cs|swift|ex|exs"
    r"|lua|hs|zig|sh|bash|m|mm)$"
)
TEST = re.compile(
    r"(^|/)(tests?|testing|spec|specs|__tests__|testsuite|testdata|e2e)(/|$)"
    r"|(_test|_spec|\.test|\.spec|Tests?|Spec)\.[a-z]+$|(^|/)test_[^/]+$|(^|/)[A-Za-z]*Tests/",
    re.IGNORECASE,
)
# Subjects that do not say which files to change.
ROUTINE = re.compile(
    r"^(merge|bump|release|revert|chore\(deps|chore: release|build\(deps|update (dependenc|deps)"
    r"|v?\d+\.\d+|prepare|changelog|fmt|format|lint|typo|docs?[:(]|translat|\[ci\])",
    re.IGNORECASE,
)
TRAILER = re.compile(
    r"^(co-authored-by|signed-off-by|reviewed-by|change-id|refs?|fixes|closes)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Repository:
    """A git directory and the ``owner/name`` of what it holds."""

    name: str
    git_dir: Path


@dataclass(frozen=True, slots=True)
class Sample:
    """A task, and the files that it needed.

    It is asked of ``state``, a commit of the history before ``commit``, whose task it is. ``given``
    are the files that the task shows, ``gold`` those to find, and ``also`` what else the commit
    modifies, which is neither right nor wrong.
    """

    id: str
    task: TaskName
    repo: str
    state: str
    commit: str
    text: str
    given: tuple[str, ...]
    gold: tuple[str, ...]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What a suitable commit modified: its source files, those with most lines first, and tests.

    ``names_files`` says that the message contains the name of a modified file.
    """

    commit: str
    parent: str
    time: int
    message: str
    source: tuple[str, ...]
    tests: tuple[str, ...]
    names_files: bool

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.split("\n", 1)[0]


def git(git_dir: Path, *arguments: str) -> str:
    """What git prints, or nothing where it fails: a snapshot may lack its largest files."""
    command = ["git", f"--git-dir={git_dir}", "-c", "core.quotePath=false", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout if done.returncode == 0 else ""


def is_held_out(name: str) -> bool:
    """Whether a repository (``owner/name``) is for measuring only: a quarter of all."""
    return int(sha256(name.lower().encode()).hexdigest(), 16) % 4 == 0


def repositories_in(folder: Path) -> list[Repository]:
    """The git directories of a folder: ``owner+name/repo``, or clones."""
    candidates = sorted(folder.iterdir()) if folder.is_dir() else []
    return [
        Repository(entry.name.removesuffix(".git").replace("+", "/"), git_dir)
        for entry in candidates
        for git_dir in [next((d for d in _git_dirs(entry) if (d / "HEAD").is_file()), None)]
        if git_dir is not None
    ]


def read_list(file: Path) -> list[Repository]:
    """The repositories of a table: name, language and git directory, with tabs between them."""
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines() if line.strip()]
    return [Repository(row[0], Path(row[2])) for row in rows]


def _git_dirs(entry: Path) -> tuple[Path, ...]:
    return (entry / "repo", entry / "repo" / ".git", entry / ".git", entry)


def suitable_changes(repository: Repository, with_named: bool = False) -> Iterator[Change]:
    """The suitable commits, the newest first; ``with_named`` also those that name their files."""
    limit = ["--no-merges", "-n", str(MOST_COMMITS)]
    form = "--format=%x02%H%x00%P%x00%ct%x00%s%n%n%b%x00"
    log = git(repository.git_dir, "log", *limit, "--no-renames", "--raw", form, "HEAD")
    for entry in log.split("\x02")[1:]:
        commit, parents, time, message, changed = entry.split("\x00", 4)
        modified = _modified(changed)
        subject = message.strip().split("\n", 1)[0]
        if len(subject) < LEAST_SUBJECT_CHARS or ROUTINE.search(subject):
            continue
        if not modified or len(parents.split()) != 1:
            continue
        lines = _changed_lines(repository, parents, commit)
        ordered = sorted(
            (path for path in modified if path in lines), key=lambda path: -lines[path]
        )
        change = Change(
            commit,
            parents,
            int(time),
            without_trailers(message),
            tuple(path for path in ordered if not TEST.search(path)),
            tuple(sorted(path for path in ordered if TEST.search(path))),
            any(PurePosixPath(path).name.lower() in message.lower() for path in ordered),
        )
        is_suitable = change.source and (change.tests or len(change.source) > 1)
        if is_suitable and (with_named or not change.names_files):
            yield change


def _modified(raw: str) -> list[str]:
    """The code files that a commit modified, if it changed neither too few nor too many files."""
    rows = [line.split("\t", 1) for line in raw.splitlines() if line.startswith(":")]
    if not LEAST_FILES <= len(rows) <= MOST_FILES:
        return []
    return [path for status, path in rows if status.endswith(" M") and CODE.search(path)]


def _changed_lines(repository: Repository, parent: str, commit: str) -> dict[str, int]:
    """How many lines a commit changed in each text file."""
    stat = git(repository.git_dir, "diff", "--no-renames", "--numstat", parent, commit)
    rows = [line.split("\t", 2) for line in stat.splitlines()]
    return {path: int(added) + int(gone) for added, gone, path in rows if added != "-"}


def without_trailers(message: str) -> str:
    """A commit's message without the lines that name people and issues."""
    subject, _, body = message.strip().partition("\n")
    return (subject + "\n" + TRAILER.sub("", body)).strip()


def samples_of(repository: Repository, changes: int, with_named: bool = False) -> Iterator[Sample]:
    """The tasks of the newest suitable commits, each asked of the commit's parent."""
    for change in islice(suitable_changes(repository, with_named), changes):
        yield from tasks_of(repository, change)


def read_reports(file: Path) -> dict[str, str]:
    """The reports of a file of JSON lines, by commit."""
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    return {row["commit"]: row["text"] for row in rows}


def reported(repository: Repository, reports: Mapping[str, str]) -> Iterator[Sample]:
    """The tasks of the commits that have a report, the newest first."""
    for change in suitable_changes(repository, with_named=True):
        if (text := reports.get(change.commit)) is not None:
            yield as_report(next(tasks_of(repository, change)), text)


def as_report(issue: Sample, text: str) -> Sample:
    """The task of a commit's message as that of a user's report."""
    number = sha256(f"{issue.id} report".encode()).hexdigest()[:16]
    return replace(issue, id=number, task="report2code", text=text)


def tasks_of(repository: Repository, change: Change) -> Iterator[Sample]:
    """The tasks of a commit, each asked of its parent."""
    anchor, *others = change.source

    def sample(task: TaskName, text: str, given: Sequence[str], gold: Sequence[str]) -> Sample:
        key = sha256(f"{repository.name} {change.commit} {task}".encode()).hexdigest()[:16]
        also = {*change.source, *change.tests}.difference(given, gold)
        files = tuple(given), tuple(sorted(gold)), tuple(sorted(also))
        return Sample(key, task, repository.name, change.parent, change.commit, text, *files)

    yield sample("issue2code", change.message, (), change.source)
    if change.tests:
        yield sample("code2test", change.message, (anchor,), change.tests)
    if others:
        text = change.message + "\n\n" + diff_of(repository, change, anchor)
        yield sample("edit2ripple", text, (anchor,), others)


def diff_of(repository: Repository, change: Change, path: str) -> str:
    """What a commit changed in a file, cut after some lines."""
    arguments = ("diff", "--no-renames", change.parent, change.commit, "--", path)
    return git(repository.git_dir, *arguments)[:MOST_DIFF_CHARS]
