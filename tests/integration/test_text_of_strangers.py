"""A repository whose names, code and records try to steer the terminal of whoever looks at them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from codebase_mcp.settings.loading import Settings

MakeRepo = Callable[..., Path]
Shell = Callable[..., str]

ATTACK = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture
def shell(settings: Settings, tmp_path: Path) -> Shell:
    """What one command of the product prints, on both outputs, in a project of the test's own."""
    environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir), "COLUMNS": "200"}
    project = f"test-{uuid4().hex[:12]}"

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "codebase_mcp.cli.main", *arguments, "--project", project],
            env=environment, cwd=tmp_path, capture_output=True, check=False,
        )  # fmt: skip
        return done.stdout.decode() + done.stderr.decode()

    return run


def test_no_command_prints_what_a_terminal_would_obey(shell: Shell, make_repo: MakeRepo) -> None:
    name = f"evil{ATTACK}.py"
    root = make_repo(
        {
            name: f"def open_the_vault():  # {ATTACK}\r\n    return '\u202e gone'\r\n",
            f"broken{ATTACK}\n.py": b"\xff\xfe\xfa",
        },
        f"root{ATTACK}",
    )
    printed = {
        "index": shell("index", str(root)),
        "index again": shell("index", str(root), "--json"),
        "search": shell("search", "open_the_vault"),
        "search json": shell("search", "open_the_vault", "--json"),
        "status": shell("status"),
        "projects": shell("projects"),
        "dry run": shell("index", str(root), "--dry-run"),
        "add": shell("tasks", "add", f"Do{ATTACK}", "--at", f"{name}:open_the_vault"),
        "tasks": shell("tasks"),
        "remember": shell("memory", "add", f"We do{ATTACK}"),
        "recall": shell("memory", "search", "We do"),
        "export": shell("export"),
        "model": shell("model"),
        "error": shell("index", str(root / "no\x1b[2J")),
        "usage": shell("index", str(root), str(root)),
        "purge": shell("purge", str(root / name), "--yes"),
        "remove": shell("remove", str(root)),
    }
    assert {at: text for at, text in printed.items() if OBEYED.search(text)} == {}
    assert r"1. evil\x1b]0;owned\x07\x1b[2J\x9b31m\u202e.py:1-2" in printed["search"]
    assert r"return '\u202e gone'" in printed["search"]
    assert json.loads(printed["search json"])["results"][0]["file_path"] == name
    assert r"\x0a.py: File is not valid UTF-8" in printed["index"]
    assert r"Do\x1b]0;owned" in printed["tasks"]
