"""A full disk: it is said which, what was stored stays, and with room again the run completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database, Embedded, External
from codebase_mcp.database.projects import ensure_project
from codebase_mcp.database.server import EmbeddedServer
from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.settings.loading import Settings

from .conftest import CLIENT, PlainServer

pytestmark = pytest.mark.anyio

RAISE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'secret-path'; END $$"
MEGABYTES = 480


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


@pytest.mark.parametrize("megabytes_free", [0, 5, 24])
def test_a_disk_that_is_full_at_the_first_start_is_named(
    small_disk: Path, megabytes_free: int
) -> None:
    fill(small_disk, megabytes_free)
    server = EmbeddedServer(Embedded(small_disk / "data", 0.001))
    with pytest.raises(DatabaseUnavailable, match=f"the disk that holds {small_disk}.* is full"):
        server.join()
    server.leave()
    (small_disk / "filler").unlink()
    server.join()
    server.leave()
    server.wait_until_ended()


@pytest.mark.parametrize("megabytes_free", [0, 1])
def test_a_disk_that_is_full_at_a_later_start_is_named(
    small_disk: Path, megabytes_free: int
) -> None:
    server = EmbeddedServer(Embedded(small_disk / "data", 0.001))
    server.join()
    server.leave()
    server.stop()
    server.reserve.give_up()
    fill(small_disk, megabytes_free)
    try:
        server.join()
    except DatabaseUnavailable as error:
        assert f"the disk that holds {small_disk / 'data'} is full" in error.message
        assert "CODEBASE_MCP_DATA_DIR" in str(error.hint)
    else:
        assert megabytes_free  # then it may be enough
    server.leave()
    server.wait_until_ended()
    (small_disk / "filler").unlink()
    server.join()
    server.leave()
    server.wait_until_ended()


def test_a_log_that_tells_of_an_earlier_full_disk_does_not_count(small_disk: Path) -> None:
    server = EmbeddedServer(Embedded(small_disk / "data", 0.001))
    server.join()
    server.leave()
    server.stop()
    with server.log_file.open("a") as log:
        log.write("FATAL:  could not write lock file: No space left on device\n")
    (small_disk / "data" / "cluster" / "global" / "pg_control").unlink()
    with pytest.raises(DatabaseUnavailable, match="PostgreSQL ended while it was starting"):
        server.join()
    server.leave()
    server.wait_until_ended()


def test_little_shared_memory_is_enough_for_a_first_start() -> None:
    with tempfile.TemporaryDirectory(prefix="cbm-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        script = "mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 77\n"
        script += f'exec "{sys.executable}" -c "$0" "{folder}/data" 0.001'
        client = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, CLIENT],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=False,
        )
        if client.returncode in (1, 77) and "permitted" in client.stderr + client.stdout:
            pytest.skip("only root may mount a small /dev/shm, where that is allowed at all")
        assert client.returncode == 0, client.stderr
        EmbeddedServer(Embedded(Path(folder) / "data")).wait_until_ended()


def fill(disk: Path, megabytes_free: int) -> None:
    """Leave so much room on a disk."""
    free = shutil.disk_usage(disk).free
    (disk / "filler").write_bytes(bytes(free - (megabytes_free << 20)))


async def test_what_was_stored_before_the_disk_was_full_stays_and_the_next_run_goes_on(
    anyio_backend: str, small_disk: Path, settings: Settings, make_repo: Callable[..., Path]
) -> None:
    small = replace(settings, data_dir=small_disk / "data", idle_minutes=0.001)
    async with await App.open(small) as app:
        await app.index(make_repo(), "small")
        many = {f"src/file{n}.py": large_source(n) for n in range(150)}
        root = make_repo(many, name="large")
        fill(small_disk, 24)
        message = f"the disk that holds {small_disk / 'data'} is full"
        try:
            run = (await app.index(root, "small")).run
        except DatabaseUnavailable as error:
            assert message in error.message
        else:
            assert run.status == "failed"
            assert message in run.errors[-1]
        assert (await app.search("authenticate user", "small")).answer.hits
        (small_disk / "filler").unlink()
        run = (await app.index(root, "small")).run
        assert run.status == "success"
        assert run.files_indexed + run.files_unchanged == len(many)
        assert (await app.search("value_7_3", "small")).answer.hits
    EmbeddedServer(Embedded(small.data_dir)).wait_until_ended()


@pytest.mark.parametrize("is_running", [False, True], ids=["stopped", "running"])
async def test_with_no_room_left_searches_answer_and_purge_and_remove_make_room(
    anyio_backend: str,
    small_disk: Path,
    settings: Settings,
    make_repo: Callable[..., Path],
    is_running: bool,
) -> None:
    small = replace(settings, data_dir=small_disk / "data", idle_minutes=0.001)
    server = EmbeddedServer(Embedded(small.data_dir, 0.001))
    roots = [
        make_repo({f"file{n}.py": large_source(n) for n in numbers}, name=f"repository{numbers[0]}")
        for numbers in (range(60), range(60, 100), range(100, 101))
    ]
    async with await App.open(small) as app:
        for root in roots:
            assert (await app.index(root, "small")).run.status == "success"
        if is_running:
            fill(small_disk, 0)
            await make_room_with(app, roots)
    if not is_running:
        server.wait_until_ended()
        fill(small_disk, 0)
        async with await App.open(small) as app:
            await make_room_with(app, roots)
    server.wait_until_ended()
    (small_disk / "filler").unlink()
    async with await App.open(small) as app:
        assert (await app.index(roots[2], "small")).run.status == "success"
        assert (small.data_dir / "reserve").stat().st_blocks * 512 >= 32 << 20
    server.wait_until_ended()


async def make_room_with(app: App, roots: list[Path]) -> None:
    """On a full disk: search, be refused, and delete the first two of three repositories."""
    assert (await app.search("value_3_7", "small")).answer.hits
    (roots[2] / "new.py").write_text(large_source(200))
    with pytest.raises(DatabaseUnavailable, match=r"disk that holds .* is full"):
        await app.index(roots[2], "small")
    purged = await app.data.purge(await app.data.find(roots[0], "small"))
    assert purged.before["chunk"] > 100 and not any(purged.after.values())
    await app.remove(roots[1], "small")
    assert (await app.search("value_100_7", "small")).answer.hits
    await app.drop_project("small")


async def test_an_index_run_ends_before_the_disk_is_full(
    anyio_backend: str, small_disk: Path, settings: Settings, make_repo: Callable[..., Path]
) -> None:
    small = replace(settings, data_dir=small_disk / "data", idle_minutes=0.001)
    root = make_repo({f"src/file{n}.py": large_source(n) for n in range(500)})
    async with await App.open(small) as app:
        await app.index(make_repo(name="first"), "small")
        fill(small_disk, 64)
        message = f"the disk that holds {small.data_dir} is full, but for 48 MB"
        try:
            run = (await app.index(root, "small")).run
        except DatabaseUnavailable as error:
            assert message in error.message  # in the first batch
        else:
            assert run.status == "failed"
            assert message in run.errors[-1]
        assert shutil.disk_usage(small_disk).free > 16 << 20
    server = EmbeddedServer(Embedded(small.data_dir))
    assert "No space left" not in server.log_file.read_text()
    server.wait_until_ended()


def large_source(number: int) -> str:
    """A module with many names of its own."""
    return "\n\n".join(
        f"def value_{number}_{n}(argument_{number}_{n}):\n"
        f'    """Computes what number {n} of {number} is about."""\n'
        f"    return argument_{number}_{n} + {n * number}"
        for n in range(120)
    )
