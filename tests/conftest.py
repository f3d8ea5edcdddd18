"""Fixtures that every suite may use: one embedded server per run, a fresh project per test."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
from jsonschema import Draft202012Validator
from tests.spare_schemas import SpareSchemas, open_spare_schemas

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.naming import schema_of
from codebase_mcp.database.projects import Project, drop_project, ensure_project
from codebase_mcp.database.server import EmbeddedServer
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.settings.loading import Settings

UNIT = Path(__file__).parent / "unit"


def pytest_configure() -> None:
    """Hear Ctrl-C, as all that the tests start will; a job in a shell's background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # No example fails because the machine is slow. The rest stays as it is, so with CI=true too.
    hypothesis.settings.register_profile("any speed", hypothesis.settings(), deadline=None)
    hypothesis.settings.load_profile("any speed")
    # Compiling the rules for secrets takes five seconds: once, not for each data folder of a test.
    os.environ.setdefault("KF_RULE_CACHE_DIR", str(Path.home() / ".cache" / "kingfisher"))
    os.environ["CODEBASE_MCP_RESIDENT_MINUTES"] = "0"  # only where it is tested


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run unit tests last: their files are short, so no process waits for another at the end."""
    items.sort(key=lambda item: item.path.is_relative_to(UNIT))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def schemas_checked_once() -> Iterator[None]:
    """Check each schema once a run: each client checks those of its tools, the same for all."""
    check = Draft202012Validator.check_schema
    seen: set[str] = set()

    def check_new(cls: Any, schema: Any, *options: Any, **more: Any) -> None:
        text = json.dumps(schema, sort_keys=True, default=repr)
        if text not in seen:
            check(schema, *options, **more)
            seen.add(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", classmethod(check_new))
        yield


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
def server_of_run(scratch: Path) -> Iterator[Embedded]:
    """It is up until the run ends, and gone a moment later."""
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


@pytest.fixture(scope="session")
def embedded(server_of_run: Embedded) -> Embedded:
    """The run's server; a module may override how it is used."""
    return server_of_run


@pytest.fixture
async def database(anyio_backend: str, embedded: Embedded) -> AsyncIterator[Database]:
    """A database of this test's event loop, on the run's server."""
    database = await Database.open(embedded)
    yield database
    await database.close()


@pytest.fixture(scope="session")
def spare_schemas(server_of_run: Embedded) -> Iterator[SpareSchemas]:
    """Schemas of earlier tests' projects, emptied."""
    with open_spare_schemas(server_of_run) as spare_schemas:
        yield spare_schemas


@pytest.fixture
async def project(
    anyio_backend: str, database: Database, spare_schemas: SpareSchemas
) -> AsyncIterator[Project]:
    """A project that no other test has seen."""
    project_id = f"test-{uuid.uuid4().hex[:12]}"
    spare_schemas.give(project_id)
    project = await ensure_project(database, project_id)
    yield project
    await spare_schemas.take(project_id)
    await drop_project(database, project)


@pytest.fixture
def settings(embedded: Embedded) -> Settings:
    """The product's settings, on the run's server; a busy machine has time to look at files."""
    return Settings.load(
        {"CODEBASE_MCP_DATA_DIR": str(embedded.data_dir), "CODEBASE_MCP_CHECK_MS": "30000"}
    )


@pytest.fixture
async def app(anyio_backend: str, settings: Settings) -> AsyncIterator[App]:
    """The whole product, as its Python API offers it."""
    async with await App.open(settings) as app:
        yield app


@pytest.fixture
async def project_id(
    anyio_backend: str, app: App, spare_schemas: SpareSchemas
) -> AsyncIterator[str]:
    """The id of a project that no other test has seen; it need not come into being."""
    project_id = f"test-{uuid.uuid4().hex[:12]}"
    spare_schemas.give(project_id)
    yield project_id
    await app.jobs.stop(schema_of(project_id))
    await spare_schemas.take(project_id)
    with contextlib.suppress(ProjectNotFound):
        await app.drop_project(project_id)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A directory that this process may not read, for as long as the test runs."""
    folder = tmp_path / "closed"
    (folder / "below").mkdir(parents=True)
    folder.chmod(0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    yield folder
    os.seteuid(before)
    folder.chmod(0o700)


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[..., Path]:
    """Write a tree of files; without any, a small web application."""

    def make(files: Mapping[str, str | bytes] | None = None, name: str = "repo") -> Path:
        root = tmp_path / name
        for path, content in (SAMPLE if files is None else files).items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return make


SAMPLE: Mapping[str, str | bytes] = {
    "src/auth.py": '''\
# User authentication module
import hashlib


def authenticate(user, password):
    """Authenticate user with password."""
    if not user or not password:
        return False
    hashed = hashlib.sha256(password.encode()).hexdigest()
    return hashed == user.password_hash


def logout(user):
    user.session.clear()
''',
    "src/parsers/json_parser.py": '''\
import json


def parse_json_file(file_path):
    """Parse JSON file and return dict."""
    with open(file_path) as stream:
        return json.load(stream)
''',
    "src/parsers/config_parser.py": '''\
import json


def parse_config(content):
    """Parse JSON configuration string."""
    return json.loads(content)
''',
    "src2/other.py": "def other_parser(text):\n    return text.split()\n",
    "lib/retry.ts": """\
export class RetryPolicy {
  // Waits longer after each failed attempt.
  backoff(attempt: number): number {
    return Math.min(1000 * 2 ** attempt, 30000);
  }
}
""",
    "tests/test_auth.py": """\
from src.auth import authenticate


def test_authenticate_refuses_an_empty_password():
    assert not authenticate(object(), "")
""",
    "README.md": "# Sample\n\nA small web application.\n",
    "logo.png": b"\x89PNG\r\n\x1a\n\0\0",
    ".gitignore": "build/\n*.log\n",
    "build/generated.py": "def authenticate_generated():\n    pass\n",
    "debug.log": "authenticate failed\n",
}
