"""A full disk: it is said which, what was stored stays, and with room again the run completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codebase_mcp.app import App
from codebase_mcp.database.connection import Database, Embedded, External
from codebase_mcp.database.projects import ensure_project
from codebase_mcp.database.server import EmbeddedServer
from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.settings import Settings

from .conftest import PlainServer

pytestmark = pytest.mark.anyio

RAISE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'secret-path'; END $$"
MEGABYTES = 320


async def test_a_full_disk_of_a_server_is_told_with_the_way_out(
    anyio_backend: str, plain_server: PlainServer, database_name: str
) -> None:
    database = await Database.open(External(plain_server.url(database_name)))
    try:
        project = await ensure_project(database, None)
        with pytest.raises(
            DatabaseUnavailable, match="server that DATABASE_URL names is full"
        ) as e:
            async with database.transaction(project) as transaction:
                await transaction.execute(RAISE)
        assert "Free space there" in str(e.value.hint)
        assert "secret-path" not in str(e.value.as_dict())
        assert await ensure_project(database, None) == project
    finally:
        await database.close()


async def test_a_full_disk_of_the_embedded_server_is_named_by_its_folder(
    database: Database, embedded: Embedded
) -> None:
    project = await ensure_project(database, None)
    message = f"the disk that holds {embedded.data_dir} is full"
    with pytest.raises(DatabaseUnavailable, match=message) as caught:
        async with database.transaction(project) as transaction:
            await transaction.execute(RAISE)
    assert "CODEBASE_MCP_DATA_DIR" in str(caught.value.hint)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of its own for the test, where this system lets us mount one."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="cbm-")))
    folder.chmod(0o755)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m,mode=755", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        pytest.skip("only root may mount a small disk, where that is allowed at all")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


async def test_what_was_stored_before_the_disk_was_full_stays_and_the_next_run_goes_on(
    anyio_backend: str, small_disk: Path, settings: Settings, make_repo: Callable[..., Path]
) -> None:
    small = replace(settings, data_dir=small_disk / "data", idle_minutes=0.001)
    async with await App.open(small) as app:
        await app.index(make_repo(), "small")
        many = {f"src/file{n}.py": large_source(n) for n in range(150)}
        root = make_repo(many, name="large")
        filler = small_disk / "filler"
        free = shutil.disk_usage(small_disk).free
        filler.write_bytes(bytes(max(free - (24 << 20), 0)))
        message = f"the disk that holds {small_disk / 'data'} is full"
        try:
            run = (await app.index(root, "small")).run
        except DatabaseUnavailable as error:
            assert message in error.message
        else:
            assert run.status == "failed"
            assert message in run.errors[-1]
        assert (await app.search("authenticate user", "small")).answer.hits
        filler.unlink()
        run = (await app.index(root, "small")).run
        assert run.status == "success"
        assert run.files_indexed + run.files_unchanged == len(many)
        assert (await app.search("value_7_3", "small")).answer.hits
    EmbeddedServer(Embedded(small.data_dir)).wait_until_ended()


def large_source(number: int) -> str:
    """A module with many names of its own."""
    return "\n\n".join(
        f"def value_{number}_{n}(argument_{number}_{n}):\n"
        f'    """Computes what number {n} of {number} is about."""\n'
        f"    return argument_{number}_{n} + {n * number}"
        for n in range(120)
    )
