"""The command ``grep``: options as grep has them, text as agents get it, JSON as the tool's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.git import git
from tests.integration.conftest import Shell

FILES = {
    "src/pay.py": "LIMIT = 3\n\n\ndef charge(card):\n    return card.charge(LIMIT)\n",
    "src/shop.js": "function charge() {}\n// recharge\n",
    "tests/test_pay.py": "def test_it():\n    charge(LIMIT)\n",
}


@pytest.fixture
def project(shell: Shell, make_repo: Callable[..., Path]) -> str:
    """A project with an index of the files."""
    project_id = f"grep-{uuid4().hex[:8]}"
    assert shell("index", str(make_repo(FILES)), "--project", project_id).returncode == 0
    return project_id


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (
            ("LIMIT",),
            "LIMIT: 3 lines in 2 files\nsrc/pay.py\n  1  LIMIT = 3  (defined here)\n"
            "  charge 4-5: 5  return card.charge(LIMIT)\ntests: 1 in tests/test_pay.py\n",
        ),
        (
            ("-w", "charge", "--file-type", "js"),
            "charge: 1 line in 1 file\nsrc/shop.js\n  1  function charge() {}  (defined here)\n",
        ),
        (
            ("-E", r"\.charge\(", "-C", "1"),
            "\\.charge\\(: 1 line in 1 file\nsrc/pay.py\n  charge 4-5:\n"
            "  4- def charge(card):\n  5      return card.charge(LIMIT)\n",
        ),
        (
            ("-rnI", "LIMIT", "--kind", "code", "src"),
            "LIMIT: 2 lines in 1 file\nsrc/pay.py\n  1  LIMIT = 3  (defined here)\n"
            "  charge 4-5: 5  return card.charge(LIMIT)\n",
        ),
        (
            ("-c", "charge"),
            "charge: 5 lines in 3 files\n4 in src/ (2 files), 1 in tests/ (1 file)\n",
        ),
        (
            ("-l", "limit", "-i"),
            "limit: 3 lines in 2 files\nsrc/pay.py 2\ntests/test_pay.py 1\n",
        ),
        (
            ("LIMIT", "--kind", "test"),
            "LIMIT: 1 line in 1 file\ntests/test_pay.py\n  test_it 1-2: 2  charge(LIMIT)\n",
        ),
    ],
)
def test_what_matches_is_printed_by_definition(
    project: str, shell: Shell, tmp_path: Path, options: tuple[str, ...], printed: str
) -> None:
    done = shell("grep", *options, "--project", project, cwd=tmp_path / "repo")
    assert (done.returncode, done.stdout) == (0, printed)


def test_a_path_is_meant_from_the_working_directory(
    project: str, shell: Shell, tmp_path: Path
) -> None:
    git(tmp_path / "repo", "init", "-q")
    for folder, path in (("repo", "src"), ("repo/src", "."), ("repo/tests", "../src/pay.py")):
        done = shell("grep", "LIMIT", path, "--project", project, cwd=tmp_path / folder)
        assert done.stdout.startswith("LIMIT: 2 lines in 1 file\n")
        assert done.stdout.count("pay.py") == 1
    several = ("LIMIT", "-l", "src/pay.py", "tests", "missing")
    done = shell("grep", *several, "--project", project, cwd=tmp_path / "repo")
    assert done.stdout == "LIMIT: 3 lines in 2 files\nsrc/pay.py 2\ntests/test_pay.py 1\n"
    done = shell("grep", "LIMIT", ".", "--project", project, cwd=tmp_path / "repo")
    assert done.stdout.startswith("LIMIT: 3 lines in 2 files\n")
    done = shell("grep", "LIMIT", "..", "--project", project, cwd=tmp_path / "repo")
    assert "path is outside of" in done.stderr.replace("\n", " ")
    done = shell("grep", "LIMIT", "a,b", "src", "--project", project, cwd=tmp_path / "repo")
    assert "Ask for it alone" in done.stderr


def test_the_exit_status_is_that_of_grep(project: str, shell: Shell) -> None:
    done = shell("grep", "-s", "limit", "--project", project)
    assert (done.returncode, done.stdout) == (1, "limit: no line matches\n")
    done = shell("grep", "-E", "(?=x)", "--project", project)
    assert done.returncode != 0
    assert "look-around" in done.stderr


def test_json_is_that_of_the_tool(project: str, shell: Shell) -> None:
    reply = json.loads(shell("grep", "LIMIT", "--json", "--project", project).stdout)
    assert reply["total_count"] == 3
    assert reply["results"][0]["matches"][0]["is_definition"] is True
