"""How quick is what agents keep beside the code, when there is a year of it?

    python benchmarks/records.py [--small]

Fills a new data directory with 100,000 tasks, 50,000 observations (paragraphs of the standard
library's documentation strings), 100,000 entities and 50,000 work items five deep, then measures at
the records layer, and through the tools over HTTP beside an empty tool of the same framework.
``--small`` takes a hundredth of it, to try the script.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from uuid import UUID, uuid4

import psycopg
from fastmcp import Client

from codebase_mcp import App
from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.records import entities, memory, memory_search, tasks, work_items
from codebase_mcp.records.page import Cursor, Paging
from codebase_mcp.settings.loading import Settings
from latency import percentile
from load import listening

TASKS, OBSERVATIONS, ENTITIES, WORK_ITEMS = 100_000, 50_000, 100_000, 50_000
LARGE_TABLES = (
    "task", "task_link", "observation", "observation_vector", "entity", "work_item",
)  # fmt: skip
REPEATS = 300
CLIENTS = 8
OPERATIONS = 4_000
EMPTY_SERVER = """
import sys
from fastmcp import FastMCP
server = FastMCP("empty", version="1")
@server.tool
def nothing(task_id: str) -> dict[str, str]:
    return {"id": task_id}
server.run(transport="http", port=int(sys.argv[1]), show_banner=False, log_level="ERROR")
"""

FILL_TASKS = """
INSERT INTO task (id, title, description, status, planning_references, created_at, updated_at)
SELECT gen_random_uuid(), 'Task number ' || i, repeat('what is to be done ', 10),
       (ARRAY['need to be done', 'in-progress', 'complete'])[1 + i % 3], '{specs/a.md}',
       now() - make_interval(secs => TASKS - i), now() - make_interval(secs => TASKS - i)
FROM generate_series(1, TASKS) AS i;
INSERT INTO task_link (task_id, kind, value)
SELECT id, 'branch', 'feature/' || (row_number() OVER ()) % 2000 FROM task;
INSERT INTO task_event (task_id, ordinal, field, new)
SELECT id, 1, 'status', status FROM task;
"""
FILL_ENTITIES = """
INSERT INTO entity (id, type_id, name, data, tags, schema_version, updated_at)
SELECT gen_random_uuid(), (SELECT id FROM entity_type), 'service ' || i,
       jsonb_build_object('owner', 'team ' || i % 500, 'port', i, 'tier', i % 3,
                          'description', repeat('runs here ', 10)),
       ARRAY['tag' || i % 100], 1, now() - make_interval(secs => ENTITIES - i)
FROM generate_series(1, ENTITIES) AS i;
"""
# Ten children each, but for the last level: 1 + 10 + 100 + 1,000 + as many as there shall be.
FILL_WORK_ITEMS = """
WITH RECURSIVE item AS (
    SELECT gen_random_uuid() AS id, NULL::uuid AS parent_id, 1 AS level, ''::text AS above
    FROM generate_series(1, ROOTS)
    UNION ALL
    SELECT gen_random_uuid(), item.id, item.level + 1, item.above || item.id || '/'
    FROM item
    CROSS JOIN generate_series(1, (ARRAY[4, 5, 6, 5])[item.level])
    WHERE item.level < 5
)
INSERT INTO work_item (id, item_type, title, status, parent_id, path)
SELECT id, (ARRAY['project', 'session', 'task', 'research', 'subtask'])[level], 'Item of work',
       (ARRAY['planned', 'active', 'completed', 'blocked'])[1 + (random() * 3)::integer], parent_id,
       above || id || '/'
FROM item;
"""
# A root with its four levels below has 1 + 4 + 20 + 120 + 600 items.
ITEMS_PER_ROOT = 745


def paragraphs() -> Iterator[str]:
    """Real sentences about code: paragraphs of the standard library's documentation strings."""
    for file in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                    text = " ".join(paragraph.split())
                    if 40 < len(text) < 1_000 and "\0" not in text:
                        yield text


async def fill(app: App, share: float) -> None:
    """Everything, straight into the tables, but for the observations."""
    counts = {"TASKS": TASKS, "ENTITIES": ENTITIES, "ROOTS": WORK_ITEMS / ITEMS_PER_ROOT}
    async with app.enter() as here:
        await entities.register_entity_type(here.tx, "Service", {"type": "object"}, None)
        for script in (FILL_TASKS, FILL_ENTITIES, FILL_WORK_ITEMS):
            for name, count in counts.items():
                script = script.replace(name, str(max(round(count * share), 1)))  # noqa: PLW2901
            await here.tx.run_script(script)
    texts = list(dict.fromkeys(paragraphs()))
    texts = list(itertools.islice(itertools.cycle(texts), round(OBSERVATIONS * share)))
    texts = [f"{text} ({number})" for number, text in enumerate(texts)]
    now = datetime.now(UTC)
    for first in range(0, len(texts), 1_000):
        lines = [
            {
                "id": str(uuid4()),
                "content": text,
                "type": get_args(memory.ObservationType)[number % 5],
                "tags": [f"tag{number % 50}"],
                "session_id": None,
                "created_at": (now - timedelta(minutes=number)).isoformat(),
                "stored_at": now.isoformat(),
                "times_stored": 1,
            }
            for number, text in enumerate(texts[first : first + 1_000], first)
        ]
        async with app.enter() as here:
            await memory.store_prepared(here.tx, lines, await app.models.configured())
    async with app.enter() as here:
        schema = here.project.schema_name
        await memory.tend_index(here.tx, await app.models.configured())
    # What the database does by itself within minutes; a year's records were there yesterday too.
    server = EmbeddedServer(Embedded(app.settings.data_dir))
    with psycopg.connect(server.join(), autocommit=True) as connection:
        for table in (
            "task",
            "task_link",
            "observation",
            "observation_vector",
            "entity",
            "work_item",
        ):
            connection.execute(f"VACUUM ANALYZE {schema}.{table}".encode())
    server.leave()


Operation = Callable[[Transaction], Awaitable[Any]]


async def latency(app: App, label: str, operation: Operation, *, writes: bool = False) -> None:
    """One operation at a time, each in a transaction of its own."""
    taken = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        async with app.enter(readonly=not writes) as here:
            await operation(here.tx)
        taken.append((time.perf_counter() - started) * 1000)
    print(
        f"{label:44} p50 {percentile(taken, 0.5):6.2f} ms  p95 {percentile(taken, 0.95):6.2f} ms",
        flush=True,
    )


async def measure_layer(app: App, rng: random.Random) -> None:
    """Reads, hierarchy and writes, one after the other."""
    async with app.enter(readonly=True) as here:
        ids = {
            table: [row[0] for row in await here.tx.fetch_all(f"SELECT id FROM {table}")]
            for table in ("task", "observation", "entity", "work_item")
        }
        roots = await work_items.root_ids(here.tx, 100)
    await measure_reads(app, rng, ids)
    hierarchies = {
        "work item: hierarchy of any item": ids["work_item"],
        "work item: hierarchy of a root (744 below)": roots,
    }
    for label, some in hierarchies.items():
        await latency(app, label, lambda tx, s=some: work_items.get_hierarchy(tx, rng.choice(s)))
    await measure_writes(app, rng, ids)


async def measure_reads(app: App, rng: random.Random, ids: dict[str, list[UUID]]) -> None:
    """What a caller reads most."""
    first = Paging(20)
    deep = Paging(20, cursor=Cursor(datetime.now(UTC) - timedelta(hours=12), UUID(int=0)))
    questions = (
        "how are sockets closed", "parse the header of a message", "wait for a thread",
        "where is the cache kept", "unicode normalisation", "compare two files",
    )  # fmt: skip
    no_filter, tagged = memory_search.MemoryFilters(), memory_search.MemoryFilters(tags=("tag7",))

    def search(filters: memory_search.MemoryFilters) -> Operation:
        async def ask_and_search(tx: Transaction) -> None:
            question = await memory_search.ask(app.models, rng.choice(questions))
            await memory_search.search_observations(tx, question, filters, limit=10)

        return ask_and_search

    def query(**wanted: Any) -> Operation:
        return lambda tx: work_items.query_work_items(tx, work_items.Wanted(**wanted), first)

    reads: dict[str, Operation] = {
        "task: get": lambda tx: tasks.get_task(tx, rng.choice(ids["task"])),
        "task: first page of all": lambda tx: tasks.list_tasks(tx, first),
        "task: a page deep inside": lambda tx: tasks.list_tasks(tx, deep),
        "task: page of a status": lambda tx: tasks.list_tasks(tx, first, status="complete"),
        "task: page of a branch": lambda tx: tasks.list_tasks(
            tx, first, branch=f"feature/{rng.randrange(1000, 2000)}"
        ),
        "memory: search": search(no_filter),
        "memory: search with a tag": search(tagged),
        "memory: timeline": lambda tx: memory.timeline(tx, rng.choice(ids["observation"]), 5, 5),
        "memory: get ten": lambda tx: memory.get_observations(tx, ids["observation"][:10]),
        "entity: first page of a type": lambda tx: entities.query_entities(tx, "Service", first),
        "entity: by content": lambda tx: entities.query_entities(
            tx, "Service", first, filter={"owner": f"team {rng.randrange(500)}"}
        ),
        "work item: first page": query(),
        "work item: page of a status": query(status="blocked"),
        "work item: children": query(parent_id=rng.choice(ids["work_item"])),
    }
    for label, read in reads.items():
        await latency(app, label, read)


async def measure_writes(app: App, rng: random.Random, ids: dict[str, list[UUID]]) -> None:
    """What a caller writes most."""
    numbers = itertools.count()

    async def store(tx: Transaction) -> None:
        said = memory.ObservationText(
            f"Observation {next(numbers)}: the cache of templates is never emptied"
        )
        model = await app.models.configured()
        [prepared] = await memory.prepare(model, [said])
        await memory.store_observation(tx, model, prepared, "Insight", None)

    writes: dict[str, Operation] = {
        "task: create": lambda tx: tasks.create_task(tx, "A new task"),
        "task: update": lambda tx: tasks.update_task(
            tx, rng.choice(ids["task"]), {"status": rng.choice(["in-progress", "complete"])}
        ),
        "memory: store": store,
        "entity: create": lambda tx: entities.create_entity(
            tx, "Service", f"new {next(numbers)}", {"owner": "me"}
        ),
        "work item: create": lambda tx: work_items.create_work_item(tx, "project", "New"),
        "work item: update": lambda tx: work_items.update_work_item(
            tx, rng.choice(ids["work_item"]), {"status": "active"}
        ),
    }
    for label, write in writes.items():
        await latency(app, label, write, writes=True)


async def measure_throughput(app: App) -> None:
    """Task operations of several clients at once: a quarter each of create, get, update, list."""
    rounds = OPERATIONS // 4 // CLIENTS

    async def client(number: int) -> None:
        for step in range(rounds):
            async with app.enter() as here:
                task = await tasks.create_task(here.tx, "A task of many")
            async with app.enter(readonly=True) as here:
                await tasks.get_task(here.tx, task.id)
            async with app.enter() as here:
                await tasks.update_task(here.tx, task.id, {"status": "complete", "branch": "b"})
            async with app.enter(readonly=True) as here:
                branch = f"feature/{1000 + (number * rounds + step) % 1000}"
                await tasks.list_tasks(here.tx, Paging(20), branch=branch)

    started = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    rate = 4 * rounds * CLIENTS / (time.perf_counter() - started)
    print(f"{CLIENTS} clients at the records layer: {rate:,.0f} task operations/s")


@contextmanager
def served(data_dir: Path) -> Iterator[dict[str, str]]:
    """Our server and an empty one, over HTTP; their addresses."""
    ours = [sys.executable, "-m", "codebase_mcp.cli.main", "serve", "--toolsets", "tasks"]
    commands = {
        "ours": [*ours, "--transport", "http", "--port", "3917"],
        "empty": [sys.executable, "-c", EMPTY_SERVER, "3918"],
    }
    environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)}
    processes = [subprocess.Popen(command, env=environment) for command in commands.values()]
    try:
        yield {"ours": "http://127.0.0.1:3917/mcp", "empty": "http://127.0.0.1:3918/mcp"}
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


async def connected(address: str) -> Client[Any]:
    """A client of a server that may still be starting."""
    await listening(int(address.split(":")[2].partition("/")[0]))
    return await Client(address).__aenter__()


async def measure_tools(data_dir: Path, task_id: str) -> None:
    """The same tool calls beside those of an empty tool, in turn."""
    with served(data_dir) as addresses:
        clients = {name: await connected(address) for name, address in addresses.items()}
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "empty tool": lambda: clients["empty"].call_tool("nothing", {"task_id": task_id}),
            "get_task": lambda: clients["ours"].call_tool("get_task", {"task_id": task_id}),
            "create_task": lambda: clients["ours"].call_tool("create_task", {"title": "New"}),
            "update_task": lambda: clients["ours"].call_tool(
                "update_task", {"task_id": task_id, "status": "complete"}
            ),
            "list_tasks": lambda: clients["ours"].call_tool("list_tasks", {"status": "complete"}),
        }
        taken: dict[str, list[float]] = {label: [] for label in calls}
        for label, call in itertools.chain.from_iterable(
            calls.items() for _ in range(REPEATS // 2)
        ):
            started = time.perf_counter()
            await call()
            taken[label].append((time.perf_counter() - started) * 1000)
        for label, values in taken.items():
            some = values[5:]
            rate = await at_once(calls[label])
            print(
                f"{'over HTTP: ' + label:44} p50 {percentile(some, 0.5):6.2f} ms  "
                f"p95 {percentile(some, 0.95):6.2f} ms  {rate:5.0f} calls/s from {CLIENTS} at once"
            )
        for client in clients.values():
            await client.__aexit__(None, None, None)


async def at_once(call: Callable[[], Awaitable[Any]]) -> float:
    """Calls per second of several callers."""
    started = time.perf_counter()

    async def caller() -> None:
        for _ in range(REPEATS // CLIENTS):
            await call()

    await asyncio.gather(*(caller() for _ in range(CLIENTS)))
    return CLIENTS * (REPEATS // CLIENTS) / (time.perf_counter() - started)


async def measure(share: float, data_dir: Path) -> None:
    """Fill, measure, print."""
    rng = random.Random(7)
    settings = Settings.load({**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)})
    async with await App.open(settings) as app:
        await fill(app, share)
        async with app.enter(readonly=True) as here:
            for table in ("task", "observation", "entity", "work_item"):
                [[count]] = await here.tx.fetch_all(f"SELECT count(*) FROM {table}")
                print(f"{table}: {count:,}")
            [[task_id]] = await here.tx.fetch_all("SELECT id::text FROM task LIMIT 1")
        await measure_layer(app, rng)
        await measure_throughput(app)
        await measure_tools(data_dir, task_id)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(
        prefix="codebase-mcp-bench-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the database's user must get through, when run as root
        asyncio.run(measure(0.01 if "--small" in sys.argv else 1.0, Path(folder, "data")))
