"""Large real source trees to measure with."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path


def home_assistant(target: Path) -> None:
    """Write the Python files of Home Assistant's source package below ``target``."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            ":all:",
        ]
        subprocess.run([*command, "-d", folder, "homeassistant"], check=True)
        [archive] = Path(folder).glob("homeassistant*.tar.gz")
        with tarfile.open(archive) as packed:
            members = [m for m in packed.getmembers() if m.isfile() and m.name.endswith(".py")]
            packed.extractall(target, members, filter="data")


def on_a_tree(measure: Callable[[Path, Path], Awaitable[None]], about: str | None) -> None:
    """Measure a copy of the tree that the user names, or Home Assistant's, in a new data folder.

    ``measure`` gets the tree and the data folder; both go away afterwards.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("source", nargs="?", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(
        prefix="codebase-mcp-bench-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the database's user must get through, when run as root
        tree = Path(folder, "tree")
        if options.source is None:
            home_assistant(tree)
        else:
            shutil.copytree(options.source, tree, symlinks=True)

        async def run() -> None:
            await measure(tree, Path(folder, "data"))

        asyncio.run(run())
