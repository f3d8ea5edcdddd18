"""Does the server stay well when far more is asked of it than it can do?

    python benchmarks/overload.py [SOURCE] [--clients 1000] [--seconds 60] [--per-minute 3]
                                  [--bodies 1000]

Indexes SOURCE (the package ``email`` of Python unless given) in a new data directory and serves it
over HTTP. Then all clients call at once, each from an address of its own (127.x.y.z), half of them
over MCP and half over ``/tools/``, and again as soon as they are answered; a refused one waits up
to a second, as bad clients do. Printed are the answers by status, the latencies of what was done
and of what was refused, the longest wait of a health check, the server's memory (RSS), and whether
a search answers afterwards as before. Before that, one caller sends a server without a limit of
requests large bodies, a hundred at a time: queries of 4 MB at ``/tools/`` and over MCP. Exit status
1: something hung or was lost, memory did not stay flat, or the server is not well afterwards. The
clients are niced; all ends by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codebase_mcp import App
from codebase_mcp.settings.loading import Settings
from latency import percentile
from load import PROTOCOL, QUESTIONS, free_port, listening, served

# No answer in this time is a hang: it is longer than a call may wait in the queue.
HANG_S = 30.0
# The server rests this long before its memory is compared.
REST_S = 5.0
# Buffers of a thousand connections and of the calls that wait.
MAX_GROWTH_MB = 150.0
# What refused bodies may leave.
MAX_LEFT_MB = 50.0
BODIES_AT_ONCE = 100
LARGE_QUERY = "x" * ((4 << 20) - 1000)  # below the limit of a body


@dataclass(slots=True)
class Outcome:
    """Answers by status, latencies in ms, and connections that were lost."""

    statuses: Counter[str] = field(default_factory=Counter)
    done_ms: list[float] = field(default_factory=list)
    refused_ms: list[float] = field(default_factory=list)
    alive_ms: list[float] = field(default_factory=list)
    hung: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    peak_mb: float = 0.0


class Client:
    """One kept connection from an address of its own."""

    def __init__(self, port: int, number: int, *, over_mcp: bool | None = None) -> None:
        self._port = port
        self._address = f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"
        self._over_mcp = number % 2 == 0 if over_mcp is None else over_mcp
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def search(self, query: str) -> tuple[str, Any]:
        """The status, with what was refused inside an MCP result, and the answer."""
        arguments = {"query": query, "limit": 5}
        if not self._over_mcp:
            return await self.send("/tools/search_code", "", arguments)
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "overload", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        parameters = {"name": "search_code", "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}
        headers = (
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {PROTOCOL}\r\n"
            "MCP-Method: tools/call\r\nMCP-Name: search_code\r\n"
        )
        status, answer = await self.send("/mcp", headers, message)
        if answer.get("result", {}).get("isError"):
            status += " MCP error: " + answer["result"]["structuredContent"]["error"]["type"]
        return status, answer

    async def send(self, path: str, headers: str, body: Any) -> tuple[str, Any]:
        """Post JSON; the status and the JSON that comes back."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                "127.0.0.1", self._port, local_addr=(self._address, 0)
            )
        reader, writer = self._streams
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{headers}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        answered = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        content = await _content(reader, answered)
        if "text/event-stream" in answered:  # a reply that was not ready at once
            content = content.rpartition(b"data: ")[2]
        answer = json.loads(content)
        if "connection: close" in answered:
            self.close()
        return answered.split()[1], answer

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _content(reader: asyncio.StreamReader, headers: str) -> bytes:
    """The body of a response, in one piece or in chunks."""
    length = headers.partition("content-length:")[2].split("\r\n")[0]
    if length:
        return await reader.readexactly(int(length))
    pieces = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(pieces)


async def insist(port: int, number: int, deadline: float, outcome: Outcome) -> None:
    """Call again and again until the time is up."""
    chance = random.Random(number)
    client = Client(port, number)
    while time.monotonic() < deadline:
        before = time.perf_counter()
        try:
            async with asyncio.timeout(HANG_S):
                status, _ = await client.search(chance.choice(QUESTIONS))
        except TimeoutError:
            outcome.hung += 1
            client.close()
            continue
        except (OSError, EOFError) as error:
            outcome.lost[type(error).__name__] += 1
            client.close()
            await asyncio.sleep(chance.random())
            continue
        ms = (time.perf_counter() - before) * 1000
        outcome.statuses[status] += 1
        if status == "200":
            outcome.done_ms.append(ms)
        else:
            outcome.refused_ms.append(ms)
            await asyncio.sleep(chance.random())
    client.close()


async def observe(port: int, pid: int, outcome: Outcome) -> None:
    """Ask for liveness and memory twice a second."""
    while True:
        before = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        await reader.read()
        writer.close()
        outcome.alive_ms.append((time.perf_counter() - before) * 1000)
        outcome.peak_mb = max(outcome.peak_mb, rss_mb(pid))
        await asyncio.sleep(0.5)


def serving(port: int, per_minute: int) -> list[str]:
    """The command of a server."""
    command = [sys.executable, "-m", "codebase_mcp.cli.main", "serve", "--transport", "http"]
    return [*command, "--port", str(port), "--requests-per-minute", str(per_minute)]


async def measure_bodies(environment: dict[str, str], bodies: int) -> bool:
    """Send large bodies to a server without a limit of requests; whether its memory stayed flat."""
    port = free_port()
    with served(serving(port, 0), environment) as process:
        await listening(port)
        await Client(port, 60_201).search("parse a header")
        flat = [
            await send_large(port, process.pid, bodies, over_mcp=over_mcp)
            for over_mcp in (False, True)
        ]
    return all(flat)


async def send_large(port: int, pid: int, bodies: int, *, over_mcp: bool) -> bool:
    """Send large queries from one address, and print what they cost; whether that was little."""
    outcome, places = Outcome(), asyncio.Semaphore(BODIES_AT_ONCE)
    before_mb = rss_mb(pid)

    async def send() -> None:
        async with places:
            client = Client(port, 60_201, over_mcp=over_mcp)
            try:
                async with asyncio.timeout(HANG_S):
                    status, _ = await client.search(LARGE_QUERY)
                outcome.statuses[status] += 1
            except TimeoutError:
                outcome.hung += 1
            except (OSError, EOFError) as error:
                outcome.lost[type(error).__name__] += 1
            client.close()

    observer = asyncio.create_task(observe(port, pid, outcome))
    await asyncio.gather(*(send() for _ in range(bodies)))
    observer.cancel()
    await asyncio.sleep(REST_S)
    after_mb = rss_mb(pid)
    print(f"{bodies} bodies of 4 MB {'over MCP' if over_mcp else 'at /tools/'}:", end=" ")
    print(f"{dict(outcome.statuses)}, {outcome.hung} hung, lost: {dict(outcome.lost)}")
    print(f"  RSS: {before_mb:.0f} MB before, {outcome.peak_mb:.0f} at most, {after_mb:.0f} after")
    growth, left = outcome.peak_mb - before_mb, after_mb - before_mb
    is_whole = not outcome.hung and not outcome.lost
    return is_whole and growth < MAX_GROWTH_MB and left < MAX_LEFT_MB


def rss_mb(pid: int) -> float:
    """What the server's process holds in memory."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def places(answer: Any) -> list[Any]:
    """What a search found, without its time."""
    return [(one["file_path"], one["start_line"]) for one in answer["results"]]


async def measure(options: argparse.Namespace, data_dir: Path) -> bool:
    """Index, serve, overload, print; whether all was well."""
    environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)}
    async with await App.open(Settings.load(environment)) as app:
        run = (await app.index(options.source)).run
        print(f"{run.files_indexed} files, {run.chunks_created} chunks", flush=True)
    is_flat = await measure_bodies(environment, options.bodies)
    port = free_port()
    with served(serving(port, options.per_minute), environment) as process:
        os.nice(10)  # the clients; the server has begun
        await listening(port)
        question = "parse the headers of a message"
        for number in range(60_001, 60_011, 2):  # the index is loaded into memory meanwhile
            probe = Client(port, number)
            status, before = await probe.search(question)
            assert status == "200", before
            probe.close()
            await asyncio.sleep(0.5)
        before_mb = rss_mb(process.pid)
        outcome = Outcome()
        observer = asyncio.create_task(observe(port, process.pid, outcome))
        deadline = time.monotonic() + options.seconds
        started = time.perf_counter()
        clients = [insist(port, number, deadline, outcome) for number in range(options.clients)]
        await asyncio.gather(*clients)
        seconds = time.perf_counter() - started
        observer.cancel()
        await asyncio.sleep(REST_S)
        after_mb = rss_mb(process.pid)
        again_at = time.perf_counter()
        _, after = await Client(port, 60_101).search(question)
        again_ms = (time.perf_counter() - again_at) * 1000
    show(outcome, seconds)
    is_same = places(after) == places(before)
    print(f"RSS: {before_mb:.0f} MB before, {outcome.peak_mb:.0f} at most, {after_mb:.0f} after")
    print(f"a search afterwards: {'as before' if is_same else 'ANOTHER ANSWER'}, {again_ms:.0f} ms")
    has_held = not outcome.hung and outcome.peak_mb - before_mb < MAX_GROWTH_MB
    return is_same and has_held and is_flat


def show(outcome: Outcome, seconds: float) -> None:
    """Print the counts and latencies."""
    total = sum(outcome.statuses.values())
    print(f"{total} answers in {seconds:.0f} s, {outcome.hung} hung, lost: {dict(outcome.lost)}")
    for status, times in outcome.statuses.most_common():
        print(f"  {times:7} {status}")
    for label, taken in (
        ("done", outcome.done_ms),
        ("refused", outcome.refused_ms),
        ("health", outcome.alive_ms),
    ):
        if taken:
            shares = [percentile(taken, share) for share in (0.5, 0.99)]
            print(
                f"{label:8} p50 {shares[0]:6.0f} ms  p99 {shares[1]:6.0f}  most {max(taken):6.0f}"
            )


def main() -> None:
    """Read the options and measure in a new data directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    email = Path(sysconfig.get_path("stdlib"), "email")
    parser.add_argument("source", nargs="?", type=Path, default=email)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--per-minute", type=int, default=3)
    parser.add_argument("--bodies", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(
        prefix="codebase-mcp-bench-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the database's user must get through, when run as root
        is_well = asyncio.run(measure(options, Path(folder, "data")))
    raise SystemExit(0 if is_well else 1)


if __name__ == "__main__":
    main()
