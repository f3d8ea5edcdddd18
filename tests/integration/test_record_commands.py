"""Tasks, memory and work items from the shell, as a person uses them; export and import."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
from tests.integration.conftest import Shell


@pytest.fixture
def project(shell: Shell) -> str:
    """A project of the test's own."""
    project = f"test-{uuid4().hex[:12]}"
    made = shell("create_project", "--name", project)
    assert made.returncode == 0, made.stdout + made.stderr
    return project


def test_tasks_are_added_changed_and_listed(shell: Shell, project: str) -> None:
    empty = shell("tasks", "--project", project)
    assert "No tasks" in empty.stdout
    added = shell(
        "tasks", "add", "Write", "the", "guide", "--notes", "short", "--project", project, "--json"
    )
    task = json.loads(added.stdout)
    assert task["title"] == "Write the guide"
    beginning = task["id"][:8]
    assert shell("tasks", "start", beginning, "--project", project).returncode == 0
    shell("tasks", "update", beginning, "--branch", "docs/guide", "--project", project)
    listed = shell("tasks", "--project", project, "list", "--branch", "docs")
    assert "Write the guide" in listed.stdout
    assert "in-progress" in listed.stdout
    assert beginning in listed.stdout
    shown = shell("tasks", "show", beginning, "--project", project)
    assert "need to be done → in-progress" in shown.stdout
    done = shell("tasks", "done", beginning, "--project", project, "--json")
    assert json.loads(done.stdout)["status"] == "complete"


@pytest.mark.parametrize(
    ("identity", "message"),
    [("zz", "is not an id of a task"), ("abcd", "Task not found"), ("a", "is not an id of a task")],
)
def test_an_id_that_means_no_task_is_explained(
    shell: Shell, project: str, identity: str, message: str
) -> None:
    answer = shell("tasks", "show", identity, "--project", project)
    assert answer.returncode == 1
    assert message in answer.stderr


def test_memory_is_added_and_found(shell: Shell, project: str) -> None:
    text = "We keep sessions in Redis since the outage"
    added = shell("memory", "add", text, "--type", "Decision", "--tag", "ops", "--project", project)
    assert "#ops" in added.stdout
    again = shell("memory", "add", text, "--project", project)
    assert "already stored" in again.stdout
    found = shell("memory", "search", "where are sessions kept", "--project", project)
    assert text in found.stdout
    assert text in shell("memory", "--project", project).stdout
    identity = found.stdout.split()[0]
    assert text in shell("memory", "show", identity, "--project", project).stdout
    tool = shell("memory", "--operation", "search", "--query", "sessions", "--project_id", project)
    assert json.loads(tool.stdout)["observations"][0]["content"] == text


def test_work_items_are_shown_as_a_tree(shell: Shell, project: str) -> None:
    root = json.loads(
        shell("work-items", "add", "project", "Shop", "--project", project, "--json").stdout
    )
    child = shell(
        "work-items", "add", "task", "Cart", "--parent", root["id"][:8], "--project", project,
        "--json",
    )  # fmt: skip
    beginning = json.loads(child.stdout)["id"][:8]
    shell("work-items", "update", beginning, "--status", "completed", "--project", project)
    tree = shell("work-items", "--project", project).stdout.splitlines()
    assert tree[0].startswith("Shop")
    assert "── Cart" in tree[1]
    assert "completed" in tree[1]
    below = shell("work-items", "tree", beginning, "--project", project).stdout
    assert "Shop /" in below
    listed = shell("work-items", "list", "--type", "task", "--project", project).stdout
    assert "1 of 1" in listed


def test_records_go_out_and_in(shell: Shell, project: str, tmp_path: Path) -> None:
    shell("tasks", "add", "Move", "--project", project)
    written = shell("export", "--project", project, "--output", "records.jsonl")
    assert "1 record in" in written.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["records.jsonl"]
    lines = (tmp_path / "records.jsonl").read_text()
    assert shell("export", "--project", project).stdout.splitlines()[1:] == lines.splitlines()[1:]
    other = f"{project}-b"
    checked = shell("import", "records.jsonl", "--project", other, "--dry-run")
    assert "Would import: 1 task" in checked.stdout
    taken = shell("import", "-", "--project", other, text=lines)
    assert "Imported: 1 task" in taken.stdout, taken.stderr
    assert "Move" in shell("tasks", "--project", other).stdout
    broken = shell("import", "-", "--project", other, text=lines + "{}\n")
    assert broken.returncode == 1
    assert "line 3" in broken.stderr
    missing = shell("import", "nowhere.jsonl", "--project", other)
    assert "nowhere.jsonl: No such file or directory" in missing.stderr


def test_a_file_appears_only_when_it_is_whole(shell: Shell, tmp_path: Path) -> None:
    answer = shell("export", "--project", "does-not-exist", "--output", "records.jsonl")
    assert answer.returncode == 1
    assert list(tmp_path.iterdir()) == []
