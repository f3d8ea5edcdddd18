"""How much memory do our processes and PostgreSQL's hold, and how long do they compute?"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")

# Reading what a process holds takes the kernel a while, its CPU time nearly nothing.
_CPU_EVERY_S = 0.2
_MEMORY_EVERY_S = 0.5

# PostgreSQL's processes get their titles a moment after they were forked.
_NOT_NAMED_YET = frozenset({"PostgreSQL server", "other"})

# A pid can be given again; with the time when its process began it cannot.
_Process = tuple[int, int]

# Who used no more than this in so long is at rest.
_IDLE_FOR_S = 1.0
_IDLE_CORE_S = 0.05
_PATIENCE_S = 120.0


@dataclass(slots=True)
class Use:
    """What processes used: core-seconds by what they are for, and the most memory at once (MB)."""

    core_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    peak_mb: float = 0.0
    peak_mb_by_role: dict[str, float] = field(default_factory=dict)

    @property
    def total_core_s(self) -> float:
        return sum(self.core_s.values())

    def core_s_by_role(self) -> dict[str, float]:
        """The core-seconds, the most first."""
        return dict(sorted(self.core_s.items(), key=lambda used: -used[1]))


class Meter:
    """Watches other programs and their database from outside, until told to stop.

    ``marker`` stands in the command of the database's first process. A process that ends between
    two looks takes what it used since the first of them along: a fifth of a second at most.
    """

    def __init__(self, marker: str, *pids: int) -> None:
        self._marker = marker
        self._pids = pids
        self._stop = threading.Event()
        # What is known of a process; None if it is not one of ours.
        self._roles: dict[_Process, str | None] = {}
        self._begun = {key: cpu_s for key, _, cpu_s in self._look()}
        self._used: dict[_Process, tuple[str, float]] = {}
        self._use = Use()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> Use:
        """What was used since the beginning."""
        self._stop.set()
        self._thread.join()
        self._count_cpu()
        for role, cpu_s in self._used.values():
            self._use.core_s[role] += cpu_s
        return self._use

    def wait_until_idle(self) -> None:
        """Return when what goes on in the background is over, two minutes later at most."""
        deadline = time.monotonic() + _PATIENCE_S
        before, used = -1.0, 0.0
        while used - before > _IDLE_CORE_S and time.monotonic() < deadline:
            before = used
            time.sleep(_IDLE_FOR_S)
            used = sum(cpu_s for _, cpu_s in list(self._used.values()))

    def _watch(self) -> None:
        next_memory = time.monotonic()
        while not self._stop.wait(_CPU_EVERY_S):
            seen = self._count_cpu()
            if time.monotonic() >= next_memory:
                self._weigh(seen)
                next_memory = time.monotonic() + _MEMORY_EVERY_S

    def _count_cpu(self) -> dict[int, str]:
        """Take note of what all of them have used; their pids and roles."""
        seen = {}
        for key, role, cpu_s in self._look():
            self._used[key] = (role, cpu_s - self._begun.get(key, 0.0))
            seen[key[0]] = role
        return seen

    def _weigh(self, seen: dict[int, str]) -> None:
        held: defaultdict[str, float] = defaultdict(float)
        for pid, role in seen.items():
            held[role] += pss_mb(pid)
        total = sum(held.values())
        if total > self._use.peak_mb:
            self._use.peak_mb = total
            self._use.peak_mb_by_role = dict(held)

    def _look(self) -> Iterator[tuple[_Process, str, float]]:
        parents, facts = _processes()
        new = {pid for pid, (began, _) in facts.items() if (pid, began) not in self._roles}
        ours = {pid for pid, (began, _) in facts.items() if self._roles.get((pid, began))}
        roots = ours | set(self._pids) | _named(self._marker, new)
        roots.discard(os.getpid())
        for pid, (began, cpu_s) in facts.items():
            role = self._roles.get((pid, began), "")
            if role is None:
                continue
            if not role:
                role = _role(pid, pid in self._pids) if _descends(pid, roots, parents) else None
                if role not in _NOT_NAMED_YET:
                    self._roles[pid, began] = role
            if role is not None:
                yield (pid, began), role, cpu_s


def held_mb(marker: str, *pids: int) -> float:
    """What these processes hold, their descendants, and those whose command names ``marker``."""
    parents, _ = _processes()
    roots = set(pids) | _named(marker, parents)
    roots.discard(os.getpid() if os.getpid() not in pids else -1)
    return sum(pss_mb(pid) for pid in parents if _descends(pid, roots, parents))


def pss_mb(pid: int) -> float:
    """A process's proportional share of memory."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def cpu_s_of(pid: int) -> float:
    """The CPU time of one process so far, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def _processes() -> tuple[dict[int, int], dict[int, tuple[int, float]]]:
    """The parent of every process; when each began (in ticks) and the CPU time it has used."""
    parents: dict[int, int] = {}
    facts: dict[int, tuple[int, float]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - twice as fast, and often
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(name)] = int(fields[1])
        facts[int(name)] = (int(fields[19]), (int(fields[11]) + int(fields[12])) * _TICK_S)
    return parents, facts


def _named(marker: str, pids: Iterable[int]) -> set[int]:
    """Of these processes those whose command names the marker."""
    return {pid for pid in pids if marker in _command(pid)}


def _command(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
    except OSError:
        return ""


def _role(pid: int, is_main: bool) -> str:
    """What a process is for; PostgreSQL's say it in their command."""
    if is_main:
        return "main"
    command = _command(pid)
    if command.startswith("postgres: "):
        title = command.removeprefix("postgres: ")
        for word in ("checkpointer", "background writer", "walwriter", "autovacuum", "io worker"):
            if title.startswith(word):
                return f"PostgreSQL {word}"
        return "PostgreSQL backends"
    if "multiprocessing" in command:
        return "workers"
    if "supervisor" in command:
        return "supervisor"
    return "PostgreSQL server" if "postgres" in command.split(" ", 1)[0] else "other"


def _descends(pid: int, roots: set[int], parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid in roots:
            return True
        pid = parents[pid]
    return False
