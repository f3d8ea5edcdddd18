"""What was acknowledged survives: the server killed, the database killed, both at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codebase_mcp.app.app import App
from codebase_mcp.database import supervisor
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

SERVER = [sys.executable, "-m", "codebase_mcp.cli.main", "serve", "--toolsets", "tasks,memory"]


@pytest.fixture
def data_dir(scratch: Path) -> Iterator[Path]:
    """A data folder whose database may be killed."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="cbm-", dir=scratch)))
    folder.chmod(0o755)
    yield folder / "data"
    server = EmbeddedServer(Embedded(folder / "data", 0.001))
    if server.placement.home.exists():
        server.stop()
    shutil.rmtree(folder)


def postmaster(data_dir: Path) -> int:
    """The database's process."""
    home = EmbeddedServer(Embedded(data_dir, 0.001)).placement.home
    pid_file = home / supervisor.CLUSTER / "postmaster.pid"
    return int(pid_file.read_text().splitlines()[0])


@pytest.mark.parametrize("victims", [("server",), ("database",), ("database", "server")])
async def test_what_was_acknowledged_survives_kill_9(
    data_dir: Path, victims: tuple[str, ...]
) -> None:
    environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)}
    transport = StdioTransport(SERVER[0], SERVER[1:], env=environment, keep_alive=False)
    acknowledged: list[dict[str, Any]] = []
    reached: dict[int, asyncio.Event] = {60: asyncio.Event()}

    async def work(client: Client[Any], number: int) -> None:
        """Create and change tasks until the end comes; what fails is not acknowledged."""
        for step in range(100_000):
            made = await client.call_tool(
                "create_task", {"title": f"{number}.{step}"}, raise_on_error=False
            )
            if made.is_error or made.structured_content is None:
                continue
            done = {"status": "complete", "branch": f"b/{number}"}
            changed = await client.call_tool(
                "update_task", done | {"task_id": made.structured_content["id"]},
                raise_on_error=False,
            )  # fmt: skip
            if changed.is_error or changed.structured_content is None:
                continue
            acknowledged.append(changed.structured_content)
            for count, event in reached.items():
                if len(acknowledged) >= count:
                    event.set()

    client = Client(transport)
    await client.__aenter__()
    workers = [asyncio.create_task(work(client, number)) for number in range(4)]
    await reached[60].wait()
    if "database" in victims:
        os.kill(postmaster(data_dir), signal.SIGKILL)
    if "server" in victims:
        os.kill(server_of(os.getpid(), data_dir), signal.SIGKILL)
        await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    else:  # the server starts the database again by itself, and goes on
        later = len(acknowledged) + 40
        reached[later] = asyncio.Event()
        await reached[later].wait()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    await asyncio.gather(client.__aexit__(None, None, None), return_exceptions=True)

    settings = Settings.load({"CODEBASE_MCP_DATA_DIR": str(data_dir)})
    async with await App.open(settings) as app, app.enter(readonly=True) as here:
        rows = await here.tx.fetch_all("SELECT id, title, status FROM task")
        links = await here.tx.fetch_all("SELECT task_id FROM task_link")
    stored = {str(identity): (title, status) for identity, title, status in rows}
    for task in acknowledged:
        assert stored[task["id"]] == (task["title"], "complete")
    assert {task["id"] for task in acknowledged} <= {str(identity) for (identity,) in links}


def server_of(parent: int, data_dir: Path) -> int:
    """The stdio server that this test started on this data folder."""
    listing = subprocess.run(
        ["ps", "--ppid", str(parent), "-o", "pid=,args="],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in listing.stdout.splitlines():
        pid, _, arguments = line.strip().partition(" ")
        if "codebase_mcp.cli.main serve" not in arguments:
            continue
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if f"CODEBASE_MCP_DATA_DIR={data_dir}".encode() in environment:
            return int(pid)
    raise AssertionError("the server is not there")
