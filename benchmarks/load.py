"""Does the server hold under load, and does it keep its memory?

    python benchmarks/load.py [SOURCE] [--clients 100] [--seconds 60] [--http-workers 1]
                              [--pause 4] [--soak MINUTES]

Indexes SOURCE (Python's standard library unless given; an absolute path) in a new data directory
and serves it over HTTP. First one client makes a call in this process and over HTTP, in turn: over
HTTP it writes a request to a connection that it keeps, and parses the response. Then, beside a
server of the same framework whose one tool does nothing, both get the same clients at once, one
server after the other in one run: agents that pause between their calls as one does who reads an
answer, then clients that never pause, which shows what the machine can do at most. The mix is that
of a working agent: mostly searches, some tasks read, written and listed. Clients and server share
the machine. Then the memory of all our processes (PSS), PostgreSQL's included: idle, and with
``--soak`` after one minute of load and at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codebase_mcp import App
from codebase_mcp.access.identity import Identity
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.catalog import tool_named
from codebase_mcp.tools.reply import as_text
from codebase_mcp.tools.server import AppHolder
from latency import children_of, percentile, processor_ns
from processes import held_mb

PROTOCOL = "2026-07-28"
QUESTIONS = (
    "parse http headers", "wait for a thread to end", "retry after a timeout", "open a zip archive",
    "compile a regular expression", "walk a directory tree", "format a date", "decode base64",
    "OrderedDict", "subprocess.run", "quote shell arguments", "run a coroutine in a thread",
    "context manager that closes a file", "hash of a password", "match file names by pattern",
)  # fmt: skip
EMPTY_SERVER = """
import sys
from fastmcp import FastMCP
server = FastMCP("empty", version="1")
@server.tool
def nothing(query: str) -> dict[str, str]:
    return {"query": query}
server.run(transport="http", port=int(sys.argv[1]), show_banner=False, log_level="ERROR")
"""

# Servers hang up after five idle seconds; as other clients do, ours trusts no connection so long.
KEEP_ALIVE_S = 4.0

# Calls of each tool in process and over HTTP; the first do not count.
_WARM, _COMPARED = 20, 200

Call = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class Outcome:
    """Latencies in ms by tool, and what went wrong."""

    taken: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def all(self) -> list[float]:
        """Every latency."""
        return [ms for some in self.taken.values() for ms in some]


class Client:
    """One kept connection, one call after the other, without the cost of a client library."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._last_used = 0.0

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a tool, as the protocol has it."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        parameters = {"name": tool, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}
        body = json.dumps(message).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"MCP-Protocol-Version: {PROTOCOL}\r\nMCP-Method: tools/call\r\nMCP-Name: {tool}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        if time.perf_counter() - self._last_used > KEEP_ALIVE_S:
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(head.encode() + body)
        headers = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(headers.partition("content-length:")[2].split("\r\n")[0])
        answer = json.loads(await reader.readexactly(length))
        self._last_used = time.perf_counter()
        if not headers.startswith("http/1.1 200") or "result" not in answer:
            raise RuntimeError(str(answer)[:200])
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def agent_calls(chance: random.Random, tasks: list[str]) -> Call:
    """What an agent asks next."""
    what = chance.random()
    if what < 0.6:
        return "search_code", {"query": chance.choice(QUESTIONS), "limit": 5}
    if what < 0.75:
        return "get_task", {"task_id": chance.choice(tasks)}
    if what < 0.9:
        return "update_task", {"task_id": chance.choice(tasks), "notes": f"{chance.random()}"}
    return "list_tasks", {"limit": 10}


def empty_calls(chance: random.Random, _: list[str]) -> Call:
    """The same of a tool that does nothing."""
    return "nothing", {"query": chance.choice(QUESTIONS)}


async def load(
    port: int,
    next_call: Callable[[random.Random, list[str]], Call],
    tasks: list[str],
    *,
    clients: int,
    seconds: float,
    pause_s: float,
) -> Outcome:
    """Let clients call, each after a random pause around ``pause_s``, for so many seconds."""
    outcome = Outcome()
    started = time.perf_counter()

    async def agent(number: int) -> None:
        chance = random.Random(number)
        client = Client(port)
        await asyncio.sleep(chance.uniform(0, max(pause_s, 0.5)))
        while time.perf_counter() - started < seconds:
            tool, arguments = next_call(chance, tasks)
            before = time.perf_counter()
            try:
                result = await client.call(tool, arguments)
            except (OSError, EOFError, ValueError, RuntimeError) as error:
                outcome.errors[f"{tool}: {error!r}"[:200]] += 1
                client.close()
                client = Client(port)
                continue
            outcome.taken.setdefault(tool, []).append((time.perf_counter() - before) * 1000)
            if result.get("isError"):
                outcome.errors[f"{tool}: {result['structuredContent']}"[:200]] += 1
            await asyncio.sleep(chance.uniform(0.5, 1.5) * pause_s)
        client.close()

    await asyncio.gather(*(agent(number) for number in range(clients)))
    outcome.seconds = time.perf_counter() - started
    return outcome


def show(label: str, outcome: Outcome) -> None:
    """A line for all calls, and one for each tool."""
    taken = outcome.all()
    line = "p50 {:7.1f} ms  p95 {:7.1f} ms  p99 {:7.1f} ms"
    shares = (0.5, 0.95, 0.99)
    print(
        f"{label:28}",
        line.format(*(percentile(taken, share) for share in shares)),
        f" {len(taken) / outcome.seconds:6.1f} calls/s  {sum(outcome.errors.values())} errors",
        flush=True,
    )
    for tool, some in sorted(outcome.taken.items()):
        if len(outcome.taken) > 1:
            print(f"  {tool:26}", line.format(*(percentile(some, share) for share in shares)))
    for error, times in outcome.errors.most_common(5):
        print(f"  {times} times {error}")


async def compare(settings: Settings, port: int, pid: int, task: str) -> None:
    """What a call takes in this process, and how much more of a server (ms)."""
    holder, client, identity = AppHolder(settings), Client(port), Identity()
    questions: list[dict[str, Any]] = [{"query": query, "limit": 5} for query in QUESTIONS]
    for tool, choice in (("get_task", [{"task_id": task}]), ("search_code", questions)):
        spec = tool_named(tool)
        here, more, work, work_there = [], [], [], []
        for number in range(_WARM + _COMPARED):
            arguments = choice[number % len(choice)]
            began, busy = time.perf_counter(), time.process_time()
            as_text((await holder.reply(spec, arguments, identity)).as_json())
            here.append((time.perf_counter() - began) * 1000)
            work.append((time.process_time() - busy) * 1000)
            busy_there = _processor_ms(pid)
            began = time.perf_counter()
            await client.call(tool, arguments)
            more.append((time.perf_counter() - began) * 1000 - here[-1])
            work_there.append(_processor_ms(pid) - busy_there)
        p50 = [percentile(some[_WARM:], 0.5) for some in (here, more, work, work_there)]
        print(
            "{}: in process {:.2f} ms; HTTP, more than in process: {:.2f} ms;"
            " processor time in process {:.2f}, of the server {:.2f}".format(tool, *p50),
            flush=True,
        )
    client.close()
    await holder.close()


def _processor_ms(pid: int) -> float:
    """The processor time of a server and its workers."""
    return sum(map(processor_ns, (pid, *children_of(pid)))) / 1e6


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def served(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server's process, for as long as the block runs."""
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


async def listening(port: int) -> None:
    """Wait until a server answers."""
    for _ in range(300):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
            continue
        writer.close()
        return
    raise SystemExit(f"Nothing listens on port {port}")


async def measure(options: argparse.Namespace, data_dir: Path) -> None:
    """Index, serve, load, print."""
    environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)}
    async with await App.open(Settings.load(environment)) as app:
        run = (await app.index(options.source)).run
        print(f"{run.files_indexed} files, {run.chunks_created} chunks", flush=True)
    port, empty_port = free_port(), free_port()
    ours = [sys.executable, "-m", "codebase_mcp.cli.main", "serve", "--transport", "http"]
    ours += ["--port", str(port), "--toolsets", "all"]
    if options.http_workers > 1:
        ours += ["--http-workers", str(options.http_workers)]
    empty = [sys.executable, "-c", EMPTY_SERVER, str(empty_port)]
    with served(ours, environment) as process, served(empty, environment):
        await asyncio.gather(listening(port), listening(empty_port))
        client = Client(port)
        await client.call("search_code", {"query": "open a file"})
        tasks = []
        for number in range(200):
            made = await client.call("create_task", {"title": f"Task {number}"})
            tasks.append(made["structuredContent"]["id"])
        await compare(Settings.load(environment), port, process.pid, tasks[0])
        print(f"idle: {held_mb(str(data_dir), process.pid):.0f} MB in all processes", flush=True)
        for label, pause_s in (("pausing", options.pause), ("never pausing", 0.0)):
            for name, where, calls in (
                ("empty tool", empty_port, empty_calls),
                ("ours", port, agent_calls),
            ):
                outcome = await load(
                    where,
                    calls,
                    tasks,
                    clients=options.clients,
                    seconds=options.seconds,
                    pause_s=pause_s,
                )
                show(f"{options.clients} {label}: {name}", outcome)
        if options.soak:
            await soak(options, port, tasks, lambda: held_mb(str(data_dir), process.pid))


async def soak(
    options: argparse.Namespace, port: int, tasks: list[str], held: Callable[[], float]
) -> None:
    """Load for many minutes; the memory after the first and after the last."""
    after = []
    for minutes in (1, options.soak - 1):
        outcome = await load(
            port, agent_calls, tasks, clients=10, seconds=60 * minutes, pause_s=0.1
        )
        after.append(held())
        show(f"soak, {minutes} minutes", outcome)
    print(
        f"memory after 1 minute {after[0]:.0f} MB, after {options.soak} minutes {after[1]:.0f} MB"
    )


def main() -> None:
    """Read the options and measure in a new data directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?", type=Path, default=sysconfig.get_path("stdlib"))
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--http-workers", type=int, default=1)
    parser.add_argument("--pause", type=float, default=4.0)
    parser.add_argument("--soak", type=int, default=0, metavar="MINUTES")
    with tempfile.TemporaryDirectory(
        prefix="codebase-mcp-bench-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the database's user must get through, when run as root
        asyncio.run(measure(parser.parse_args(), Path(folder, "data")))


if __name__ == "__main__":
    main()
