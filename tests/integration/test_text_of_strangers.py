"""A repository whose names, code and records try to steer the terminal of whoever looks at them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.integration.conftest import Shell

MakeRepo = Callable[..., Path]
Printed = Callable[..., str]

ATTACK = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture
def printed_by(shell: Shell) -> Printed:
    """What one command prints, on both outputs, in a project of the test's own."""
    project = f"test-{uuid4().hex[:12]}"

    def run(*arguments: str) -> str:
        done = shell(*arguments, "--project", project)
        return done.stdout + done.stderr

    return run


def test_no_command_prints_what_a_terminal_would_obey(
    printed_by: Printed, make_repo: MakeRepo
) -> None:
    name = f"evil{ATTACK}.py"
    root = make_repo(
        {
            name: f"def open_the_vault():  # {ATTACK}\r\n    return '\u202e gone'\r\n",
            f"broken{ATTACK}\n.py": b"\xff\xfe\xfa",
        },
        f"root{ATTACK}",
    )
    printed = {
        "index": printed_by("index", str(root)),
        "index again": printed_by("index", str(root), "--json"),
        "search": printed_by("search", "open_the_vault"),
        "search json": printed_by("search", "open_the_vault", "--json"),
        "status": printed_by("status"),
        "projects": printed_by("projects"),
        "dry run": printed_by("index", str(root), "--dry-run"),
        "add": printed_by("tasks", "add", f"Do{ATTACK}", "--at", f"{name}:open_the_vault"),
        "tasks": printed_by("tasks"),
        "remember": printed_by("memory", "add", f"We do{ATTACK}"),
        "recall": printed_by("memory", "search", "We do"),
        "export": printed_by("export"),
        "model": printed_by("model"),
        "error": printed_by("index", str(root / "no\x1b[2J")),
        "usage": printed_by("index", str(root), str(root)),
        "purge": printed_by("purge", str(root / name), "--yes"),
        "remove": printed_by("remove", str(root)),
    }
    assert {at: text for at, text in printed.items() if OBEYED.search(text)} == {}
    shown = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
    assert f"1. root{shown}/evil{shown}.py:1-2" in printed["search"]
    assert r"return '\u202e gone'" in printed["search"]
    assert json.loads(printed["search json"])["results"][0]["file_path"] == name
    assert r"\x0a.py: File is not valid UTF-8" in printed["index"]
    assert r"Do\x1b]0;owned" in printed["tasks"]
