"""Servers of a test's own, embedded ones that may be killed and plain ones behind a URL; and a
project whose records are anchored to its code."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database import nearest, supervisor
from codebase_mcp.database.placement import find_package
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.anchoring import Anchor, CodeReference
from codebase_mcp.records.anchors import set_anchors

CLIENT = """
import sys
from pathlib import Path
from codebase_mcp.database.server import Embedded, EmbeddedServer
server = EmbeddedServer(Embedded(Path(sys.argv[1]), float(sys.argv[2])))
print(server.join(), flush=True)
sys.stdin.read()
"""

# Longer than any test; those about the idle time name a shorter one.
IDLE_MINUTES = 5.0
ANCHORS = """\
SELECT repository_id, file, symbol, commit, start_line, end_line, state, reason, moved_from
FROM anchor
WHERE record_id = %(record_id)s
ORDER BY ordinal
"""

PROGRAMS = find_package() / "pginstall18" / "bin"

# What PostgreSQL says when it can be asked.
READY = "ready to accept connections"


@pytest.fixture
def open_folder(scratch: Path) -> Iterator[Path]:
    """An empty folder that every user may pass through."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="cbm-", dir=scratch)))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def make_server(open_folder: Path) -> Iterator[Callable[..., EmbeddedServer]]:
    """Make clients of servers, which are stopped and cleared away at the end."""
    made: list[EmbeddedServer] = []

    def make(data_dir: Path | None = None, idle_minutes: float = IDLE_MINUTES) -> EmbeddedServer:
        made.append(EmbeddedServer(Embedded(data_dir or open_folder / "data", idle_minutes)))
        return made[-1]

    yield make
    for server in made:
        server.leave()
        if server.placement.home.exists():
            server.stop()
            if server.placement.moved:
                shutil.rmtree(server.placement.home)


@dataclass(frozen=True, slots=True)
class Client:
    """Another process that uses an embedded server until its input closes."""

    process: subprocess.Popen[str]

    def conninfo(self) -> str:
        """What it was told; waits until it was."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, "the client failed"
        return line

    def end(self, death: signal.Signals = signal.SIGKILL) -> None:
        """Signal its whole process group, as a terminal does, and wait for its end."""
        os.killpg(self.process.pid, death)
        self.process.communicate()


@pytest.fixture
def start_client(open_folder: Path) -> Iterator[Callable[..., Client]]:
    """Start processes that join the server of the test's data folder."""
    clients: list[Client] = []

    def start(*before: str, idle_minutes: float = IDLE_MINUTES) -> Client:
        command = [*before, sys.executable, "-c", CLIENT]
        command += [str(open_folder / "data"), str(idle_minutes)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        clients.append(Client(process))
        return clients[-1]

    yield start
    for client in clients:
        if client.process.poll() is None:
            client.end()


class PlainServer:
    """A PostgreSQL as an administrator would run it, on a socket, trusting everybody.

    With a ``primary`` it is a streaming standby of that one, which has to run. ``options`` are
    further ones of the server.
    """

    port = 5432

    def __init__(
        self,
        folder: Path,
        programs: Path,
        primary: PlainServer | None = None,
        options: Sequence[str] = ("listen_addresses=",),
    ) -> None:
        self.folder = folder
        self._programs = programs
        self._options = ("fsync=off", *options)
        self._user = service_user()
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            shutil.chown(folder, self._user)
        data = ("-D", f"{folder}/data", "-U", "postgres", "--no-sync")
        if primary is None:
            self._run("initdb", *data, "--auth=trust", "--locale=C", "-E", "UTF8")
        else:
            self._run("pg_basebackup", *data, "-h", str(primary.folder), "-R", "-c", "fast")

    def start(self) -> None:
        options = [part for option in self._options for part in ("-c", option)]
        place = ["-D", self.folder / "data", "-k", self.folder, "-p", str(self.port)]
        command = [self._programs / "postgres", *place, *options]
        self._process = start_logging(command, self.folder, "ready to accept")

    def stop(self, death: signal.Signals = signal.SIGINT) -> None:
        if self._process is not None:
            self._process.send_signal(death)
            self._process.wait()
            self._process = None

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the server."""
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").readlink() == self.folder / "data":
                    os.kill(int(process.name), number)

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}:secret-word@/{database}?host={self.folder}&port={self.port}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _run(self, program: str, *options: str) -> None:
        # A copy of the server without pgvector has nothing else.
        programs = self._programs if (self._programs / program).exists() else PROGRAMS
        command = [programs / program, *options]
        subprocess.run(command, check=True, capture_output=True, user=self._user)


def start_logging(
    command: Sequence[str | Path], folder: Path, ready: str
) -> subprocess.Popen[bytes]:
    """Start a server as the service user and wait until its log in the folder says a word.

    A file, no pipe: a pipe that nobody reads any more stops the server when it is full.
    """
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stderr=out, user=service_user(), umask=0o077, cwd=folder
        )
    while ready not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.01)
    return process


def service_user() -> int | None:
    """Whom to run a server as: PostgreSQL refuses to run as root."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


@pytest.fixture(scope="session")
def plain_server(scratch: Path) -> Iterator[PlainServer]:
    """One plain server with pgvector for the run; each test makes a database of its own."""
    with tempfile.TemporaryDirectory(prefix="cbm-", dir=scratch) as name:
        server = PlainServer(Path(name), PROGRAMS)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def database_name(plain_server: PlainServer) -> Iterator[str]:
    """A new database on the plain server, and a role of its name that may only connect to it."""
    name = f"test_{uuid4().hex[:12]}"
    plain_server.execute(f"CREATE DATABASE {name}", f"CREATE ROLE {name} LOGIN")
    yield name
    plain_server.execute(f"DROP DATABASE {name} WITH (FORCE)", f"DROP ROLE {name}")


@pytest.fixture
def own_server(scratch: Path) -> Iterator[PlainServer]:
    """A plain server that a test may stop and kill."""
    with tempfile.TemporaryDirectory(prefix="cbm-", dir=scratch) as name:
        server = PlainServer(Path(name), PROGRAMS)
        server.start()
        yield server
        server.stop()


def postmaster_of(server: EmbeddedServer) -> int:
    """The pid of a running server, as it says itself."""
    lines = (server.placement.home / supervisor.CLUSTER / "postmaster.pid").read_text().split("\n")
    return int(lines[0])


def supervisor_of(server: EmbeddedServer) -> int:
    return int((server.placement.home / supervisor.SUPERVISOR_LOCK).read_text())


def ask(conninfo: str, query: str) -> str:
    """The only value that a query gives."""
    with psycopg.connect(conninfo) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return str(row[0])


def processes_in(home: Path) -> list[str]:
    """The processes that work in a folder or were started with its name, zombies included."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit():
                command = (process / "cmdline").read_bytes()
                folder = os.fsencode((process / "cwd").readlink())
                if os.fsencode(home) in command + folder and int(process.name) != os.getpid():
                    found.append(f"{process.name} {command!r}")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


SESSION = """\
class Session:
    def open(self):
        self.state = "open"
        return self.state

    def close(self):
        for handler in self.handlers:
            handler.flush()
        self.state = "closed"


def connect(address):
    session = Session()
    session.address = address
    return session
"""
RETRY = """\
def backoff(attempt):
    delay = 2 ** attempt
    return min(delay, 30)
"""


class AnchoredProject:
    """A project with one repository, and the records that are about it."""

    def __init__(self, app: App, project_id: str, root: Path) -> None:
        self.app = app
        self.project_id = project_id
        self.root = root

    async def index(self, *, force: bool = False, root: Path | None = None) -> UUID:
        report = await self.app.index(root or self.root, self.project_id, force_reindex=force)
        assert report.run.status == "success"
        return report.run.repository_id

    async def anchor(self, *places: CodeReference, record_id: UUID | None = None) -> UUID:
        """Let a record, a new one unless named, be about these places."""
        record_id = record_id or uuid4()
        async with self.app.enter(self.project_id) as here:
            await set_anchors(here.tx, "task", record_id, places)
        return record_id

    async def anchors(self, record_id: UUID) -> tuple[Anchor, ...]:
        async with self.app.enter(self.project_id, readonly=True) as here:
            rows = await here.tx.fetch_all(ANCHORS, record_id=record_id)
            return tuple(Anchor(*row) for row in rows)

    async def only(self, record_id: UUID) -> Anchor:
        [anchor] = await self.anchors(record_id)
        return anchor

    async def refused(self, *places: CodeReference) -> InvalidInput:
        with pytest.raises(InvalidInput) as caught:
            await self.anchor(*places)
        return caught.value

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def write(self, path: str, content: str) -> None:
        """Write a file with a time that no earlier version of it had."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.stat().st_mtime_ns if file.exists() else 10**18
        file.write_text(content)
        os.utime(file, ns=(before, before + 10**9))

    def move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)


@pytest.fixture
def make_project(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> Callable[..., AnchoredProject]:
    """Make a project of some files; not indexed yet."""

    def make(files: dict[str, str] | None = None) -> AnchoredProject:
        default = {"src/session.py": SESSION, "src/retry.py": RETRY, "README.md": "# Sample\n"}
        return AnchoredProject(app, project_id, make_repo(files or default))

    return make


@pytest.fixture
async def anchored(make_project: Callable[..., AnchoredProject]) -> AnchoredProject:
    """A project with three files, indexed."""
    project = make_project()
    await project.index()
    return project


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes are built for some hundred vectors already."""
    monkeypatch.setattr(nearest, "EXACT_NUMBERS", 200)
    monkeypatch.setattr(nearest, "NEWER_VECTORS", 100)
