"""DATABASE_READ_URL: searches use a streaming standby, and nobody sees an older answer for it."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from tests.waiting import until

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.app.context import ContextQuestion
from codebase_mcp.app.scopes import again_if_lost
from codebase_mcp.app.text_scan import TextQuestion
from codebase_mcp.database import standby as module
from codebase_mcp.database.transaction import Transaction
from codebase_mcp.errors import DatabaseUnavailable, StandbyLost
from codebase_mcp.records.tasks import create_task
from codebase_mcp.search.text_pattern import TextQuery
from codebase_mcp.settings.loading import Settings
from codebase_mcp.symbols.answer import SymbolQuestion

from .conftest import PROGRAMS, PlainServer

pytestmark = pytest.mark.anyio

QUESTION = "authenticate user"
# A connection that has run a search has ended a transaction; a check of the standby has none.
READS = """
SELECT count(*)
FROM pg_stat_activity
WHERE application_name = 'codebase-mcp' AND query IN ('COMMIT', 'ROLLBACK')
  AND query_start > %(since)s::timestamptz
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary, a standby of it, and a role that owns a database of its name."""

    primary: PlainServer
    standby: PlainServer
    name: str = "code"

    def url(self, server: PlainServer, database: str | None = None) -> str:
        return server.url(database or self.name, self.name)

    def ask(self, query: str, server: PlainServer | None = None, **values: object) -> object:
        """The only value that a query of the administrator gives, on the standby by default."""
        url = (server or self.standby).url(self.name)
        with psycopg.connect(url, autocommit=True) as connection:
            [value] = connection.execute(query.encode(), values).fetchone() or (None,)
        return value


@pytest.fixture(scope="module")
def pair(scratch: Path) -> Iterator[Pair]:
    with (
        tempfile.TemporaryDirectory(prefix="cbm-", dir=scratch) as first,
        tempfile.TemporaryDirectory(prefix="cbm-", dir=scratch) as second,
    ):
        primary = PlainServer(Path(first), PROGRAMS)
        primary.start()
        primary.execute("CREATE ROLE code LOGIN", "CREATE DATABASE code OWNER code")
        primary.execute("CREATE EXTENSION vector", database="code")
        standby = PlainServer(Path(second), PROGRAMS, primary)
        standby.start()
        yield Pair(primary, standby)
        standby.signal_all(signal.SIGCONT)
        standby.stop()
        primary.stop()


@asynccontextmanager
async def opened(settings: Settings, pair: Pair, read_url: str | None) -> AsyncIterator[App]:
    chosen = replace(
        settings,
        database_url=pair.url(pair.primary),
        database_read_url=read_url,
        search_memory_mb=0,
    )
    async with await App.open(chosen) as app:
        yield app


@pytest.fixture
async def app(anyio_backend: str, settings: Settings, pair: Pair) -> AsyncIterator[App]:
    """The product with the standby, which is usable."""
    async with opened(settings, pair, pair.url(pair.standby)) as app:
        await until_usable(app)
        yield app


@pytest.fixture
async def indexed(app: App, make_repo: Callable[..., Path]) -> Path:
    """A repository that is indexed anew."""
    root = make_repo()
    await app.index(root, "shop", force_reindex=True)
    return root


async def until_usable(app: App) -> None:
    async def is_usable() -> bool:
        assert app.database._standby is not None
        return app.database._standby._returning is None and not await fault_of(app)

    await until(is_usable)


async def has_shop(app: App) -> bool:
    return "shop" in {facts.project.project_id for facts in await app.projects()}


async def fault_of(app: App) -> str:
    fault = await app.database.describe_standby()
    assert fault is not None
    return fault


async def found_by(app: App) -> list[str]:
    """The paths that the four kinds of searches find."""
    code = await app.search(QUESTION, "shop")
    text = await app.exact.find(TextQuestion(TextQuery("hashlib")), "shop")
    symbol = await app.symbols.ask(SymbolQuestion("definition", "authenticate"), "shop")
    context = await app.context.find(ContextQuestion("logout does not clear the session"), "shop")
    return [
        code.answer.hits[0].file_path,
        text.files[0].file.path,
        str([found.file.path for found in symbol.facts.definitions]),
        context.context.files[0].path,
    ]


async def used(pair: Pair, call: Callable[[], Awaitable[object]]) -> bool:
    """Whether a call reads the standby."""
    since = pair.ask("SELECT clock_timestamp()")
    await call()
    return bool(pair.ask(READS, since=since))


async def test_every_kind_of_search_reads_the_standby_and_finds_the_same(
    app: App, indexed: Path, settings: Settings, pair: Pair
) -> None:
    on_standby: list[str] = []

    async def search() -> None:
        on_standby.extend(await found_by(app))

    assert await used(pair, search)
    async with opened(settings, pair, None) as alone:
        assert await found_by(alone) == on_standby
        assert not await used(pair, lambda: found_by(alone))


async def test_records_are_read_where_they_are_written(app: App, indexed: Path, pair: Pair) -> None:
    async def write_and_read() -> None:
        async with app.enter("shop") as here:
            await create_task(here.tx, "Mend the login")
        async with app.enter("shop", readonly=True) as here:
            assert await here.tx.fetch_one("SELECT title FROM task") == ("Mend the login",)

    assert not await used(pair, write_and_read)


async def test_what_was_just_indexed_is_found(app: App, indexed: Path, pair: Pair) -> None:
    reads = 0
    for number in range(10):
        name = f"carrot_number_{number}"
        (indexed / "src/carrot.py").write_text(f"def {name}():\n    return {number}\n")
        await app.index(indexed, "shop")
        since = pair.ask("SELECT clock_timestamp()")
        report = await app.symbols.ask(SymbolQuestion("definition", name), "shop")
        assert [found.name for found in report.facts.definitions] == [name]
        reads += bool(pair.ask(READS, since=since))
    assert reads


async def test_a_standby_that_is_behind_is_not_read_until_it_has_caught_up(
    app: App, indexed: Path, pair: Pair
) -> None:
    pair.ask("SELECT pg_wal_replay_pause()")
    try:
        (indexed / "src/turnip.py").write_text("def grow_turnips(field):\n    return field\n")
        await app.index(indexed, "shop")
        report = await app.search("grow turnips", "shop")
        assert report.answer.hits[0].file_path == "src/turnip.py"
        assert not await used(pair, lambda: app.search("grow turnips", "shop"))
        assert "bytes of the log behind" in await fault_of(app)
        health = await app.health("shop")
        assert health.status == "degraded"
        assert "Searches use the primary, as the standby of DATABASE_READ_URL" in health.problems[0]
    finally:
        pair.ask("SELECT pg_wal_replay_resume()")
    await until_usable(app)
    assert await used(pair, lambda: app.search("grow turnips", "shop"))


async def test_a_standby_that_stops_answering_delays_one_search_a_little(
    app: App, indexed: Path, pair: Pair
) -> None:
    await app.search(QUESTION, "shop")
    pair.standby.signal_all(signal.SIGSTOP)
    try:
        async with asyncio.timeout(10):
            reports = await asyncio.gather(*(app.search(QUESTION, "shop") for _ in range(5)))
        assert all(report.answer.hits for report in reports)
        assert "does not" in await fault_of(app)
    finally:
        pair.standby.signal_all(signal.SIGCONT)
    await until_usable(app)


async def test_a_read_that_a_frozen_standby_holds_up_goes_on_at_the_primary(
    app: App, indexed: Path, pair: Pair
) -> None:
    project, _ = await app.resolver.resolve("shop", ANONYMOUS)
    attempts = 0

    async def read() -> object:
        nonlocal attempts
        attempts += 1
        async with app.database.bounded_read(project) as tx:
            await tx.fetch_one("SELECT 1")
            if attempts == 1:
                pair.standby.signal_all(signal.SIGSTOP)
            return await tx.fetch_one("SELECT count(*) > 0 FROM file")

    try:
        async with asyncio.timeout(10):
            assert await again_if_lost(read)() == (True,)
    finally:
        pair.standby.signal_all(signal.SIGCONT)
    assert attempts == 2


async def test_killing_the_standby_in_the_middle_of_searches_fails_none(
    app: App,
    indexed: Path,
    pair: Pair,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 1.0)
    done = 0

    async def search() -> None:
        nonlocal done
        for _ in range(15):
            assert (await app.search(QUESTION, "shop")).answer.hits
            done += 1

    searches = [asyncio.create_task(search()) for _ in range(4)]
    await until(lambda: done > 10)
    pair.standby.signal_all(signal.SIGKILL)
    pair.standby.stop()
    await asyncio.gather(*searches)
    assert "does not accept connections" in await fault_of(app)
    await until(lambda: "Searches use the primary" in caplog.text)
    pair.standby.start()
    await until_usable(app)
    assert caplog.text.count("Searches use the primary") == 1
    assert await used(pair, lambda: app.search(QUESTION, "shop"))


async def test_a_read_that_recovery_cancels_is_made_again_on_the_primary(
    app: App, indexed: Path, pair: Pair
) -> None:
    pair.standby.execute("ALTER SYSTEM SET max_standby_streaming_delay = 0")
    pair.standby.execute("SELECT pg_reload_conf()")
    project, _ = await app.resolver.resolve("shop", ANONYMOUS)
    async with app.database.transaction(project) as tx:
        await tx.execute("CREATE TABLE probe AS SELECT generate_series(1, 9) AS number")
    failures = []

    async def read() -> object:
        async with app.database.bounded_read(project) as tx:
            assert await tx.fetch_one("SELECT count(*) FROM probe") in ((9,), (0,))
            if not failures:
                failures.append("expected")
                async with app.database.transaction(project) as writing:
                    await writing.execute("DELETE FROM probe")
                await app.database.vacuum(project, ["probe"])
                with pytest.raises(StandbyLost) as caught:
                    await until(lambda: read_probe(tx))
                raise caught.value
            return await tx.fetch_one("SELECT count(*) FROM probe")

    assert await again_if_lost(read)() == (0,)
    assert failures
    async with app.database.transaction(project) as tx:
        await tx.execute("DROP TABLE probe")


async def read_probe(tx: Transaction) -> bool:
    await tx.fetch_one("SELECT count(*) FROM probe")
    return False


async def test_servers_that_are_no_standby_are_not_read(
    settings: Settings, pair: Pair, plain_server: PlainServer, database_name: str
) -> None:
    faults = {
        pair.url(pair.primary): "it is not in recovery",
        plain_server.url(database_name): "it is not in recovery",
        pair.url(pair.standby, "postgres"): "is not a copy of the database of DATABASE_URL",
        "postgresql://code@127.0.0.1:1/code": "does not accept connections",
    }
    for url, fault in faults.items():
        async with opened(settings, pair, url) as app:
            assert fault in await fault_of(app)
            if await has_shop(app):
                assert (await app.search(QUESTION, "shop")).answer.hits
    with pytest.raises(DatabaseUnavailable, match="DATABASE_READ_URL is invalid"):
        async with opened(settings, pair, "postgresql://u:p@ss@h/d"):
            pass


async def test_a_standby_that_is_promoted_is_left_alone(
    app: App, indexed: Path, settings: Settings, pair: Pair, scratch: Path
) -> None:
    assert await used(pair, lambda: app.search(QUESTION, "shop"))
    pair.ask("SELECT pg_promote()")
    assert not await used(pair, lambda: app.search(QUESTION, "shop"))
    assert "no longer: it is not in recovery" in await fault_of(app)
    assert (await app.search(QUESTION, "shop")).answer.hits

    with tempfile.TemporaryDirectory(prefix="cbm-", dir=scratch) as folder:
        other = PlainServer(Path(folder), PROGRAMS, pair.standby)
        other.start()
        async with opened(settings, pair, pair.url(other)) as misled:
            assert await fault_of(misled) == (
                "the standby of DATABASE_READ_URL is on timeline 2, and the primary on 1"
            )
        other.stop()
