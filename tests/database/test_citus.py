"""On a Citus coordinator each project is a tenant, which may lie on any machine of the cluster.

``make citus`` runs these tests on a cluster of its own: CITUS_BIN names the folder with the
programs of a PostgreSQL that has Citus and pgvector.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from tests.waiting import until

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.database.migrate import join_cluster, migrate
from codebase_mcp.errors import DatabaseUnavailable, ProjectNotFound
from codebase_mcp.records.anchoring import CodeReference
from codebase_mcp.records.entities import create_entity, update_entity
from codebase_mcp.records.entity_types import register_entity_type
from codebase_mcp.records.memory import ObservationText, prepare, store_observation
from codebase_mcp.records.memory_search import MemoryFilters, ask, search_observations
from codebase_mcp.records.sessions import open_agent, track_execution
from codebase_mcp.records.tasks import create_task, get_task, update_task
from codebase_mcp.records.work_items import create_work_item
from codebase_mcp.settings.loading import Settings

from .conftest import PlainServer

BIN = os.environ.get("CITUS_BIN", "")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not BIN, reason="CITUS_BIN names no PostgreSQL with Citus"),
]

QUESTION = "authenticate user"


class Node(PlainServer):
    """A server of the cluster, which the others reach over the loopback interface."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        options = [
            "listen_addresses=127.0.0.1",
            "shared_preload_libraries=citus",
            "wal_level=logical",
        ]
        super().__init__(folder, Path(BIN), options=options)

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def kill(self) -> None:
        """End all its processes at once, as a power cut does."""
        self.signal_all(signal.SIGKILL)
        self.stop()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A coordinator, which holds no projects, and its workers."""

    coordinator: Node
    workers: list[Node]
    stack: ExitStack

    def ask(self, query: str, **values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.coordinator.url(), autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def add(self, scratch: Path) -> Node:
        """Start a node, and make it a worker."""
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="cbm-", dir=scratch))
        node = Node(Path(folder))
        node.start()
        self.stack.callback(node.stop)
        node.execute("CREATE EXTENSION citus", "CREATE EXTENSION vector")
        if self.coordinator is not None:
            self.ask("SELECT citus_add_node('127.0.0.1', %(port)s)", port=node.port)
            self.workers.append(node)
        return node

    def node_of(self, project_id: str) -> Node:
        """The worker that a project lies on."""
        [[port]] = self.ask(
            "SELECT DISTINCT nodeport FROM citus_shards WHERE table_name::text LIKE %(tables)s",
            tables=schema_of(project_id) + ".%",
        )
        return next(node for node in self.workers if node.port == port)


def schema_of(project_id: str) -> str:
    return "project_" + project_id.replace("-", "_")


@pytest.fixture(scope="module")
def cluster(scratch: Path) -> Iterator[Cluster]:
    """A coordinator and two workers."""
    with ExitStack() as stack:
        alone = Cluster(None, [], stack)  # type: ignore[arg-type]
        coordinator = alone.add(scratch)
        made = Cluster(coordinator, [], stack)
        made.ask("SELECT citus_set_coordinator_host('127.0.0.1', %(port)s)", port=coordinator.port)
        for _ in range(2):
            made.add(scratch)
        yield made


@pytest.fixture
async def app(anyio_backend: str, settings: Settings, cluster: Cluster) -> AsyncIterator[App]:
    chosen = replace(settings, database_url=cluster.coordinator.url(), search_memory_mb=0)
    async with await App.open(chosen) as app:
        yield app


@pytest.fixture
async def tenants(app: App) -> AsyncIterator[tuple[str, str]]:
    """The ids of two projects, which come to lie on different workers."""
    ids = f"citus-{uuid.uuid4().hex[:8]}", f"citus-{uuid.uuid4().hex[:8]}"
    yield ids
    for project_id in ids:
        with suppress(ProjectNotFound):
            await app.drop_project(project_id)


async def test_projects_are_tenants_and_the_catalogue_is_none(
    app: App, cluster: Cluster, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    for project_id in tenants:
        await app.index(root, project_id)
    distributed = {str(row[0]) for row in cluster.ask("SELECT schema_name FROM citus_schemas")}
    assert {schema_of(project_id) for project_id in tenants} <= distributed
    assert "codebase_mcp" not in distributed
    local = cluster.ask(
        "SELECT c.relname FROM pg_class AS c WHERE c.relkind = 'r' AND NOT EXISTS"
        " (SELECT FROM pg_dist_partition AS p WHERE p.logicalrelid = c.oid)"
        f" AND c.relnamespace = '{schema_of(tenants[0])}'::regnamespace"
    )
    assert local == []


async def test_no_foreign_key_leaves_its_schema(
    app: App, cluster: Cluster, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(), tenants[0])
    crossing = cluster.ask(
        "SELECT count(*) FROM pg_constraint AS f JOIN pg_class AS c ON c.oid = f.conrelid"
        " JOIN pg_class AS r ON r.oid = f.confrelid"
        " WHERE f.contype = 'f' AND c.relnamespace <> r.relnamespace"
    )
    assert crossing == [(0,)]


async def test_a_tenant_is_indexed_searched_and_keeps_records(
    app: App, cluster: Cluster, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    project_id = tenants[0]
    assert (await app.index(root, project_id)).run.status == "success"
    assert (await app.index(root, project_id, force_reindex=True)).run.status == "success"

    async def write(number: int) -> None:
        async with app.enter(project_id) as here:
            await create_task(
                here.tx, f"Task {number}", anchors=[CodeReference(file="src/auth.py")]
            )

    await asyncio.gather(*(write(number) for number in range(8)))
    reports = await asyncio.gather(
        *(app.search("authenticate user", project_id, with_notes=True) for _ in range(8))
    )
    assert {report.answer.hits[0].file_path for report in reports} == {"src/auth.py"}
    assert len(reports[0].notes[0]) > 0


async def test_records_of_a_tenant_are_kept_whole(
    app: App, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    project_id, _ = tenants
    await app.index(make_repo(), project_id)
    code = [CodeReference(file="src/auth.py")]
    async with app.enter(project_id) as here:
        task = await create_task(here.tx, "Mend the login", anchors=code)
        await update_task(here.tx, task.id, {"status": "in-progress", "branch": "mend"})
        agent = await open_agent(here.tx, "helper", None, None)
        await track_execution(here.tx, agent.name, {"tool_name": "grep", "success": True}, None)
        await register_entity_type(here.tx, "vendor", {"type": "object"})
        entity = await create_entity(here.tx, "vendor", "acme", {}, anchors=code)
        await update_entity(here.tx, entity.id, {"open": True}, entity.version)
        await create_work_item(here.tx, "project", "The login", anchors=code)
    async with app.enter(project_id, readonly=True) as here:
        task = await get_task(here.tx, task.id)
        assert [(event.field, event.new) for event in task.history or ()] == [
            ("status", "need to be done"),
            ("status", "in-progress"),
            ("branch", "mend"),
        ]
        assert (task.branches, [anchor.file for anchor in task.anchors]) == (
            ("mend",),
            ["src/auth.py"],
        )
    model = await app.models.primary()
    [prepared] = await prepare(model, [ObservationText("the login needs a salt", ("auth",))])
    for _ in range(2):
        async with app.enter(project_id) as here:
            await store_observation(here.tx, model, prepared, "Insight", None)
    question = await ask(app.models, "salt of the login")
    async with app.enter(project_id, readonly=True) as here:
        [found] = await search_observations(here.tx, question, MemoryFilters(), limit=5)
        assert found.content == "the login needs a salt"
        assert await here.tx.fetch_one("SELECT count(*) FROM observation_vector") == (1,)


async def test_a_tenant_is_backed_up_and_restored(
    app: App, cluster: Cluster, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    project_id, other_id = tenants
    await app.index(make_repo(), project_id)
    file = io.BytesIO()
    await app.data.backup(file, project_id)
    await app.data.restore(io.BytesIO(file.getvalue()), "backup", other_id)
    await app.data.restore(io.BytesIO(file.getvalue()), "backup", replace=True)
    for restored in tenants:
        assert (await app.search("authenticate user", restored)).answer.hits
    tenant = schema_of(other_id)
    assert (tenant,) in cluster.ask("SELECT schema_name::text FROM citus_schemas")


async def test_a_tenant_of_an_older_schema_is_brought_up_to_date_and_stays_one(
    app: App, cluster: Cluster, tenants: tuple[str, str]
) -> None:
    project_id, _ = tenants
    schema = schema_of(project_id)
    async with app.database.unmigrated(schema) as tx:
        await migrate(tx, "project", schema, version=1)
        await tx.execute("INSERT INTO term_frequency VALUES (1, 2)")
        await join_cluster(tx, schema)
    async with app.database.catalogue() as tx:
        await tx.execute(
            "INSERT INTO project (project_id, schema_name) VALUES (%(id)s, %(schema)s)",
            id=project_id,
            schema=schema,
        )
    states = await app.data.migrate(project_id)
    assert states[1].applied > 0
    assert (schema,) in cluster.ask("SELECT schema_name::text FROM citus_schemas")
    async with app.enter(project_id, readonly=True) as here:
        assert await here.tx.fetch_one("SELECT term, chunks FROM term_frequency") == (1, 2)


async def answers(app: App, project_id: str) -> bool:
    return bool((await app.search(QUESTION, project_id)).answer.hits)


async def spread(app: App, cluster: Cluster, tenants: Sequence[str], root: Path) -> None:
    """Index two projects; they are on different workers."""
    for project_id in tenants:
        await app.index(root, project_id)
    assert len({cluster.node_of(project_id).port for project_id in tenants}) == len(tenants)


async def test_a_killed_worker_takes_its_own_projects_away_until_it_is_back(
    app: App, cluster: Cluster, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    await spread(app, cluster, tenants, root)
    lost, other = tenants
    for number in range(1500):
        (root / f"src/made_{number}.py").write_text(f"def made_{number}():\n    return {number}\n")
    stored = "SELECT count(*) FROM file"

    async def count() -> int:
        async with app.database.transaction(project, readonly=True) as tx:
            return (await tx.fetch_one(stored) or (0,))[0]

    project, _ = await app.resolver.resolve(lost, ANONYMOUS)
    before = await count()
    running = asyncio.create_task(app.index(root, lost))

    async def has_begun() -> bool:
        return before < await count() < 1500

    await until(has_begun)
    node = cluster.node_of(lost)
    node.kill()
    with suppress(DatabaseUnavailable):
        assert (await running).run.status == "failed"
    async with asyncio.timeout(10):
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                await app.search(QUESTION, lost)
            assert await answers(app, other)
    assert (await app.index(root, other)).run.status == "success"
    node.start()
    assert await answers(app, lost)
    assert (await app.index(root, lost)).run.status == "success"
    assert (await app.search("made_1234", lost)).answer.hits[0].file_path == "src/made_1234.py"
    assert await count() == 1500 + before


async def test_a_project_moves_to_another_worker_while_it_is_searched(
    app: App, cluster: Cluster, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    await spread(app, cluster, tenants, root)
    moved, other = tenants
    goal = cluster.node_of(other)
    searches = 0

    async def search() -> None:
        nonlocal searches
        while not moving.done():
            assert await answers(app, moved)
            searches += 1

    moving = asyncio.ensure_future(
        asyncio.to_thread(
            cluster.ask,
            "SELECT citus_schema_move(%(schema)s::regnamespace, '127.0.0.1', %(port)s,"
            " shard_transfer_mode := 'block_writes')",
            schema=schema_of(moved),
            port=goal.port,
        )
    )
    await asyncio.gather(*(search() for _ in range(3)))
    await moving
    assert searches > 3
    assert cluster.node_of(moved) is goal
    (root / "src/auth.py").unlink()
    (root / "src/login.py").write_text("def authenticate(user, password):\n    return True\n")
    assert (await app.index(root, moved)).run.status == "success"
    assert (await app.search(QUESTION, moved)).answer.hits[0].file_path == "src/login.py"


async def test_a_third_worker_takes_projects_over(
    app: App,
    cluster: Cluster,
    tenants: tuple[str, str],
    make_repo: Callable[..., Path],
    scratch: Path,
) -> None:
    root = make_repo()
    more = [f"citus-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    every = [*tenants, *more]
    for project_id in every:
        await app.index(root, project_id)
    third = cluster.add(scratch)
    rebalancing = asyncio.ensure_future(
        asyncio.to_thread(
            cluster.ask,
            "SELECT rebalance_table_shards(rebalance_strategy := 'by_shard_count',"
            " shard_transfer_mode := 'block_writes')",
        )
    )
    while not rebalancing.done():
        assert all([await answers(app, project_id) for project_id in every])
    await rebalancing
    assert third in [cluster.node_of(project_id) for project_id in every]
    for project_id in every:
        assert (await app.index(root, project_id, force_reindex=True)).run.status == "success"
        assert await answers(app, project_id)
    for project_id in more:
        await app.drop_project(project_id)
