"""Homes and projects without the settings of this machine, for ``codebase-mcp setup``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codebase_mcp.cli.main import run
from codebase_mcp.cli.setup.clients import Machine

VARIABLES = (
    "XDG_CONFIG_HOME", "APPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME",
    "CLAUDE_PROJECT_DIR", "CODEBASE_MCP_PROJECT_DIR", "CODEBASE_MCP_TOOLSETS",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of one's own, and nothing of this machine in the environment."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setenv("CODEBASE_MCP_DATA_DIR", str(tmp_path / "data"))
    return home


@pytest.fixture
def project(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, in which the user works."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def setup(*arguments: str) -> int:
    return run(["setup", *arguments])


def machine(home: Path) -> Machine:
    return Machine(home, sys.platform, {})


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
