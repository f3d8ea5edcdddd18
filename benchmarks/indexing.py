"""How fast is an index run, what does it take, and how does that grow with the number of files?

    python benchmarks/indexing.py [--sizes 100,1000,10000,50000] [--rounds 3] [--semble PYTHON]
                                  [--semble-workers 0] [--only homeassistant] [--json FILE]
                                  [--cache FOLDER] [--folder FOLDER]

Corpora of real files (``corpora.py``), each indexed by us and by semble in turn, with the same
model and the same files: as new programs with nothing kept, and within programs that run. Times
are medians of the rounds; corpora of more than 20,000 files are indexed once. Core-seconds count
all processes, PostgreSQL's included, until nothing goes on in the background any more; memory is
the peak of what all of them hold in proportion (PSS).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebase_mcp.database.server import Embedded, EmbeddedServer
from corpora import Source, choose, collect, megabytes, write
from indexing_report import Figures, report, summary
from processes import Meter
from sides import GRAMMARS, HERE, Peer, Program

SIZES = (100, 1_000, 10_000, 50_000)
ROUNDS = 3
# Larger corpora take minutes each time.
ONCE_ABOVE = 20_000
EDITS = 3
UNCHANGED = 5

# Whoever reads a file within two seconds of its last change has to read it again (`index/plan.py`).
REST_S = 2.5


@dataclass(frozen=True, slots=True)
class Trees:
    """A corpus, another of about its size, the file that is edited, and unpacked grammars."""

    first: Path
    second: Path
    victim: Source
    files: int
    second_files: int
    source_mb: float
    grammars: Path


def measure_ours(trees: Trees, folder: Path) -> Figures:
    """One round of ours, in new data folders."""
    data_dir = folder / "new"
    with _ending(data_dir):
        program = Path(sys.executable).with_name("codebase-mcp")
        command = [program, "index", trees.first, "--json"]
        environment = {"CODEBASE_MCP_DATA_DIR": str(data_dir)}
        figures = _run("new_process", command, str(data_dir), environment)
        figures |= _run("unchanged_process", command, str(data_dir), environment)
    data_dir = folder / "data"
    with _ending(data_dir):
        side = Program(
            [sys.executable, HERE / "our_indexing.py", data_dir],
            str(data_dir),
            {GRAMMARS: str(trees.grammars)},
        )
        _ask_all(side, trees, figures, ("edit", "edit_unseen"))
        side.close()
    return figures


def measure_semble(trees: Trees, folder: Path, peer: Peer) -> Figures:
    """One round of semble, with empty caches."""
    new = folder / "new"
    environment = {**peer.environment, GRAMMARS: str(folder / "grammars")}
    figures = _run("new_process", peer.command(new, trees.first), str(new), environment)
    kept = folder / "kept"
    environment = {**peer.environment, GRAMMARS: str(trees.grammars)}
    program = Program(peer.command(kept), str(kept), environment)
    _ask_all(program, trees, figures, ("edit",))
    program.close()
    return figures


def _ask_all(program: Program, trees: Trees, figures: Figures, edits: Sequence[str]) -> None:
    tree = str(trees.first)
    cold, use = program.ask_watched("cold", tree=tree)
    figures["cold"] = cold["seconds"]
    figures["kept"] = cold.get("kept_s", 0.0)
    figures["files"], figures["chunks"] = cold["files"], cold["chunks"]
    figures["core_s"] = use.total_core_s
    figures["core_s_by_role"] = use.core_s_by_role()
    figures["peak_mb"] = use.peak_mb
    figures["peak_mb_by_role"] = use.peak_mb_by_role
    figures["disk"] = program.ask("disk", tree=tree)
    figures["unchanged"] = _middle(
        program.ask("unchanged", tree=tree)["seconds"] for _ in range(UNCHANGED)
    )
    for edit in edits:
        figures[edit] = _middle(_edited(program, trees, edit) for _ in range(EDITS))
    if trees.second_files:
        program.rest()  # the search for what was edited has begun a vector index
        second, use = program.ask_watched("second", tree=str(trees.second))
        figures["second"] = second["seconds"]
        figures["second_times"] = second["seconds"] / figures["cold"]
        figures["second_peak_mb"] = use.peak_mb


def _edited(program: Program, trees: Trees, edit: str) -> float:
    """Save a new definition in a file, as an editor does, and wait until it can be found."""
    path = trees.first / trees.victim.path
    name = f"edited_at_{time.time_ns()}"
    changed = path.with_name(path.name + ".new")
    changed.write_bytes(path.read_bytes() + f"\n\ndef {name}():\n    return 1\n".encode())
    changed.replace(path)
    answer = program.ask(edit, tree=str(trees.first), path=trees.victim.path, name=name)
    if not answer["found"]:
        raise SystemExit(f"{edit}: what was edited is not found")
    seconds: float = answer["seconds"]
    return seconds


def _run(
    name: str, command: Sequence[str | Path], marker: str, environment: dict[str, str]
) -> Figures:
    """A whole command: the first time grammars are packed and there is no database."""
    started = time.perf_counter()
    with subprocess.Popen(
        list(map(str, command)), env={**os.environ, **environment}, stdout=subprocess.DEVNULL
    ) as process:
        meter = Meter(marker, process.pid)
        status = process.wait()
        seconds = time.perf_counter() - started
    if status:
        raise SystemExit(f"{command[0]} failed")
    return {name: seconds, f"{name}_core_s": meter.stop().total_core_s}


@contextmanager
def _ending(data_dir: Path) -> Iterator[None]:
    """Stop the database of a data folder afterwards."""
    try:
        yield
    finally:
        EmbeddedServer(Embedded(data_dir)).stop()


def _middle(values: Iterator[float]) -> float:
    taken = sorted(values)
    return taken[len(taken) // 2]


def _written(sources: Sequence[Source], count: int, folder: Path) -> Trees:
    """Both corpora below a folder, left alone for long enough that their times can be trusted."""
    first, second = choose(sources, count), choose(sources, count, count)
    edited = (f for f in first if f.path.endswith(".py") and 2_000 < f.size < 20_000)
    victim = next(edited, None)
    if victim is None:
        raise SystemExit("There is no Python file to edit: take more files.")
    trees = Trees(
        folder / f"corpus-{count}",
        folder / f"second-{count}",
        victim,
        len(first),
        len(second),
        megabytes(first),
        folder / "grammars",
    )
    write(first, trees.first)
    write(second, trees.second)
    time.sleep(REST_S)
    return trees


def _rested(trees: Trees) -> None:
    """Put the edited file back as it was."""
    path = trees.first / trees.victim.path
    path.unlink()
    write([trees.victim], trees.first)
    time.sleep(REST_S)


def measure(options: argparse.Namespace) -> None:
    """All sizes; what is known is said after each."""
    sources = [file for file in collect(options.cache) if file.path.startswith(options.only)]
    peer = Peer(options.semble, options.semble_workers) if options.semble else None
    results = []
    for count in options.sizes:
        rounds = 1 if count > ONCE_ABOVE else options.rounds
        with tempfile.TemporaryDirectory(
            prefix="codebase-mcp-bench-", dir=options.folder, ignore_cleanup_errors=True
        ) as name:
            Path(name).chmod(0o755)  # the database's user must get through, when run as root
            results.append(_alternating(_written(sources, count, Path(name)), rounds, peer))
        print(report(results), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _alternating(trees: Trees, rounds: int, peer: Peer | None) -> dict[str, Any]:
    """All rounds of one size, both sides in turn."""
    ours, theirs = [], []
    for number in range(rounds):
        place = trees.first.parent / str(number)
        place.mkdir()
        ours.append(measure_ours(trees, place / "ours"))
        _rested(trees)
        if peer is not None:
            theirs.append(measure_semble(trees, place / "semble", peer))
            _rested(trees)
        print(f"{trees.files} files, round {number + 1}", file=sys.stderr, flush=True)
    return {
        "files": trees.files,
        "second_files": trees.second_files,
        "source_mb": trees.source_mb,
        "ours": summary(ours),
        "semble": summary(theirs) if theirs else None,
        "rounds": {"ours": ours, "semble": theirs},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", type=lambda text: [int(part) for part in text.split(",")], default=SIZES
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--semble", type=Path, help="an interpreter that has semble")
    parser.add_argument("--semble-workers", type=int, default=0, help="its own worker processes")
    parser.add_argument("--json", type=Path, help="where all figures go")
    parser.add_argument("--only", default="", help="a package, by how its folder begins")
    parser.add_argument("--cache", type=Path, help="where packages are kept")
    parser.add_argument("--folder", type=Path, help="where corpora and databases are made")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
