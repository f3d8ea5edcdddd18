"""Tasks from histories: are they those of suitable commits, with answers that existed before?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.git import git

ROOT = Path(__file__).parents[2]
FOLDERS = [str(ROOT / "benchmarks"), str(ROOT / "training" / "context")]

sys.path[:0] = FOLDERS
try:
    from samples import training_samples

    from context_samples import (
        Repository,
        Sample,
        is_held_out,
        read_reports,
        reported,
        repositories_in,
        samples_of,
        suitable_changes,
    )
finally:
    for folder in FOLDERS:
        sys.path.remove(folder)

FILES = ("src/pool.py", "src/retry.py", "src/wait.py", "tests/test_pool.py", "README.md")


class History:
    """A repository whose commits change files by one line each."""

    def __init__(self, root: Path) -> None:
        git(root.parent, "init", "-q", str(root))
        self.root = root
        self.count = 0

    def commit(self, message: str, *paths: str) -> str:
        """A commit that appends to files, some more than others; the first gets most lines."""
        self.count += 1
        for number, path in enumerate(paths):
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as stream:
                stream.write(f"value = {self.count}\n" * (len(paths) - number))
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", message, at=f"{1_700_000_000 + self.count} +0000")
        return git(self.root, "rev-parse", "HEAD")

    @property
    def repository(self) -> Repository:
        return Repository("shop/retries", self.root / ".git")


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = History(tmp_path / "retries")
    made.commit("Everything that there is at first", *FILES)
    return made


def test_a_commit_gives_a_task_of_each_kind_asked_of_its_parent(history: History) -> None:
    parent = git(history.root, "rev-parse", "HEAD")
    message = "Wait longer after each failure\n\nA server was asked too often.\n\nFixes: #12"
    fix = history.commit(message, "src/retry.py", "src/wait.py", "tests/test_pool.py")
    issue, test, ripple = samples_of(history.repository, 5)
    text = "Wait longer after each failure\n\nA server was asked too often."
    gold = ("src/retry.py", "src/wait.py")
    assert issue == Sample(
        issue.id,
        "issue2code",
        "shop/retries",
        parent,
        fix,
        text,
        given=(),
        gold=gold,
        also=("tests/test_pool.py",),
    )
    assert (test.task, test.given, test.gold, test.text) == (
        "code2test",
        ("src/retry.py",),  # most of its lines changed
        ("tests/test_pool.py",),
        text,
    )
    assert (ripple.task, ripple.given, ripple.gold) == (
        "edit2ripple",
        ("src/retry.py",),
        ("src/wait.py",),
    )
    assert ripple.text.startswith(text + "\n\ndiff --git a/src/retry.py b/src/retry.py\n")
    assert "src/wait.py" not in ripple.text
    assert len({issue.id, test.id, ripple.id}) == 3
    assert [sample.id for sample in samples_of(history.repository, 5)] == [
        issue.id,
        test.id,
        ripple.id,
    ]


@pytest.mark.parametrize(
    ("message", "paths"),
    [
        ("Fix it", ("src/retry.py", "src/wait.py")),  # says nothing
        ("Bump the version of everything", ("src/retry.py", "src/wait.py")),
        ("Wait longer after each failure", ("src/retry.py",)),
        ("Wait longer after each failure", tuple(f"src/{n}.py" for n in range(9))),
        ("Wait longer after each failure", ("src/retry.py", "README.md")),  # nothing to find
        ("Wait longer after each failure", ("src/new.py", "src/newer.py")),
        ("Wait longer, changes retry.py and more", ("src/retry.py", "src/wait.py")),
    ],
)
def test_unsuitable_commits_give_no_task(
    history: History, message: str, paths: tuple[str, ...]
) -> None:
    history.commit(message, *paths)
    assert list(samples_of(history.repository, 5)) == []


def test_merges_give_no_task(history: History) -> None:
    git(history.root, "checkout", "-q", "-b", "topic")
    history.commit("Wait longer after each failure", "src/retry.py", "src/wait.py")
    git(history.root, "checkout", "-q", "main")
    git(history.root, "merge", "-q", "--no-ff", "-m", "Join the work on waiting", "topic")
    assert [change.subject for change in suitable_changes(history.repository)] == [
        "Wait longer after each failure"
    ]


def test_commits_that_name_their_files_are_taken_on_demand(history: History) -> None:
    history.commit("Wait longer, changes retry.py and more", "src/retry.py", "src/wait.py")
    [change] = suitable_changes(history.repository, with_named=True)
    assert change.names_files


def test_training_tasks_are_asked_of_the_parent_the_oldest_first(history: History) -> None:
    history.commit("The pool has its own retries now", "src/pool.py", "src/retry.py")
    before_first = git(history.root, "rev-parse", "HEAD")
    first = history.commit("Wait longer after each failure", "src/retry.py", "src/wait.py")
    before_last = history.commit("Notes", "README.md")
    last = history.commit("Close the pool with its waiters", "src/pool.py", "src/wait.py")
    made = training_samples(history.repository, 2, {})
    assert [(s.commit, s.state) for s in made if s.task == "issue2code"] == [
        (first, before_first),
        (last, before_last),
    ]


def test_half_of_the_long_messages_are_asked_as_their_first_line_too(history: History) -> None:
    for number in range(20):
        message = f"Wait longer after failure {number}\n\nIt was too short."
        history.commit(message, "src/retry.py", "src/wait.py")
    made = list(training_samples(history.repository, 19, {}))
    subjects = [sample for sample in made if sample.task == "subject2code"]
    assert 4 <= len(subjects) <= 15
    for sample in subjects:
        assert sample.text.startswith("Wait longer after failure")
        assert "\n" not in sample.text
        assert sample.gold == ("src/retry.py", "src/wait.py")


def test_training_has_failing_tests_traces_and_messages_that_name_a_file(history: History) -> None:
    for number in range(12):
        paths = "src/retry.py", "src/wait.py", "tests/test_pool.py"
        history.commit(f"Wait longer after failure {number}", *paths)
    history.commit("Wait longer, changes retry.py and more", "src/retry.py", "src/wait.py")
    made = list(training_samples(history.repository, 20, {}))
    by_task = {sample.task: sample for sample in made}
    assert by_task["named2code"].text.startswith("Wait longer, changes retry.py")
    assert by_task["test2code"].text.startswith("tests/test_pool.py:")
    assert by_task["test2code"].given == ()
    assert "    at step0 (src/" in by_task["trace2code"].text
    assert {sample.gold for sample in by_task.values() if sample.task.endswith("2code")} == {
        ("src/retry.py", "src/wait.py")
    }
    assert len({sample.id for sample in made}) == len(made)


def test_a_commit_with_a_report_is_asked_as_that_too(history: History, tmp_path: Path) -> None:
    message = "Wait longer after each failure"
    commit = history.commit(message, "src/retry.py", "src/wait.py", "tests/test_pool.py")
    history.commit("Close the pool with its waiters", "src/pool.py", "src/wait.py")
    file = tmp_path / "reports.jsonl"
    file.write_text(json.dumps({"repo": "shop/retries", "commit": commit, "text": "Too slow"}))
    reports = read_reports(file)
    [asked] = reported(history.repository, reports)
    assert (asked.task, asked.commit, asked.text) == ("report2code", commit, "Too slow")
    assert (asked.given, asked.gold) == ((), ("src/retry.py", "src/wait.py"))
    made = training_samples(history.repository, 9, reports)
    assert [s.text for s in made if s.task == "report2code"] == ["Too slow"]


def test_git_directories_are_recognized_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "shop+retries").mkdir()
    history = History(tmp_path / "shop+retries" / "repo")
    git(tmp_path, "clone", "-q", "--bare", str(history.root), str(tmp_path / "bare+one.git"))
    (tmp_path / "notes.txt").write_text("no repository")
    (tmp_path / "empty").mkdir()
    assert repositories_in(tmp_path) == [
        Repository("bare/one", tmp_path / "bare+one.git"),
        Repository("shop/retries", tmp_path / "shop+retries" / "repo" / ".git"),
    ]


def test_a_quarter_of_repositories_is_held_out_whatever_their_case() -> None:
    names = [f"owner/project-{number}" for number in range(1000)]
    assert 200 < sum(map(is_held_out, names)) < 300
    assert all(is_held_out(name) == is_held_out(name.upper()) for name in names)
