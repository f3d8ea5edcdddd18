"""How long does a command take to start, and a server to say hello?

Processor time and wall time of commands in a warm state, side by side with ``python -c pass`` and
with semble's command on the same tree; medians of a few rounds. Of a server on stdio the handshake,
the first search and the second one are timed. At last ten servers run at once on the index: when
each has answered its first search, counted from its start, and their memory together (the sum of
what is theirs alone and of their shares of what several have mapped: PSS).

All this first without a resident process, then with one: its time and memory, and those of its
copies, are added.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from codebase_mcp.cli.launch import MINUTES
from codebase_mcp.database.server import Embedded, EmbeddedServer

HERE = Path(__file__).parents[1]
MODEL = HERE / "src" / "codebase_mcp" / "embedding" / "builtin"
QUESTION = "where are failed requests retried"
OURS = (str(Path(sys.executable).parent / "codebase-mcp"),)
COMMANDS = {
    "search": ("search", QUESTION),
    "search --json": ("search", "--json", QUESTION),
    "status": ("status",),
    "projects": ("projects",),
    "tasks": ("tasks",),
    "memory": ("memory",),
    "--help": ("--help",),
}
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
# A client lists tools, and an agent thinks, before it searches.
THINKING_S = 5.0
LOADING_S = 15.0
ENDING_S = 0.2


def main() -> None:
    """Print a row for each command, then one for each server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--semble", type=os.path.abspath, help="semble's command")
    parser.add_argument("--tree", type=Path, default=HERE, help="what is searched (this project)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--servers", type=int, default=10)
    options = parser.parse_args()
    commands = {"python -c pass": (sys.executable, "-c", "pass")}
    if options.semble:
        commands["semble search"] = (options.semble, "search", QUESTION, str(options.tree))
    commands |= {name: (*OURS, *arguments) for name, arguments in COMMANDS.items()}
    with tempfile.TemporaryDirectory(prefix="bench-start-") as folder:
        Path(folder).chmod(0o755)
        # A program that is installed has its bytecode, whatever the shell here says.
        ours = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
        environment = ours | {
            "CODEBASE_MCP_DATA_DIR": f"{folder}/data",
            "CODEBASE_MCP_IDLE_MINUTES": "1",
            "SEMBLE_MODEL_NAME": str(MODEL),
            "HF_HUB_OFFLINE": "1",
        }
        run((*OURS, "index", str(options.tree)), options.tree, environment)
        for minutes in ("0", "30"):
            environment[MINUTES] = minutes
            print("\nwith a resident process" if minutes != "0" else "each by itself")
            if minutes != "0":
                run((*OURS, "projects"), options.tree, environment)
                time.sleep(LOADING_S)
            measure(commands, options.rounds, options.tree, environment)
            greet(options.rounds, options.tree, environment)
            crowd(options.servers, options.tree, environment)
        for pid in residents():
            os.kill(pid, signal.SIGTERM)
        EmbeddedServer(Embedded(Path(folder) / "data")).stop()


def residents() -> list[int]:
    """The resident processes of this machine with their copies, the oldest first."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"codebase_mcp.cli.resident" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return sorted(found)


def _time_of_residents() -> float:
    """Their processor time and that of the copies that have ended, in ms."""
    total = 0
    for pid in residents():
        with suppress(OSError):
            numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
            total += sum(map(int, numbers))
    return total * 1000 / os.sysconf("SC_CLK_TCK")


def measure(
    commands: dict[str, Sequence[str]], rounds: int, tree: Path, environment: dict[str, str]
) -> None:
    """Time all commands in turn, round after round, so that all share the machine's moods."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            taken = run(command, tree, environment)
            if number:  # the first round only warms
                times[name].append(taken)
    print(f"{'':20} {'processor':>10} {'least':>8} {'wall':>8}   ms, medians of {rounds}")
    for name, taken in times.items():
        processor, wall = zip(*taken, strict=True)
        middle = statistics.median(processor)
        print(f"{name:20} {middle:10.0f} {min(processor):8.0f} {statistics.median(wall):8.0f}")


def run(command: Sequence[str], tree: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Processor and wall time of a command, in ms."""
    before, others = resource.getrusage(resource.RUSAGE_CHILDREN), _time_of_residents()
    started = time.perf_counter()
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    time.sleep(ENDING_S)  # a copy ends a moment later
    return processor * 1000 + _time_of_residents() - others, wall * 1000


def greet(rounds: int, tree: Path, environment: dict[str, str]) -> None:
    """Time what a client waits for at a server on stdio."""
    taken = [_greet_once(tree, environment) for _ in range(rounds)]
    names = ("initialize", "tools/list", "first search", "second search")
    for name, times in zip(names, zip(*taken, strict=True), strict=True):
        print(f"{name:20} {'':10} {'':8} {statistics.median(times):8.0f}")


def crowd(count: int, tree: Path, environment: dict[str, str]) -> None:
    """Start servers one after the other, let each search, and add up their memory."""
    with ExitStack() as stack:
        answered, servers = [], []
        for _ in range(count):
            started = time.perf_counter()
            servers.append(stack.enter_context(_server(tree, environment)))
            _hello(servers[-1])
            _search(servers[-1], QUESTION)
            answered.append((time.perf_counter() - started) * 1000)
        time.sleep(THINKING_S)
        processes = [*(server.pid for server in servers), *residents()]
        total = sum(_pss_kb(pid) for pid in processes) / 1024
    print(f"{'start to answer':20} {'':10} {'':8} {statistics.median(answered):8.0f}")
    print(f"{count} servers: {total:.0f} MB")


def _pss_kb(pid: int) -> int:
    """The memory of a process, with its share of what it shares with others, in kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


@contextmanager
def _server(tree: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server on stdio."""
    with subprocess.Popen(
        OURS,
        cwd=tree,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        yield server
        assert server.stdin is not None
        server.stdin.close()


def _hello(server: subprocess.Popen[bytes]) -> None:
    client = {"name": "bench", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    _ask(server, "initialize", hello)
    _send(server, {"method": "notifications/initialized"})


def _search(server: subprocess.Popen[bytes], query: str) -> float:
    return _ask(server, "tools/call", {"name": "search_code", "arguments": {"query": query}})


def _greet_once(tree: Path, environment: dict[str, str]) -> list[float]:
    started = time.perf_counter()
    with _server(tree, environment) as server:
        _hello(server)
        taken = [(time.perf_counter() - started) * 1000, _ask(server, "tools/list", {})]
        time.sleep(THINKING_S)
        taken += [_search(server, QUESTION), _search(server, "how are ignored files found")]
    return taken


def _ask(server: subprocess.Popen[bytes], method: str, parameters: object) -> float:
    started = time.perf_counter()
    _send(server, {"id": 1, "method": method, "params": parameters})
    assert server.stdout is not None
    reply = json.loads(server.stdout.readline())
    assert not reply["result"].get("isError"), reply
    return (time.perf_counter() - started) * 1000


def _send(server: subprocess.Popen[bytes], message: dict[str, object]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


if __name__ == "__main__":
    main()
