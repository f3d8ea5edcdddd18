"""The servers that the official programs talk to, as processes, each started once per run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest
from tests.protocol import node

from codebase_mcp.database.server import Embedded, EmbeddedServer

ROOT = Path(__file__).parents[2]
PRODUCT = (sys.executable, "-m", "codebase_mcp.cli.main")
ADDRESS = re.compile(r"http://127\.0\.0\.1:[1-9]\d*")
FIXTURES = (sys.executable, "-m", "tests.protocol.fixture_server")


@pytest.fixture(scope="session")
def programs() -> None:
    """The npm packages, installed."""
    try:
        node.install()
    except node.NodeUnavailable as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def environment(scratch: Path) -> Iterator[dict[str, str]]:
    """What a server of these tests adds to the environment.

    It has a data folder of its own: its worker would do the jobs of other tests.
    """
    folder = Path(tempfile.mkdtemp(prefix="cbm-", dir=scratch))
    folder.chmod(0o755)
    target = Embedded(folder / "data")
    yield {"CODEBASE_MCP_DATA_DIR": str(target.data_dir), "CODEBASE_MCP_TOOLSETS": "all"}
    EmbeddedServer(target).stop()
    shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Listening:
    """A server process, where it listens, and what it said last."""

    process: subprocess.Popen[str]
    address: str
    said: deque[str]

    def require_alive(self) -> None:
        """Fail with the server's last words, if it is gone."""
        if self.process.poll() is not None:
            pytest.fail(f"The server ended:\n{''.join(self.said)}", pytrace=False)


@pytest.fixture(scope="session")
def product(environment: dict[str, str]) -> Iterator[Listening]:
    """The product with all its tools, over HTTP."""
    command = (*PRODUCT, "serve", "--transport", "http", "--sse", "--port", "0")
    with _listening(command, environment) as server:
        yield server


@pytest.fixture(scope="session")
def fixtures(environment: dict[str, str]) -> Iterator[Listening]:
    """The product's server with the conformance suite's tools added."""
    with _listening(FIXTURES, environment) as server:
        yield server


@contextmanager
def _listening(command: tuple[str, ...], environment: dict[str, str]) -> Iterator[Listening]:
    """A server process that names its address on standard error."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said: deque[str] = deque(maxlen=100)
        address = _address(process.stderr, said)
        # A full pipe would stop the server.
        reader = threading.Thread(target=said.extend, args=(process.stderr,))
        reader.start()
        server = Listening(process, address, said)
        try:
            yield server
            server.require_alive()
        finally:
            process.terminate()
            process.wait(timeout=60)
            reader.join()
    assert process.returncode in (0, -signal.SIGTERM), "".join(said)


def _address(stderr: IO[str], said: deque[str]) -> str:
    for line in stderr:
        said.append(line)
        if found := ADDRESS.search(line):
            return found.group()
    pytest.fail(f"The server ended before it was ready:\n{''.join(said)}", pytrace=False)
