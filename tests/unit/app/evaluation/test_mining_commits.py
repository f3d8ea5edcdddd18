"""Which commits ask for something, for what, and in which words."""

from __future__ import annotations

import pytest

from codebase_mcp.app.evaluation.mining import MAX_FILES, questions_from, subject_of, targets_of
from codebase_mcp.app.evaluation.questions import Question, Target
from codebase_mcp.model import FileKind
from codebase_mcp.source.commit_log import Commit, PathChange

KINDS = {
    "src/a.py": FileKind.CODE,
    "src/b.py": FileKind.CODE,
    "tests/test_a.py": FileKind.TEST,
    "README.md": FileKind.DOCS,
    "setup.cfg": FileKind.CONFIG,
    "vendor/x.py": FileKind.VENDORED,
}


def commit(message: str, *paths: str, total: int | None = -1) -> Commit:
    count = len(paths) if total == -1 else total
    return Commit("f" * 40, "A", "a@b", 0, message, tuple(map(PathChange, paths)), count, 0, 0)


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        ("Retry failed payments\n\nLong story.", "Retry failed payments"),
        ("fix(payments)!: retry failed requests (#123)", "retry failed requests"),
        ("[API] PROJ-12: retry failed requests [skip ci]", "retry failed requests"),
        ("net/http: retry failed requests, fixes #7", "retry failed requests"),
        (":bug: retry failed requests.", "retry failed requests"),
        ("#41 retry failed requests (gh-41)", "retry failed requests"),
        ("Add `GET /api/v1/{owner}` endpoint", "Add `GET /api/v1/{owner}` endpoint"),
        ("Start the worker when a job waits", "Start the worker when a job waits"),
    ],
)
def test_a_subject_is_freed_of_labels_and_numbers(message: str, subject: str) -> None:
    assert subject_of(message) == subject


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Merge branch 'main' into feature/payments",
        "Merged in payments (pull request #3)",
        'Revert "Retry failed payments"',
        "Bump lodash from 4.17.20 to 4.17.21",
        "chore(deps): bump lodash from 4.17.20 to 4.17.21",
        "Release 2.0.1 of the payments library",
        "Prepare the next release of payments",
        "v2.0.1 of everything and more",
        "Update dependencies of the payments service",
        "Update the changelog",
        "fix typos",
        "Fix some tests",
        "minor code fix",
        "WIP payments retry queue",
        "fixup! Retry failed payments",
        "Initial commit of the payments service",
        "Run black over the payments service",
        "Address review comments on payments",
        "Fix it",
        "More of the same",
        "Retry payments 12",
    ],
)
def test_subjects_that_ask_for_nothing_are_left_out(message: str) -> None:
    assert subject_of(message) == ""


@pytest.mark.parametrize(
    ("paths", "total", "targets"),
    [
        (("src/a.py", "tests/test_a.py", "README.md"), -1, ["src/a.py"]),
        (("src/b.py", "src/a.py"), -1, ["src/b.py", "src/a.py"]),
        (("src/a.py", "src/gone.py"), -1, ["src/a.py"]),
        (("tests/test_a.py", "README.md"), -1, ["tests/test_a.py"]),
        (("tests/test_a.py", "src/gone.py"), -1, []),
        (("README.md", "setup.cfg"), -1, []),
        (("vendor/x.py",), -1, []),
        (("src/a.py",), MAX_FILES, ["src/a.py"]),
        (("src/a.py",), MAX_FILES + 1, []),
        ((), 0, []),
        ((), None, []),
    ],
)
def test_a_commit_is_about_the_code_that_it_changed(
    paths: tuple[str, ...], total: int | None, targets: list[str]
) -> None:
    assert targets_of(commit("x", *paths, total=total), KINDS) == targets


def test_a_subject_that_stands_over_several_commits_is_left_out() -> None:
    commits = [
        commit("Retry failed payments", "src/a.py"),
        commit("Queue emails for later", "src/a.py"),
        commit("retry failed payments", "src/b.py"),
    ]
    target = Target("src/a.py")
    assert questions_from(commits, KINDS) == [
        Question("Queue emails for later", (target,), "commits", "f" * 12)
    ]
