"""How much memory do all our processes hold, the database's included?"""

from __future__ import annotations

import os
import threading
from pathlib import Path


class PeakMemory:
    """Watches the processes of this program and of its database, until told to stop."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._stop = threading.Event()
        self.peak_mb = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """The highest sum seen, in MB."""
        self._stop.set()
        self._thread.join()
        return self.peak_mb

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self.peak_mb = max(self.peak_mb, held_mb(self._marker, os.getpid()))


def held_mb(marker: str, *pids: int) -> float:
    """What these processes hold, their descendants, and those whose command names ``marker``."""
    parents: dict[int, int] = {}
    roots = set(pids)
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            pid = int(folder.name)
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            parents[pid] = int(fields[1])
            if marker.encode() in (folder / "cmdline").read_bytes():
                roots.add(pid)
        except OSError:
            continue
    roots.discard(os.getpid() if os.getpid() not in pids else -1)
    return sum(pss_mb(pid) for pid in parents if _descends(pid, roots, parents))


def _descends(pid: int, roots: set[int], parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid in roots:
            return True
        pid = parents[pid]
    return False


def pss_mb(pid: int) -> float:
    """A process's proportional share of memory."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0
