"""The commands ``branches`` and ``compare`` need nothing but a git repository."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.unit.source.conftest import Git, git, home, repository, tree

from codebase_mcp.cli.main import run

__all__ = ["git", "home", "repository", "tree"]


@pytest.fixture
def branching(repository: Path, git: Git) -> Path:
    """``main``, and a branch whose name and content would steer a terminal."""
    (repository / "a.py").write_text("def f():\n    return 1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "one")
    git(repository, "tag", "v1")
    git(repository, "checkout", "-q", "-b", "feature")
    (repository / "a.py").write_text("def f():\n    return 2\n\n\ndef g(): pass\n")
    (repository / "\x1b[31mred").write_text("1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "two")
    return repository


def test_branches_and_tags_are_listed(branching: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["branches", str(branching)]) == 0
    listed = [line.split("\t")[:2] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == [["feature *", "branch"], ["main", "branch"], ["v1", "tag"]]
    assert run(["branches", str(branching), "--json"]) == 0
    refs = {ref["name"]: ref for ref in json.loads(capsys.readouterr().out)}
    assert refs["feature"]["is_head"] and not refs["main"]["is_head"]
    assert refs["v1"]["commit"] == refs["main"]["commit"]


def test_a_comparison_is_text_in_a_pipe(
    branching: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", "main", "feature", "--path", str(branching), "--symbols"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "main...feature: 1 commit ahead, 0 behind; 2 files changed, +5 -1",
        "A \\x1b[31mred +1",
        "M a.py +4 -1",
        "    + g 5-5",
        "    ~ f 1-2",
    ]
    assert run(["compare", "main", "feature", "--path", str(branching)]) == 0
    assert "~ f" not in capsys.readouterr().out


def test_a_comparison_is_json_for_programs(
    branching: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--path", str(branching), "--symbols", "--json"]
    assert run(["compare", "v1", "worktree", *options]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert (reply["branch_a"], reply["branch_b"], reply["files_changed"]) == ("v1", "worktree", 2)
    assert [one["name"] for one in reply["differences"][1]["symbols_added"]] == ["g"]


@pytest.mark.parametrize("with_symbols", [True, False])
def test_a_person_sees_files_and_definitions(
    branching: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    with_symbols: bool,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    symbols = ["--symbols"] if with_symbols else []
    assert run(["compare", "main", "feature", "--path", str(branching), *symbols]) == 0
    shown = capsys.readouterr().out
    assert "1 commit ahead" in shown and "a.py" in shown and "\x1b[31mred" not in shown
    assert ("~ f 1-2" in shown) is with_symbols


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "main", "nope"], "neither a branch nor a tag"),
        (["compare", "main", "feature", "--path", "/"], "not in a git repository"),
        (["branches", "/"], "not in a git repository"),
    ],
)
def test_what_does_not_fit_is_explained(
    branching: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(branching)
    assert run(arguments) != 0
    assert message in capsys.readouterr().err
