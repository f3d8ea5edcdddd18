"""Where do programs store their configuration on this machine?"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """A user's machine: home directory, ``sys.platform`` and environment."""

    home: Path
    platform: str
    environment: Mapping[str, str]

    def folder(self, variable: str, *default: str) -> Path:
        """The folder that a variable names, else one below the home directory."""
        given = self.environment.get(variable, "").strip()
        return Path(given) if given else self.home.joinpath(*default)

    @property
    def config(self) -> Path:
        """The configuration folder of programs that use XDG paths on every platform."""
        return self.folder("XDG_CONFIG_HOME", ".config")

    @property
    def applications(self) -> Path:
        """The configuration folder of desktop applications."""
        match self.platform:
            case "darwin":
                return self.home / "Library" / "Application Support"
            case "win32":
                return self.folder("APPDATA", "AppData", "Roaming")
        return self.config

    def has(self, program: str) -> bool:
        """Whether a program can be started by its name."""
        return shutil.which(program, path=self.environment.get("PATH", "")) is not None
