"""The command ``context``: where the task comes from, and what is printed of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.git import git
from tests.integration.conftest import Shell

from codebase_mcp.cli.context import commit_task

FILES = {
    "src/retry.py": "class Retry:\n    def wait(self):\n        return self.delay\n",
    "src/client.py": "def fetch(url):\n    return Retry().wait()\n",
    "tests/test_retry.py": "def test_wait():\n    assert Retry().wait()\n",
}
TASK = "Retry.wait waits too long"


@pytest.fixture
def project(shell: Shell, make_repo: Callable[..., Path]) -> str:
    """A project with an index of the files."""
    project_id = f"context-{uuid4().hex[:8]}"
    assert shell("index", str(make_repo(FILES)), "--project", project_id).returncode == 0
    return project_id


@pytest.mark.parametrize("way", ["words", "file", "pipe", "dash"])
def test_the_task_comes_in_words_from_a_file_or_from_standard_input(
    project: str, shell: Shell, tmp_path: Path, way: str
) -> None:
    (tmp_path / "task.txt").write_text(TASK)
    options, text = {
        "words": (tuple(TASK.split()), ""),
        "file": (("-f", str(tmp_path / "task.txt")), ""),
        "pipe": ((), TASK),
        "dash": (("--file", "-"), TASK),
    }[way]
    done = shell("context", *options, "--project", project, text=text, cwd=tmp_path / "repo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1. ")
    assert "src/retry.py:" in done.stdout


def test_json_is_that_of_the_tool(project: str, shell: Shell) -> None:
    done = shell("context", TASK, "--want", "test,read", "--json", "--project", project)
    reply = json.loads(done.stdout)
    assert {file["role"] for file in reply["files"]} <= {"read", "test"}
    assert reply["index"]["state"] == "ready"
    given = ("--given", "src/retry.py:1-2", "--given", "src/gone.py")
    reply = json.loads(shell("context", TASK, *given, "--json", "--project", project).stdout)
    assert "src/retry.py" not in [file["file_path"] for file in reply["files"]]
    assert reply["given_unknown"] == ["src/gone.py"]


def test_a_long_text_keeps_its_beginning_and_its_end(project: str, shell: Shell) -> None:
    log = f"{TASK}\n" + "nothing of interest\n" * 4_000 + "error at the end\n"
    done = shell("context", "--project", project, text=log)
    assert done.returncode == 0
    assert done.stderr.startswith("The task has 80,")
    assert "the first and the last 25,000 of them count" in done.stderr.replace("\n", " ")


def test_the_task_may_be_a_commit_asked_of_the_state_before_it(
    shell: Shell, make_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repo(FILES)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "src/retry.py").write_text(FILES["src/retry.py"].replace("self.delay", "0"))
    (root / "src/added.py").write_text("def added():\n    return Retry().wait()\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", TASK)
    monkeypatch.chdir(root / "src")
    task, parent = commit_task("HEAD")
    assert task.startswith(f"{TASK}\n")
    assert "+++ b/src/retry.py\n" in task
    assert "-        return self.delay\n+        return 0\n" in task
    assert parent == git(root, "rev-parse", "HEAD~1").strip()
    project = f"context-{uuid4().hex[:8]}"
    assert shell("index", str(root), "--project", project).returncode == 0
    done = shell("context", "--commit", "HEAD", "--json", "--project", project, cwd=root)
    reply = json.loads(done.stdout)
    [commit] = reply["refs"]
    assert commit == parent
    assert "src/added.py" not in [file["file_path"] for file in reply["files"]]
    done = shell("context", "--commit", "HEAD~1", "--project", project, cwd=root)
    assert "There is no state before HEAD~1" in done.stderr


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ((), "", "Task cannot be empty"),
        (("-f", "no-such-file"), "", "Cannot read no-such-file"),
        ((TASK, "--commit", "HEAD"), "", "Give the task in one way"),
        (("--commit", "HEAD", "--ref", "main"), "", "the state before the commit"),
        (("--commit", "HEAD"), "", "is not in a git repository"),
        ((TASK, "--want", "tests"), "", "No such role: tests"),
        ((TASK, "--limit", "0"), "", "--limit"),
    ],
)
def test_wrong_use_is_named(
    project: str, shell: Shell, options: tuple[str, ...], text: str, message: str
) -> None:
    done = shell("context", *options, "--project", project, text=text)
    assert done.returncode == 1
    assert message in done.stderr.replace("\n", " ")
