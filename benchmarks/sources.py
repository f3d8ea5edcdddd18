"""Large real source trees to measure with."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
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
