"""A pooler in transaction mode: nothing that we need lasts longer than a transaction."""

from __future__ import annotations

import asyncio
import io
import shutil
import struct
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database, External
from codebase_mcp.database.projects import ensure_project
from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.records.tasks import create_task
from codebase_mcp.settings.loading import Settings

from .conftest import PlainServer, service_user, start_logging

pytestmark = pytest.mark.anyio


async def use_everything(app: App, root: Path, project_id: str) -> None:
    """Index, search and keep records, many at once, so that sessions are mixed; then restore."""

    async def write(number: int) -> None:
        async with app.enter(project_id) as here:
            await create_task(here.tx, f"Task {number}")

    report = await app.index(root, project_id)
    assert report.run.status == "success"
    jobs = [app.search("authenticate user", project_id) for _ in range(20)]
    answers, _, again = await asyncio.gather(
        asyncio.gather(*jobs),
        asyncio.gather(*(write(number) for number in range(20))),
        app.index(root, project_id, force_reindex=True),
    )
    assert again.run.status == "success"
    assert {answer.answer.hits[0].file_path for answer in answers} == {"src/auth.py"}
    file = io.BytesIO()
    await app.data.backup(file, project_id)
    await app.data.restore(io.BytesIO(file.getvalue()), "backup", replace=True)
    async with app.enter(project_id, readonly=True) as here:
        stored = await here.tx.fetch_one("SELECT count(*) FROM task")
    assert stored == (20,)


class Forgetful:
    """A pooler in its effect: after each transaction the session forgets all that it was told.

    It reads no more of the protocol than where messages end, and whether a transaction is open.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self.forgotten = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            there, back = await asyncio.open_unix_connection(self._socket)
            try:
                await asyncio.gather(self._ask(reader, back), self._answer(there, back, writer))
            finally:
                back.close()
                writer.close()

    async def _ask(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while piece := await client.read(1 << 16):
            server.write(piece)
            await server.drain()
        server.close()

    async def _answer(
        self,
        server: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
    ) -> None:
        while True:
            kind, message = await read_message(server)
            if kind == b"Z" and message[-1:] == b"I":
                back.write(b"Q" + struct.pack("!i", 4 + len(FORGET)) + FORGET)
                while (await read_message(server))[0] != b"Z":
                    pass
                self.forgotten += 1
            client.write(message)
            await client.drain()


FORGET = b"DISCARD ALL\0"


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


@pytest.fixture
async def forgetful(
    anyio_backend: str, plain_server: PlainServer, database_name: str
) -> AsyncIterator[tuple[Forgetful, str]]:
    """Such a pooler, and the URL of the test's database through it."""
    pooler = Forgetful(str(plain_server.folder / ".s.PGSQL.5432"))
    tasks: set[asyncio.Task[None]] = set()
    server = await asyncio.start_server(
        lambda reader, writer: tasks.add(asyncio.create_task(pooler.serve(reader, writer))),
        "127.0.0.1",
        0,
    )
    port = server.sockets[0].getsockname()[1]
    yield pooler, f"postgresql://postgres@127.0.0.1:{port}/{database_name}?sslmode=disable"
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_no_transaction_needs_what_its_session_was_told_before(
    forgetful: tuple[Forgetful, str],
    plain_server: PlainServer,
    database_name: str,
    settings: Settings,
    make_repo: Callable[..., Path],
) -> None:
    pooler, url = forgetful
    through = replace(
        settings,
        database_url=f"{url}&pgbouncer=true",
        direct_database_url=plain_server.url(database_name),
    )
    async with await App.open(through) as app:
        await use_everything(app, make_repo(), "pooled")
    assert pooler.forgotten > 50


async def test_prepared_statements_that_are_lost_lead_to_the_flag(
    forgetful: tuple[Forgetful, str],
) -> None:
    database = await Database.open(External(forgetful[1]))
    with pytest.raises(DatabaseUnavailable, match="breaks prepared statements") as caught:
        for _ in range(20):
            async with database.unmigrated("public", readonly=True) as transaction:
                await transaction.fetch_one("SELECT %(n)s::integer", n=1)
    assert "pgbouncer=true" in str(caught.value.hint)
    await database.close()


@pytest.mark.parametrize("direct", [None, "pgbouncer=true"])
async def test_a_lock_of_a_session_is_refused_where_only_a_pooler_is_known(
    plain_server: PlainServer, database_name: str, direct: str | None
) -> None:
    url = plain_server.url(database_name)
    direct_url = f"{url}&{direct}" if direct else None
    database = await Database.open(External(f"{url}&pgbouncer=true", direct_url=direct_url))
    try:
        project = await ensure_project(database, "my-app")
        with pytest.raises(DatabaseUnavailable, match="points to a pooler") as caught:
            async with database.session_locks(project, ["index"]):
                raise AssertionError
        assert "DIRECT_DATABASE_URL" in str(caught.value.hint)
    finally:
        await database.close()


async def test_a_wrong_direct_url_is_named(anyio_backend: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="DIRECT_DATABASE_URL is invalid"):
        await Database.open(External("postgresql://h/d", direct_url="postgresql://h/d?x=1"))


@dataclass(frozen=True, slots=True)
class Bouncer:
    """A real PgBouncer in transaction mode, with two server connections for everybody."""

    folder: Path

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}&port=6432"


@pytest.fixture
def bouncer(
    plain_server: PlainServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bouncer]:
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    folder = plain_server.folder / f"bouncer-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={plain_server.folder} user=postgres\n[pgbouncer]\nlisten_addr =\n"
        f"unix_socket_dir = {folder}\nlisten_port = 6432\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 2\n"
    )
    user = service_user()
    if user is not None:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, user)
    process = start_logging([program, folder / "pgbouncer.ini"], folder, "process up")
    yield Bouncer(folder)
    process.terminate()
    process.wait()
    shutil.rmtree(folder)


async def test_the_product_works_through_a_real_pgbouncer(
    bouncer: Bouncer,
    plain_server: PlainServer,
    database_name: str,
    settings: Settings,
    make_repo: Callable[..., Path],
) -> None:
    through = replace(
        settings,
        database_url=bouncer.url(database_name) + "&pgbouncer=true",
        direct_database_url=plain_server.url(database_name),
    )
    async with await App.open(through) as app:
        await use_everything(app, make_repo(), "pooled")


async def test_a_real_pgbouncer_that_is_not_named_as_one_is_noticed_before_a_lock(
    bouncer: Bouncer, database_name: str
) -> None:
    database = await Database.open(External(bouncer.url(database_name)))
    try:
        project = await ensure_project(database, "my-app")
        with pytest.raises(DatabaseUnavailable, match="points to a pooler"):
            async with database.session_locks(project, ["index"]):
                raise AssertionError
    finally:
        await database.close()
