"""Git for tests, which sees no settings of the person who runs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SETTINGS = (
    "user.name=Ann",
    "user.email=ann@example.org",
    "init.defaultBranch=main",
    "protocol.file.allow=always",
)
_FLAGS = [part for setting in _SETTINGS for part in ("-c", setting)]


def git(root: Path, *arguments: str, at: str | None = None) -> str:
    """What git prints in a directory; ``at`` is the committer's date. Raises if git fails."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    if at is not None:
        environment["GIT_COMMITTER_DATE"] = at
    done = subprocess.run(
        ["git", *_FLAGS, *arguments],
        cwd=root,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()
