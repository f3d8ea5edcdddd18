"""Fixtures that every suite may use: one embedded server per run, a fresh project per test."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.projects import Project, drop_project, ensure_project
from codebase_mcp.database.server import EmbeddedServer


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def scratch() -> Path:
    """Where servers of tests keep their data: in memory, if there is enough, for speed.

    It is not pytest's own folder: when run as root, that one is closed to the server's user.
    """
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30:
        return memory
    return Path(tempfile.gettempdir())


@pytest.fixture(scope="session")
def embedded(scratch: Path) -> Iterator[Embedded]:
    """The run's server: it is up until the run ends, and gone a moment later."""
    folder = Path(tempfile.mkdtemp(prefix="cbm-", dir=scratch))
    folder.chmod(0o755)
    target = Embedded(folder / "data", idle_minutes=0.001)
    server = EmbeddedServer(target)
    with psycopg.connect(server.join(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")  # nothing here outlives the run
        connection.execute("SELECT pg_reload_conf()")
    yield target
    server.leave()
    server.wait_until_ended()
    shutil.rmtree(folder)


@pytest.fixture
async def database(anyio_backend: str, embedded: Embedded) -> AsyncIterator[Database]:
    """A database of this test's event loop, on the run's server."""
    database = await Database.open(embedded)
    yield database
    await database.close()


@pytest.fixture
async def project(anyio_backend: str, database: Database) -> AsyncIterator[Project]:
    """A project that no other test has seen."""
    project = await ensure_project(database, f"test-{uuid.uuid4().hex[:12]}")
    yield project
    await drop_project(database, project)
