"""How long do calls take, and how much work is a call? The machine may be busy; work is not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


@dataclass(slots=True)
class Latencies:
    """What some calls took, in ms.

    ``seconds`` is the time in which all were made, if it says how many there can be. ``work`` is
    the processor time of each call in this process and in the database's, or one mean of all.
    """

    taken: list[float] = field(default_factory=list)
    seconds: float = 0.0
    work: list[tuple[float, float]] = field(default_factory=list)

    def facts(self) -> dict[str, float]:
        """The figures, by name."""
        if not self.taken:
            return {"calls": 0}
        figures = {
            "calls": len(self.taken),
            "p50_ms": percentile(self.taken, 0.5),
            "p95_ms": percentile(self.taken, 0.95),
            "max_ms": max(self.taken),
        }
        if self.seconds:
            figures["per_s"] = len(self.taken) / self.seconds
        if self.work:
            figures["python_work_ms"] = mean(ours for ours, _ in self.work)
            figures["database_work_ms"] = mean(theirs for _, theirs in self.work)
        if len(self.work) > 1:
            sums = list(map(sum, self.work))
            figures["work_p50_ms"] = percentile(sums, 0.5)
            figures["work_p95_ms"] = percentile(sums, 0.95)
        return {name: round(value, 3) for name, value in figures.items()}


class Work:
    """Reads the processor time of this process and of a database server's processes.

    One that ends meanwhile is no longer counted: parallel workers of a statement, for instance.
    """

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self._servers = children_of(server_pid)

    def refresh(self) -> None:
        """Count the processes, too, that the server has started since."""
        self._servers = children_of(self._server_pid)

    def now(self) -> tuple[float, float]:
        """Both so far, in ms; what reading itself takes is before."""
        theirs = self._of_servers()
        return time.process_time_ns() / 1e6, theirs

    def since(self, before: tuple[float, float]) -> tuple[float, float]:
        """Both since then, in ms; what reading itself takes is after."""
        ours = time.process_time_ns() / 1e6
        return ours - before[0], self._of_servers() - before[1]

    def _of_servers(self) -> float:
        return sum(map(processor_ns, self._servers)) / 1e6


def parent_of(pid: int) -> int:
    """The process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def children_of(pid: int) -> list[int]:
    """The processes that one has started and that have not ended."""
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in _words(task / "children")]


def processor_ns(pid: int) -> int:
    """The processor time of a process's first thread."""
    return int((_words(Path(f"/proc/{pid}/schedstat")) or ["0"])[0])


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:  # it has ended
        return []
