"""The two sides of a comparison: programs that are asked, and watched from outside."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packages import LANGUAGES
from processes import Meter, Use

# Both sides unpack grammars where this says, once for each folder.
GRAMMARS = "SEMBLE_GRAMMARS_CACHE_DIR"

HERE = Path(__file__).parent
MODEL = HERE.parent / "src" / "codebase_mcp" / "embedding" / "builtin"


class Program:
    """One side: a program that is asked, a line of JSON each way, and watched from outside."""

    def __init__(
        self, command: Sequence[str | Path], marker: str, environment: dict[str, str]
    ) -> None:
        self._marker = marker
        self._command = command
        self._process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )
        self._answer()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """What it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def ask_watched(self, do: str, **request: Any) -> tuple[dict[str, Any], Use]:
        """What it answers, and what that took, until everything is at rest again."""
        meter = Meter(self._marker, self._process.pid)
        answer = self.ask(do, **request)
        meter.wait_until_idle()
        return answer, meter.stop()

    def rest(self) -> None:
        """Return when what goes on in the background is over."""
        meter = Meter(self._marker, self._process.pid)
        meter.wait_until_idle()
        meter.stop()

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._command[1]} ended early")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True, slots=True)
class Peer:
    """How semble is run."""

    python: Path
    workers: int

    @property
    def environment(self) -> dict[str, str]:
        return {
            "SEMBLE_INDEX_WORKERS": str(self.workers),
            "SUFFIXES": json.dumps(list(LANGUAGES)),
            "HF_HUB_OFFLINE": "1",
        }

    def command(self, folder: Path, *tree: Path) -> list[str | Path]:
        return [self.python, HERE / "semble_indexing.py", MODEL, folder, *tree]
