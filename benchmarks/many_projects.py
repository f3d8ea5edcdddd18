"""How does one embedded database behave with a thousand projects?

    python benchmarks/many_projects.py [--projects 1000] [--at 100,300] [--folder FOLDER]
                                       [--json FILE]

Each project has a small repository of a few files of Python's standard library. At each number of
projects: what making one takes, the start of the database and of a server, commands, calls of a
server, a backup of one project, memory and disk. With ``--folder`` the projects are kept there, and
a later call goes on where it ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from statistics import mean

from codebase_mcp import App
from codebase_mcp.database.projects import list_projects
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.settings.loading import Settings
from latency import percentile
from load import Client, free_port, listening, served
from our_indexing import held_bytes
from processes import held_mb, pss_mb
from scale import Figures, command_s, numbers

FILES = 5
CALLS = 20
QUESTION = "open a file and read its lines"


def write_tree(folder: Path, number: int) -> Path:
    """A repository of some files, others for each number."""
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    tree = folder / "trees" / f"r{number:04}"
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "own.py").write_text(f"def own_{number}():\n    return {number}\n")
    for step in range(1, FILES):
        shutil.copy(modules[(number * step) % len(modules)], tree)
    return tree


async def grow(folder: Path, environment: dict[str, str], count: int) -> Figures:
    """Make projects up to ``count``; the seconds each took, mean of the first and last tenth."""
    taken = []
    async with await App.open(Settings.load(environment)) as app:
        for number in range(len(await list_projects(app.database)), count):
            tree = write_tree(folder, number)
            started = time.perf_counter()
            await app.index(tree, f"p{number}")
            taken.append(time.perf_counter() - started)
    tenth = max(len(taken) // 10, 1)
    if not taken:
        return {}
    return {"one made, s: at first": mean(taken[:tenth]), "at last": mean(taken[-tenth:])}


async def served_figures(environment: dict[str, str], data_dir: Path) -> Figures:
    """A server over HTTP: its start, some calls, its memory."""
    port, started = free_port(), time.perf_counter()
    command = [sys.executable, "-m", "codebase_mcp.cli.main", "serve", "--transport", "http"]
    command += ["--port", str(port), "--toolsets", "all"]
    with served(command, environment) as process:
        await listening(port)
        figures: Figures = {"server listens after, s": time.perf_counter() - started}
        client = Client(port)
        calls = {
            "search": ("search_code", {"query": QUESTION, "project_id": "p1"}),
            "health": ("project", {"operation": "get_health"}),
            "list_projects": ("list_projects", {}),
            "projects with repositories": ("project", {"operation": "list"}),
        }
        for name, (tool, arguments) in calls.items():
            taken = []
            for _ in range(CALLS):
                before = time.perf_counter()
                reply = await client.call(tool, arguments)
                taken.append((time.perf_counter() - before) * 1000)
                if reply.get("isError"):
                    raise SystemExit(f"{name}: {reply['structuredContent']}")
            figures[f"call {name}, ms: first, median"] = [taken[0], percentile(taken, 0.5)]
        figures["server, MB"] = pss_mb(process.pid)
        figures["with PostgreSQL, MB"] = held_mb(str(data_dir), process.pid)
        client.close()
    return figures


def command_figures(folder: Path, environment: dict[str, str]) -> Figures:
    """Whole commands."""
    backup = folder / "backup.tar.gz"
    commands = {
        "migrate --check --all": (),
        "migrate --all": (),
        "doctor": (),
        "projects --limit 50": (),
        "status --project p1": (),
        "search --project p1": (QUESTION,),
        "search --json": (QUESTION,),
        "backup --project p1": ("--output", str(backup)),
    }
    tree = folder / "trees" / "r0001"
    return {
        f"{name}, s": command_s((*name.split(), *rest), environment, tree)
        for name, rest in commands.items()
    }


def restart_s(data_dir: Path) -> float:
    """The seconds in which a stopped database is there again."""
    server = EmbeddedServer(Embedded(data_dir))
    server.stop()
    started = time.perf_counter()
    again = EmbeddedServer(Embedded(data_dir))
    again.join()
    seconds = time.perf_counter() - started
    again.leave()
    return seconds


async def run(options: argparse.Namespace, folder: Path) -> None:
    """Grow and measure, again and again."""
    data_dir = folder / "data"
    environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)}
    results = []
    for count in (*options.at, options.projects):
        figures: Figures = {"projects": count} | await grow(folder, environment, count)
        figures["database started again, s"] = await asyncio.to_thread(restart_s, data_dir)
        figures |= await served_figures(environment, data_dir)
        figures |= await asyncio.to_thread(command_figures, folder, environment)
        figures["data folder, MB"] = held_bytes(data_dir) / 1e6
        results.append(figures)
        print(json.dumps(figures, indent=1), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--projects", type=int, default=1_000)
    parser.add_argument("--at", type=numbers, default=[])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="codebase-mcp-projects-") as name:
        folder: Path = (options.folder or Path(name)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # the database's user must get through, when run as root
        try:
            asyncio.run(run(options, folder))
        finally:
            EmbeddedServer(Embedded(folder / "data")).stop()


if __name__ == "__main__":
    main()
