"""Real git repositories, kept apart from the configuration of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import codebase_mcp

IMPORTS = """
import os
from pathlib import Path
from codebase_mcp.model import FileKind, SourceFile
from codebase_mcp.source.read import read_source
from codebase_mcp.source.walk import list_files
"""
GIVE_UP_ROOT = "os.setgroups([]), os.setgid(65534), os.setuid(65534)"

Git = Callable[..., bytes]


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, so that neither git's nor our reading finds a person's own settings."""
    folder = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return folder


@pytest.fixture
def git(home: Path) -> Git:
    """Run git in a directory: ``git(directory, "add", "-A")``; fails the test if git fails."""

    def run(directory: Path, *arguments: str) -> bytes:
        settings = {
            "user.name": "Test",
            "user.email": "test@example.org",
            "init.defaultBranch": "main",
            "protocol.file.allow": "always",
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        done = subprocess.run(
            ["git", *flags, *arguments], cwd=directory, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty directory to put files into."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture
def repository(tree: Path, git: Git) -> Path:
    """An empty git repository."""
    git(tree, "init")
    return tree


@pytest.fixture
def public_tree() -> Iterator[Path]:
    """An empty directory that other users reach too, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="cbm-source-"))
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def as_ordinary_user(public_tree: Path) -> Callable[[str], str]:
    """Run a script as somebody whom permissions stop, which root is not; returns its output."""

    def run(script: str) -> str:
        package = Path(codebase_mcp.__file__).parent.parent
        # Only once all is imported: root's own interpreter may be out of others' reach.
        done = subprocess.run(
            [sys.executable, "-c", f"{IMPORTS}if os.geteuid() == 0: {GIVE_UP_ROOT}\n{script}"],
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(package), "HOME": str(public_tree)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run
