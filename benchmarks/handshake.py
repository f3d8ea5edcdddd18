"""How long until a client is connected, beside an empty server of the same framework?

    python benchmarks/handshake.py

Starts each server several times, in turn, and waits for the answer to ``initialize``. The
difference of the medians is what we add; it should be below 0.3 s.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

REPEATS = 9
EMPTY = "from fastmcp import FastMCP; FastMCP('empty', version='1').run(show_banner=False)"
SERVERS = {
    "empty": [sys.executable, "-c", EMPTY],
    "ours": [sys.executable, "-m", "codebase_mcp.cli.main"],
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}


def handshake_s(command: list[str]) -> float:
    """Seconds from the start of the process to its first answer."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(HELLO).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
        taken = time.perf_counter() - started
        server.stdin.close()
    return taken


def main() -> None:
    """Start both servers in turn; print medians and their difference."""
    taken: dict[str, list[float]] = {name: [] for name in SERVERS}
    for _ in range(REPEATS):
        for name, command in SERVERS.items():
            taken[name].append(handshake_s(command))
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, value in medians.items():
        print(f"{name}: {value:.3f} s")
    print(f"difference: {medians['ours'] - medians['empty']:.3f} s")


if __name__ == "__main__":
    main()
