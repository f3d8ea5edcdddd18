"""DATABASE_URL: a server of somebody else's, with what it may lack."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from codebase_mcp.database import pool
from codebase_mcp.database.connection import Database, External
from codebase_mcp.database.placement import find_package
from codebase_mcp.database.pool import Connection, read_url
from codebase_mcp.database.projects import ensure_project, find_project, list_projects
from codebase_mcp.errors import DatabaseUnavailable, PermissionDenied

from .conftest import PlainServer

pytestmark = pytest.mark.anyio

OpenAs = Callable[..., AbstractAsyncContextManager[Database]]


@pytest.fixture
def open_as(plain_server: PlainServer, database_name: str) -> OpenAs:
    """Open the test's database as ``postgres``, or as the guest, who has the database's name."""

    @asynccontextmanager
    async def open_database(role: str = "postgres", options: str = "") -> AsyncIterator[Database]:
        url = plain_server.url(database_name, role) + options
        database = await Database.open(External(url, pool_size=2, overflow=1))
        try:
            yield database
        finally:
            await database.close()

    return open_database


async def test_the_same_calls_work_on_a_plain_server(open_as: OpenAs) -> None:
    async with open_as() as database:
        project = await ensure_project(database, "my-app")
        assert await find_project(database, "my-app") == project
        facts = await database.check()
        assert (facts.embedded, facts.data_dir) == (False, None)


async def test_pgvector_in_another_schema_is_found_there(
    open_as: OpenAs, plain_server: PlainServer, database_name: str
) -> None:
    plain_server.execute(
        "CREATE SCHEMA extra", "CREATE EXTENSION vector SCHEMA extra", database=database_name
    )
    async with open_as() as database:
        project = await ensure_project(database, None)
        async with database.transaction(project) as transaction:
            assert await transaction.fetch_one("SELECT '[1,2]'::halfvec::text") == ("[1,2]",)


async def test_a_role_that_may_not_create_pgvector_is_told_whom_to_ask(
    open_as: OpenAs, database_name: str
) -> None:
    async with open_as(database_name) as database:
        with pytest.raises(DatabaseUnavailable) as caught:
            await database.check()
    assert caught.value.hint is not None
    assert "ask an administrator to run CREATE EXTENSION vector" in caught.value.hint.replace(
        "Ask", "ask"
    )


async def test_an_old_pgvector_is_refused_with_its_version(
    open_as: OpenAs, plain_server: PlainServer, database_name: str
) -> None:
    plain_server.execute(
        "CREATE EXTENSION vector",
        "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'",
        database=database_name,
    )
    async with open_as() as database:
        with pytest.raises(DatabaseUnavailable, match=r"the server has 0\.7\.4"):
            await database.check()


@pytest.fixture
def server_without_pgvector(scratch: Path) -> Iterator[PlainServer]:
    with tempfile.TemporaryDirectory(prefix="cbm-", dir=scratch) as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "server").mkdir()
        server = PlainServer(
            folder / "server", package_without_vector(folder) / "pginstall18" / "bin"
        )
        server.start()
        yield server
        server.stop()


async def test_a_server_without_pgvector_is_refused(
    anyio_backend: str, server_without_pgvector: PlainServer
) -> None:
    database = await Database.open(External(server_without_pgvector.url()))
    with pytest.raises(DatabaseUnavailable, match="has no pgvector"):
        await database.check()
    await database.close()


def package_without_vector(folder: Path) -> Path:
    """The installed programs, less the extension: links, but for what finds its own folder."""
    source = find_package() / "pginstall18"
    copy = folder / "package" / "pginstall18"
    extensions = copy / "share" / "postgresql" / "extension"
    extensions.mkdir(parents=True)
    (copy / "bin").mkdir()
    (copy / "bin" / "postgres").write_bytes((source / "bin" / "postgres").read_bytes())
    (copy / "bin" / "postgres").chmod(0o755)
    (copy / "lib").symlink_to(source / "lib")
    for path in (source / "share" / "postgresql").iterdir():
        if path.name != "extension":
            (extensions.parent / path.name).symlink_to(path)
    for path in (source / "share" / "postgresql" / "extension").glob("plpgsql*"):
        (extensions / path.name).symlink_to(path)
    return copy.parent


async def test_a_role_that_may_not_create_a_schema_is_denied_in_the_contracts_words(
    open_as: OpenAs, plain_server: PlainServer, database_name: str
) -> None:
    async with open_as() as database:
        await ensure_project(database, "known")
    plain_server.execute(
        f"GRANT USAGE ON SCHEMA codebase_mcp, project_known TO {database_name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA codebase_mcp, project_known TO {database_name}",
        database=database_name,
    )
    async with open_as(database_name) as database:
        with pytest.raises(PermissionDenied) as caught:
            await ensure_project(database, "my-app")
        assert caught.value.message == (
            "Cannot create project workspace - insufficient permissions"
        )
        assert caught.value.details["project_id"] == "my-app"
        assert caught.value.details["schema_name"] == "project_my_app"
        assert "GRANT CREATE ON DATABASE" in (caught.value.hint or "")
        known = await find_project(database, "known")
        async with database.transaction(known, readonly=True) as transaction:
            assert await transaction.fetch_one("SELECT 1") == (1,)
        assert [project.project_id for project in await list_projects(database)] == ["known"]


async def test_a_server_that_is_not_there_is_unavailable_and_no_password_is_told(
    anyio_backend: str,
) -> None:
    url = "postgresql://somebody:secret-word@/postgres?host=/nowhere"
    target = External(url)
    database = await Database.open(target)
    with pytest.raises(DatabaseUnavailable) as caught:
        await list_projects(database)
    await database.close()
    assert caught.value.message == "PostgreSQL database unavailable"
    assert caught.value.hint is not None
    assert "DATABASE_URL" in caught.value.hint
    assert "secret-word" not in str(caught.value.as_dict()) + repr(target)


@pytest.mark.parametrize("death", [signal.SIGINT, signal.SIGKILL])
async def test_the_pool_is_well_again_when_the_server_comes_back(
    anyio_backend: str, own_server: PlainServer, death: signal.Signals
) -> None:
    database = await Database.open(External(own_server.url(), wait_s=0.1))
    try:
        project = await ensure_project(database, "my-app")
        own_server.stop(death)
        with pytest.raises(DatabaseUnavailable):
            await find_project(database, "my-app")
        own_server.start()
        assert await find_project(database, "my-app") == project
    finally:
        await database.close()


async def test_a_connection_lost_in_the_middle_fails_its_transaction_only(open_as: OpenAs) -> None:
    async with open_as() as database:
        project = await ensure_project(database, "my-app")
        with pytest.raises(DatabaseUnavailable):
            async with database.transaction(project) as doomed:
                [(backend,)] = await doomed.fetch_all("SELECT pg_backend_pid()")
                async with database.catalogue() as other:
                    await other.execute("SELECT pg_terminate_backend(%(pid)s, 5000)", pid=backend)
                await doomed.execute("SELECT 1")
        assert await find_project(database, "my-app") == project


async def test_an_idle_connection_that_died_is_replaced_unnoticed(open_as: OpenAs) -> None:
    async with open_as() as database:
        async with database.catalogue() as transaction:
            [(backend,)] = await transaction.fetch_all("SELECT pg_backend_pid()")
        async with open_as() as other, other.catalogue() as transaction:
            await transaction.execute("SELECT pg_terminate_backend(%(pid)s, 5000)", pid=backend)
        async with database.catalogue() as transaction:
            [(fresh,)] = await transaction.fetch_all("SELECT pg_backend_pid()")
        assert fresh != backend


async def test_a_session_that_nobody_waits_for_any_more_is_closed(
    plain_server: PlainServer, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    async def never_answered(connection: Connection) -> bool:
        asked.set_result(connection)
        return await asyncio.Event().wait()

    monkeypatch.setattr(pool, "_has_own_session", never_answered)
    server = pool.ExternalServer(External(plain_server.url(database_name)))
    opening = asyncio.create_task(server.connect_directly())
    connection = await asked
    opening.cancel()
    await asyncio.wait([opening])
    assert connection.closed


@pytest.mark.parametrize(("options", "is_prepared"), [("", True), ("&pgbouncer=true", False)])
async def test_statements_are_prepared_unless_a_pooler_stands_between(
    open_as: OpenAs, options: str, is_prepared: bool
) -> None:
    async with open_as(options=options) as database:
        async with database.catalogue() as transaction:
            for _ in range(10):
                await transaction.fetch_one("SELECT %(n)s::integer", n=1)
            row = await transaction.fetch_one("SELECT count(*) FROM pg_prepared_statements")
        assert row is not None
        assert bool(row[0]) is is_prepared


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u:p@h:1/d", ("postgresql://u:p@h:1/d", False)),
        (
            "postgresql+asyncpg://u@h/d?sslmode=require",
            ("postgresql://u@h/d?sslmode=require", False),
        ),
        (
            "postgres://h/d?pgbouncer=true&application_name=x",
            ("postgres://h/d?application_name=x", True),
        ),
        ("postgresql://h/d?pgbouncer", ("postgresql://h/d", True)),
        ("postgresql://h/d?pgbouncer=false", ("postgresql://h/d", False)),
        ("postgresql:///d?host=/var/run", ("postgresql:///d?host=/var/run", False)),
        ("host=h dbname=d", ("host=h dbname=d", False)),
        ("postgresql://u:p%40%2F@h1:1,h2/d", ("postgresql://u:p%40%2F@h1:1,h2/d", False)),
        ("postgresql://u:p?#@[::1]/d", ("postgresql://u:p?#@[::1]/d", False)),
        ("postgresql:///d?user=a@b", ("postgresql:///d?user=a@b", False)),
    ],
)
async def test_urls_of_other_programs_are_understood(url: str, expected: tuple[str, bool]) -> None:
    assert read_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:secret-word@h/d",
        "postgresql://u:secret-word@h/d?x=1",
        "postgresql://u:a@secret-word@h/d",
        "postgresql://u:secret-word/b@h/d",
        "postgresql://u:1/secret-word@h/d",
        "postgresql://u:a@b/secret-word@h/d",
        "postgresql://u:a?b@secret-word@h/d",
        "postgresql://u:a?b/secret-word@h/d",
        "postgresql://u:secret-word/d",
        "postgresql://u:%zzsecret-word@h/d",
        "postgresql://secret-word/x@h/d",
    ],
)
async def test_a_url_that_is_not_understood_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="DATABASE_URL is invalid") as caught:
        await Database.open(External(url))
    assert "secret-word" not in str(caught.value.as_dict())
    assert "write @ as %40" in str(caught.value.hint)
    assert caught.value.__cause__ is None
