"""Which PostgreSQL is mine, and does it run? Starts or joins the embedded server of a data folder.

A client holds a shared lock for as long as it may need the server; the detached process of
``supervisor.py`` is the server's parent and stops it when that lock is free. Whether
a server lives is decided by connecting to it, never by a pid file.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from codebase_mcp.database import supervisor
from codebase_mcp.database.faults import Advice, disk_full
from codebase_mcp.database.placement import POSTGRES_MAJOR, Placement, choose_placement
from codebase_mcp.errors import DatabaseUnavailable

ROLE = "codebase_mcp"
DATABASE = "postgres"

_START_LOCK = "start.lock"
_PATIENCE_S = 60.0
_POLL_S = 0.02
_LOG_TAIL_LINES = 5
_DISK_IS_FULL = (supervisor.DISK_IS_FULL, "Disk quota exceeded")

# Below this much shared memory (a container has 64 MiB) a parallel index build would fail in it.
_SHARED_MEMORY_BYTES = 512 << 20

_SETTINGS = """\
# Written by codebase-mcp at every start. To change a setting use ALTER SYSTEM, which wins over it.
listen_addresses = ''
max_connections = 100
shared_buffers = 128MB
effective_cache_size = 1GB
maintenance_work_mem = 256MB
autovacuum_work_mem = 32MB
autovacuum_max_workers = 2
work_mem = 16MB
huge_pages = off
jit = off
io_method = sync
random_page_cost = 1.1
wal_level = minimal
max_wal_senders = 0
max_logical_replication_workers = 0
max_wal_size = 256MB
min_wal_size = 32MB
checkpoint_timeout = 15min
logging_collector = off
log_checkpoints = off
log_min_messages = warning
log_min_error_statement = panic
log_parameter_max_length_on_error = 0
log_line_prefix = '%m [%p] '
log_timezone = 'UTC'
timezone = 'UTC'
lc_messages = 'C'
"""


# A purge of 770 files, half of the index, needed 16 MiB with the settings below.
_RESERVE_BYTES = 32 << 20

# More than the reserve, so that an index run cannot fill the room of the removed file.
_TIGHT_MB = 48

# As much as the log of changes may take in a long run, and the reserve.
_AMPLE_BYTES = 288 << 20

# Without the reserve the log of changes is kept as short as it can be.
_TIGHT_SETTINGS = """\
max_wal_size = 32MB
checkpoint_completion_target = 0
checkpoint_warning = 0
"""


@dataclass(frozen=True, slots=True)
class Embedded:
    """A PostgreSQL of our own in this folder; it stops this long after its last client has gone."""

    data_dir: Path
    idle_minutes: float = 5.0
    project_roles: bool = True


class EmbeddedServer:
    """A client's hold on the server of a data folder. Blocking: call it from a thread."""

    def __init__(self, target: Embedded) -> None:
        self._target = target
        self._client_lock: int | None = None
        self._log_start = 0
        self._turn = threading.Lock()

    @cached_property
    def placement(self) -> Placement:
        """The folders and the user of the server; decided on first use."""
        return choose_placement(self._target.data_dir)

    @cached_property
    def reserve(self) -> Reserve:
        """The reserved room in the data folder."""
        return Reserve(self.placement.home)

    @property
    def log_file(self) -> Path:
        return self.placement.home / supervisor.LOG

    def join(self) -> str:
        """Make sure that the server runs, keep it running, and say how to connect to it.

        Raises:
            DatabaseUnavailable: it cannot be started; the hint names its log.
        """
        deadline = time.monotonic() + _PATIENCE_S
        with self._turn:
            try:
                self._check_version()
                self._hold(deadline)
                return self._running() or self._start(deadline)
            except OSError as error:
                raise self._failure(f"{error.strerror}: {error.filename}") from error

    def leave(self) -> None:
        """Release the server, after a user that is joining has joined; it may stop from now on."""
        with self._turn:
            if self._client_lock is not None:
                os.utime(self._client_lock)
                os.close(self._client_lock)
                self._client_lock = None

    def stop(self) -> None:
        """Ask the server to stop now, even if it is in use, and return when it has ended."""
        path = self._path(supervisor.SUPERVISOR_LOCK)
        if supervisor.is_locked(path):
            os.kill(int(Path(path).read_text()), signal.SIGTERM)
        self.wait_until_ended()

    def require_room(self) -> None:
        """Make sure that there is room to add to the database.

        Raises:
            DatabaseUnavailable: the disk is nearly full.
        """
        if self.reserve.is_tight():
            kept = f", but for {_TIGHT_MB} MB that are left to searches and purge"
            raise disk_full(Advice(data_dir=self.placement.home), kept)
        self.reserve.make()

    def make_room(self) -> None:
        """Prepare to delete on a disk that is nearly full: the next user starts the server anew.

        It then has the room of the reserve, and needs little of it.
        """
        if not self.reserve.is_tight() or not self.reserve.give_up():
            return
        path = self._path(supervisor.SUPERVISOR_LOCK)
        if not supervisor.is_locked(path):
            return
        supervisor_pid = Path(path).read_text()
        with suppress(PermissionError):  # root's: it goes on as it is
            os.kill(int(supervisor_pid), signal.SIGTERM)
            deadline = time.monotonic() + _PATIENCE_S
            while supervisor.is_locked(path) and Path(path).read_text() == supervisor_pid:
                if time.monotonic() > deadline:
                    raise self._failure("it does not end")
                time.sleep(_POLL_S)

    def wait_until_ended(self) -> None:
        """Return when neither the server nor its supervisor lives.

        Raises:
            DatabaseUnavailable: they still live after a minute.
        """
        deadline = time.monotonic() + _PATIENCE_S
        for name in (supervisor.SERVER_LOCK, supervisor.SUPERVISOR_LOCK):
            lock = self._open(name)
            try:
                self._wait_for(lock, fcntl.LOCK_EX, deadline, "it does not end")
            finally:
                os.close(lock)

    def _start(self, deadline: float) -> str:
        """Start the server, and retry until it answers; only one process at a time does so.

        A server that shuts down still holds its locks for a moment; then the next round starts it.
        """
        start_lock = self._open(_START_LOCK)
        try:
            self._wait_for(start_lock, fcntl.LOCK_EX, deadline, "another process is starting it")
            while time.monotonic() < deadline:
                if (conninfo := self._running()) is not None:
                    return conninfo
                if supervisor.is_locked(self._path(supervisor.SUPERVISOR_LOCK)):
                    time.sleep(_POLL_S)
                else:
                    self._launch(deadline)
        finally:
            os.close(start_lock)
        raise self._failure("it does not answer; is it used by another machine or container?")

    def _running(self) -> str | None:
        """How to connect to the server, if it answers, is ours and has its supervisor."""
        endpoint = Path(self._path(supervisor.ENDPOINT))
        if not endpoint.exists():
            return None
        conninfo = make_conninfo(
            host=os.fsdecode(endpoint.read_bytes()),
            port=supervisor.PORT,
            user=ROLE,
            dbname=DATABASE,
            connect_timeout=5,
        )
        try:
            with psycopg.connect(conninfo, autocommit=True) as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError as error:
            # "Too many connections" is an answer too; the next connection will report it.
            is_full = "connection slots" in str(error) or "too many clients" in str(error)
            return conninfo if is_full else None
        if row is None or row[0].encode() != os.fsencode(self._path(supervisor.CLUSTER)):
            return None  # the data folder is a copy, and this is the original's server
        supervised = supervisor.is_locked(self._path(supervisor.SUPERVISOR_LOCK))
        return conninfo if supervised else None

    def _launch(self, deadline: float) -> None:
        """Start a supervisor and wait for its word, or until time is up."""
        if self.reserve.is_tight():
            self.reserve.give_up()
        self.reserve.make()
        self._write_configuration("" if self.reserve.exists() else _TIGHT_SETTINGS)
        placement = self.placement
        command = [sys.executable, "-I", "-S", str(Path(supervisor.__file__))]
        command += [f"home={placement.home}", f"binaries={placement.binaries}"]
        command += [f"config={placement.home / 'config'}", f"uid={placement.account.uid}"]
        command += [f"gid={placement.account.gid}", f"idle_s={self._target.idle_minutes * 60}"]
        command += [f"shared_memory={shared_memory()}"]
        log = self._open(supervisor.LOG, os.O_WRONLY | os.O_APPEND)
        self._log_start = os.fstat(log).st_size
        try:
            # A clean environment: a process that outlives us must not keep our keys and passwords.
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={"PATH": os.defpath, "LC_ALL": "C"},
            ) as process:
                assert process.stdout is not None
                word = read_until(process.stdout.fileno(), deadline)
        finally:
            os.close(log)
        if word != b"ready":
            reason = os.fsdecode(word).removeprefix("failed: ") or "its supervisor ended"
            raise self._failure(reason)

    def _write_configuration(self, more_settings: str) -> None:
        """Write the configuration anew, so that an old data folder gets today's settings."""
        folder = self.placement.home / "config"
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)  # whatever the umask says, the server's user must read it
            if os.geteuid() == 0:
                owner = self.placement.home.stat()
                os.chown(folder, owner.st_uid, owner.st_gid)
        quoted = [name.replace('"', '""') for name in self.placement.users]
        files = {
            "postgresql.conf": _SETTINGS + settings_of_this_system() + more_settings,
            "pg_hba.conf": "local all all peer map=codebase_mcp\n",
            "pg_ident.conf": "".join(f'codebase_mcp "{name}" {ROLE}\n' for name in quoted),
        }
        for name, text in files.items():
            path = str(folder / name)
            fd = supervisor.open_file(path, os.O_WRONLY | os.O_TRUNC)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                os.fchmod(fd, 0o644)  # the server's user reads it, and it holds no secret
                file.write(text)

    def _check_version(self) -> None:
        """Refuse a cluster that another major version of PostgreSQL has made."""
        version_file = self.placement.home / supervisor.CLUSTER / "PG_VERSION"
        if not version_file.exists():
            return
        version = version_file.read_text().strip()
        if version != str(POSTGRES_MAJOR):
            raise DatabaseUnavailable(
                f"PostgreSQL database unavailable: the data folder {self.placement.home} was made"
                f" by PostgreSQL {version}, and this program brings PostgreSQL {POSTGRES_MAJOR}",
                hint="Move the folder away to begin anew, or use the version that made it.",
            )

    def _hold(self, deadline: float) -> None:
        """Take the client's lock, waiting out a server that is just being stopped."""
        if self._client_lock is None:
            lock = self._open(supervisor.CLIENTS_LOCK)
            try:
                self._wait_for(lock, fcntl.LOCK_SH, deadline, "it is being stopped")
            except DatabaseUnavailable:
                os.close(lock)
                raise
            self._client_lock = lock
        os.utime(self._client_lock)  # the supervisor sees it, however short our visit

    def _wait_for(self, lock: int, kind: int, deadline: float, why: str) -> None:
        """Take a lock before the deadline; polled, for a blocking wait has no time limit."""
        while not supervisor.try_lock(lock, kind):
            if time.monotonic() > deadline:
                raise self._failure(why)
            time.sleep(_POLL_S)

    def _failure(self, reason: str) -> DatabaseUnavailable:
        """The error for a server that cannot be had, with the end of its log."""
        log = self.log_file
        readable = log.exists() and os.access(log, os.R_OK)
        written = log.read_bytes() if readable else b""
        lines = written.decode(errors="replace").splitlines()
        disk = Advice(data_dir=self.placement.home)
        fresh = written[self._log_start :].decode(errors="replace")
        if says_full(f"{reason}\n{fresh}") or disk.disk_is_full():
            return disk_full(disk)
        return DatabaseUnavailable(
            f"PostgreSQL database unavailable: {reason}",
            hint=f"The embedded server's log is {log}.",
            details={"log": lines[-_LOG_TAIL_LINES:]},
        )

    def _path(self, name: str) -> str:
        return str(self.placement.home / name)

    def _open(self, name: str, flags: int = os.O_RDWR) -> int:
        return supervisor.open_file(self._path(name), flags)


class Reserve:
    """A file of 32 MiB that keeps room on the disk for the day when it is full.

    It is removed when the server starts, or deletes, on a disk that is nearly full: the room is
    enough for searches and for a purge, which frees more. Index runs end before that, so none of
    them fills it. A later start or run makes the file again, when there is room.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "reserve"

    def is_tight(self) -> bool:
        """Whether so little room is left that nothing should be added."""
        return self._free_bytes() < _TIGHT_MB << 20

    def exists(self) -> bool:
        """Whether the file exists."""
        return self._file.exists()

    def give_up(self) -> bool:
        """Remove the file; whether it existed."""
        was_there = self.exists()
        self._file.unlink(missing_ok=True)
        return was_there

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self._file.parent).free

    def make(self) -> None:
        """Make the file, if it is missing and there is ample room."""
        if self.exists() or self._free_bytes() <= _AMPLE_BYTES:
            return
        file = supervisor.open_file(str(self._file), os.O_WRONLY)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, _RESERVE_BYTES)
            else:
                os.write(file, bytes(_RESERVE_BYTES))
        except OSError:  # a quota that is not visible in the free space
            self._file.unlink(missing_ok=True)
        finally:
            os.close(file)


def settings_of_this_system() -> str:
    """Settings for this machine: how a crash is cleaned up, where parallel workers meet."""
    settings = ""
    if sys.platform == "linux":
        settings += "recovery_init_sync_method = syncfs\n"  # 0.1 s instead of 2 s, file by file
    return settings + f"dynamic_shared_memory_type = {shared_memory()}\n"


def shared_memory() -> str:
    """Where parallel workers meet: in files, where the system has little shared memory."""
    shared = Path("/dev/shm")  # nosec B108, as only its size is asked for
    if not shared.exists():
        return "mmap" if sys.platform == "linux" else "posix"
    status = os.statvfs(shared)
    is_small = status.f_bavail * status.f_frsize < _SHARED_MEMORY_BYTES
    return "mmap" if is_small else "posix"


def says_full(text: str) -> bool:
    """Whether any of these lines says that the disk is full; shared memory is not the disk."""
    lines = (line for line in text.splitlines() if "shared memory" not in line)
    return any(reason in line for line in lines for reason in _DISK_IS_FULL)


def read_until(fd: int, deadline: float) -> bytes:
    """A message from a pipe; empty if its writer ended or the time is up before."""
    readable, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
    return os.read(fd, 4096) if readable else b""
