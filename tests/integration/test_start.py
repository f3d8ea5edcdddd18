"""What a command loads, what a server has ready before it is asked, and what `search` searches."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, Context
from tests.conftest import SAMPLE
from tests.integration.conftest import Shell

from codebase_mcp.app.app import App
from codebase_mcp.app.background.lifespan import has_database, warm_start, warm_up_search
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.errors import DatabaseUnavailable, ShuttingDown
from codebase_mcp.settings.loading import TOOLSETS, Settings
from codebase_mcp.tools.server import AppHolder, server_of

# Nothing that a command prints needs these: together they take longer than all that it does.
HEAVY = {
    "fastmcp", "mcp", "mcp_types", "starlette", "uvicorn", "jsonschema", "procrastinate",
    "prometheus_client", "opentelemetry", "watchfiles", "httpx2", "tree_sitter", "semble_grammars",
}  # fmt: skip
NOT_FOR_HELP = {"asyncio", "numpy", "psycopg", "pydantic", "rich", "tokenizers", "email"}
# A search into a pipe calls no tool, paints nothing, and looks at the tree once.
NOT_FOR_SEARCH = {
    "pydantic", "pydantic_core", "rich", "codebase_mcp.tools.calling", "codebase_mcp.source.glance",
    "codebase_mcp.index.build", "codebase_mcp.cli.terminal", "multiprocessing",
}  # fmt: skip
QUESTION = b"[Y/n]"
RUN = """
import sys
from codebase_mcp.cli.main import run
try:
    status = run(sys.argv[1:])
except SystemExit as ended:
    status = ended.code
print(*(name for name in sys.modules if "." not in name), file=sys.stderr)
print(*(name for name in sys.modules if name.startswith("codebase_mcp.")), file=sys.stderr)
sys.exit(status)
"""


# The product is not loaded before the process is there that makes and starts the database.
WATCHED = """
import os, sys, threading
launched = threading.Event()
def watch(event, arguments):
    if event == "subprocess.Popen" and "supervisor.py" in str(arguments[1]):
        launched.set()
    if event == "import" and arguments[0] == "codebase_mcp.app.app" and not launched.wait(30):
        os._exit(3)
sys.addaudithook(watch)
from codebase_mcp.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def new_data_dir(scratch: Path) -> Iterator[Path]:
    """A data folder that is not there yet; what was started for it is stopped."""
    folder = Path(tempfile.mkdtemp(prefix="new-", dir=scratch))
    folder.chmod(0o755)
    yield folder / "data"
    EmbeddedServer(Embedded(folder / "data")).stop()
    shutil.rmtree(folder)


def loaded_by(data_dir: Path, *command: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    environment = os.environ | {"CODEBASE_MCP_DATA_DIR": str(data_dir)}
    asked = [sys.executable, "-c", RUN, *command]
    done = subprocess.run(asked, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.anyio
@pytest.mark.parametrize(
    "command",
    [
        ["search", "who signs in"],
        ["search", "who signs in", "--json"],
        ["status"],
        ["projects"],
        ["tasks"],
        ["memory"],
        ["work-items"],
        ["jobs"],
        ["list_tasks"],
    ],
    ids=" ".join,
)
async def test_a_command_loads_no_server_and_no_other_tool(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    command: list[str],
) -> None:
    await app.index(make_repo(SAMPLE), project_id)
    asked = [*command, "--project", project_id]
    if command == ["list_tasks"]:
        asked = [*command, "--project-id", project_id]
    loaded = await asyncio.to_thread(loaded_by, app.settings.data_dir, *asked)
    assert loaded & HEAVY == set()
    assert len({f"codebase_mcp.tools.{name}" for name in TOOLSETS} & loaded) <= 1
    if command == ["search", "who signs in"]:
        assert loaded & NOT_FOR_SEARCH == set()


COUNTED = """
import atexit, gc, sys
from codebase_mcp.cli.main import main
def collections():
    return sum(generation["collections"] for generation in gc.get_stats())
before = collections()
atexit.register(lambda: print(collections() - before, file=sys.stderr))
main(sys.argv[1:])
"""


@pytest.mark.anyio
async def test_a_search_does_not_look_for_garbage_among_what_it_has_loaded(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(SAMPLE), project_id)
    asked = [sys.executable, "-c", COUNTED, "search", "who signs in", "--project", project_id]
    environment = os.environ | {"CODEBASE_MCP_DATA_DIR": str(app.settings.data_dir)}
    done = await asyncio.to_thread(
        subprocess.run, asked, env=environment, capture_output=True, text=True, check=True
    )
    assert int(done.stderr.split()[-1]) <= 2  # a slow search says so before it


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["search", "--help"]], ids=" ".join)
def test_help_loads_next_to_nothing(tmp_path: Path, command: list[str]) -> None:
    loaded = loaded_by(tmp_path / "data", *command)
    assert not loaded & HEAVY
    if command != ["--version"]:
        assert not loaded & NOT_FOR_HELP
    assert not (tmp_path / "data").exists()


def test_the_database_starts_while_what_indexes_is_being_loaded(
    new_data_dir: Path, make_repo: Callable[..., Path]
) -> None:
    asked = [sys.executable, "-c", WATCHED, "index", str(make_repo(SAMPLE)), "--json"]
    environment = os.environ | {"CODEBASE_MCP_DATA_DIR": str(new_data_dir)}
    done = subprocess.run(asked, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "success"


def test_a_program_that_indexes_loads_nothing_that_prints_or_checks_tools(
    embedded: Embedded, make_repo: Callable[..., Path]
) -> None:
    loaded = loaded_by(embedded.data_dir, "index", str(make_repo(SAMPLE)), "--json")
    assert not loaded & {"rich", "pydantic", "procrastinate"}


@pytest.mark.parametrize("arguments", [["no-such"], [".", "--dry-run"]], ids=" ".join)
def test_a_database_is_not_made_where_it_may_not_be_needed(
    tmp_path: Path, arguments: list[str]
) -> None:
    environment = os.environ | {"CODEBASE_MCP_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "codebase_mcp.cli.main", "index", *arguments]
    subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True)
    assert not (tmp_path / "data" / "cluster").exists()


def test_a_database_that_cannot_start_is_one_error(
    tmp_path: Path, make_repo: Callable[..., Path]
) -> None:
    (tmp_path / "data").write_text("no folder")
    environment = os.environ | {"CODEBASE_MCP_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "codebase_mcp.cli.main", "index", str(make_repo(SAMPLE))]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("cannot use the data folder") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.anyio
async def test_a_server_on_stdio_has_connected_before_it_is_asked(settings: Settings) -> None:
    opened: asyncio.Future[App] = asyncio.get_running_loop().create_future()

    async def open_app() -> App:
        opened.set_result(await App.open(settings))
        return opened.result()

    async with warm_start(open_app, settings), await opened as app:
        while not app.database.pool_facts().idle:
            await asyncio.sleep(0.01)


@pytest.mark.anyio
async def test_a_first_search_of_nothing_is_no_error(settings: Settings) -> None:
    async with await App.open(replace(settings, project="never-made")) as app:
        await warm_up_search(app)


def test_a_server_on_stdio_makes_no_database_that_nobody_asked_for(
    settings: Settings, tmp_path: Path
) -> None:
    new = replace(settings, data_dir=tmp_path / "new")
    assert has_database(settings)
    assert not has_database(new)
    assert not has_database(replace(settings, toolsets=("tasks",)))
    assert has_database(replace(new, database_url="postgresql://elsewhere/code"))
    assert not new.data_dir.exists()


Search = Callable[..., Awaitable[tuple[int, dict[str, Any], str]]]


@pytest.fixture
def search(shell: Shell) -> Search:
    """Exit status, reply and what was said beside it of a search from a directory."""

    async def run(directory: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
        asked = ("search", "who signs in", "--json", *arguments)
        done = await asyncio.to_thread(shell, *asked, cwd=directory)
        return done.returncode, json.loads(done.stdout), done.stderr

    return run


@pytest.mark.anyio
async def test_search_finds_the_project_of_the_repository_that_it_is_called_in(
    app: App, search: Search, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = make_repo(SAMPLE)
    await app.index(root, project_id)
    status, reply, said = await search(root / "src" / "parsers")
    assert (status, reply["project_id"], said) == (0, project_id, "")


@pytest.mark.anyio
async def test_of_several_projects_that_have_the_repository_the_last_indexed_is_searched(
    app: App, search: Search, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = make_repo(SAMPLE)
    await app.index(root, f"{project_id}-new")
    try:
        await app.index(root, project_id)
        _, reply, said = await search(root)
        assert reply["project_id"] == project_id
        assert f"{project_id}, which was indexed last; also in {project_id}-new" in said
        named = ("--project", f"{project_id}-new")
        _, reply, said = await search(root, *named)
        assert (reply["project_id"], said) == (f"{project_id}-new", "")
    finally:
        await app.drop_project(f"{project_id}-new")


@pytest.mark.anyio
async def test_search_indexes_what_is_not_indexed_yet_if_told_to(
    app: App, search: Search, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root = make_repo(SAMPLE)
    named = ("--project", project_id)
    status, reply, _ = await search(root, *named)
    assert (status, reply["error"]["code"]) == (1, "PROJECT_NOT_FOUND")
    status, reply, _ = await search(root, *named, "--index")
    assert status == 0
    assert reply["results"]


def answered(data_dir: Path, directory: Path, answer: str, *arguments: str) -> tuple[int, str]:
    """Exit status of a search on a terminal, and all that is seen there; one question is asked."""
    command = [sys.executable, "-m", "codebase_mcp.cli.main", "search", "who signs in"]
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*command, *arguments],
        cwd=directory,
        env=os.environ | {"CODEBASE_MCP_DATA_DIR": str(data_dir), "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # what Linux says when nobody is left at the other end
            while read := os.read(ours, 4096):
                seen += read
                if QUESTION in seen and answer:
                    os.write(ours, answer.encode() + b"\n")
                    answer = ""
        os.close(ours)
    return process.returncode, seen.decode()


@pytest.mark.anyio
async def test_on_a_terminal_search_asks_before_it_indexes(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root, data_dir = make_repo(SAMPLE), app.settings.data_dir
    (root / ".git" / "objects").mkdir(parents=True)
    (root / ".git" / "refs").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    named = ("--project", project_id)

    status, seen = await asyncio.to_thread(answered, data_dir, root, "n", *named)
    assert status == 1
    assert f"{root} is not indexed yet. Index it now? [Y/n]" in seen
    assert "Project has not been indexed or does not exist" in seen
    assert "codebase-mcp index" in seen

    status, seen = await asyncio.to_thread(answered, data_dir, root, "y", *named)
    assert status == 0
    assert "authenticate" in seen

    status, seen = await asyncio.to_thread(answered, data_dir, root, "", *named)
    assert status == 0
    assert "not indexed yet" not in seen
    assert "authenticate" in seen


@pytest.mark.anyio
async def test_told_to_index_search_does_not_ask(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    root, data_dir = make_repo(SAMPLE), app.settings.data_dir
    named = ("--project", project_id, "--index")
    status, seen = await asyncio.to_thread(answered, data_dir, root, "", *named)
    assert status == 0
    assert "not indexed yet" not in seen
    assert "authenticate" in seen


@pytest.mark.anyio
async def test_a_server_freezes_what_is_loaded_and_the_library_does_not(settings: Settings) -> None:
    gc.unfreeze()
    async with await App.open(settings):
        assert gc.get_freeze_count() == 0
    holder = AppHolder(settings)
    await holder.get()
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    await holder.close()
    assert frozen > 10_000


@pytest.mark.anyio
async def test_a_server_leaves_nothing_open_and_opens_nothing_after_its_end(
    settings: Settings,
) -> None:
    opened: list[App] = []

    async def open_app() -> App:
        opened.append(await App.open(settings))
        return opened[-1]

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        await app.database.check()
        if len(opened) == 1:
            raise DatabaseUnavailable("not yet")
        yield

    holder = AppHolder(Settings.load({}), lifespan, open_app=open_app)
    with pytest.raises(DatabaseUnavailable):
        await holder.get()
    assert (await holder.get()) is opened[1]
    assert [app.database.pool_facts().idle for app in opened] == [0, 1]
    await holder.close()
    assert opened[1].database.pool_facts().idle == 0
    with pytest.raises(ShuttingDown):
        await holder.get()
    assert len(opened) == 2


def test_a_list_of_tools_loads_no_store_of_states(new_data_dir: Path) -> None:
    client = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    asked = [("initialize", hello), ("tools/list", {})]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        for number, (method, parameters) in enumerate(asked)
    ]
    served = subprocess.run(
        [sys.executable, "-c", RUN, "serve"],
        check=True,
        env=os.environ | {"CODEBASE_MCP_DATA_DIR": str(new_data_dir)},
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
    )
    assert '"search_code"' in served.stdout
    assert "beartype" not in served.stderr.split()


@pytest.mark.anyio
async def test_a_tool_that_was_added_may_keep_states(settings: Settings) -> None:
    server = server_of(AppHolder(settings), ["code"])

    @server.tool
    async def count(context: Context) -> int:
        number = (await context.get_state("calls") or 0) + 1
        await context.set_state("calls", number)
        return number

    async with Client(server, mode="legacy") as client:
        assert len(await client.list_tools()) == 3
        assert [(await client.call_tool("count")).data for _ in range(2)] == [1, 2]
        assert len(await client.list_tools()) == 3
