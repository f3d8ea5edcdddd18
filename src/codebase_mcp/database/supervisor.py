"""Keeps the embedded PostgreSQL running, and stops it: a small process.

It is started by path as a script (``python -I -S supervisor.py key=value ...``), leaves its
starter's session at once, and is the parent of PostgreSQL from then on. It imports very little,
because it lives as long as the server and its memory is pure overhead. Which user, folders and
settings the server gets is decided in ``server.py``.

Locks, which the kernel drops with their holder, say which processes are alive:

- ``clients.lock``: each client holds it shared; free for the idle time means stop.
- ``supervisor.lock``: held by the supervisor of a folder; contains its pid.
- ``server.lock``: inherited by initdb and PostgreSQL, so it is free only when the last process of
  the server has ended, for whatever reason. A pid file can be wrong; this lock cannot.
"""

# pathlib would cost another megabyte, for hours:
# ruff: noqa: PTH102,PTH104,PTH105,PTH106,PTH108,PTH110,PTH114,PTH116,PTH118,PTH120,PTH123

from __future__ import annotations

import _thread
import fcntl
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # typing is a megabyte of imports
if TYPE_CHECKING:
    from collections.abc import Callable

CLIENTS_LOCK = "clients.lock"
SUPERVISOR_LOCK = "supervisor.lock"
SERVER_LOCK = "server.lock"
CLUSTER = "cluster"
ENDPOINT = "endpoint"
LOG = "postgresql.log"
PORT = 5432

# The log is evidence for a fault, not history: two such pieces are kept.
_LOG_BYTES = 1 << 20
# Random digits follow. The folder is new and its owner's alone.
_TEMPORARY = "/tmp/codebase-mcp-"  # nosec B108
_READY_POLL_S = 0.01
_FAST_SHUTDOWN_S = 60.0
_ORPHAN_WAIT_S = 30.0

DISK_IS_FULL = "No space left on device"
# The first file that a cluster needs as a whole: a segment of its log.
_LEAST_ROOM_BYTES = 16 << 20


class StartError(Exception):
    """The server did not start; the text is a line for the client, the log has the rest."""


def open_file(path: str, flags: int) -> int:
    """Open or create a file of ours, never through a symlink, never inherited by children.

    What root creates belongs to the owner of the folder it lies in, who could not use it otherwise.
    """
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    if os.geteuid() == 0:
        folder = os.stat(os.path.dirname(path))
        os.fchown(fd, folder.st_uid, folder.st_gid)
    return fd


def try_lock(fd: int, kind: int) -> bool:
    """Take a lock on an open file if that is possible at once."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: str) -> bool:
    """Whether a process holds this lock exclusively; concurrent checks do not interfere."""
    fd = open_file(path, os.O_RDWR)
    try:
        return not try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


class Supervisor:
    """Starts or adopts PostgreSQL, bounds its log, stops it when idle."""

    def __init__(self, arguments: dict[str, str]) -> None:
        self.home = arguments["home"]
        self.binaries = arguments["binaries"]
        self.config = arguments["config"]
        self.uid = int(arguments["uid"])
        self.gid = int(arguments["gid"])
        self.idle_s = float(arguments["idle_s"])
        self.shared_memory = arguments["shared_memory"]
        self.cluster = self.path(CLUSTER)
        self.socket_folder = ""
        self.child: int | None = None
        self.stop_asked = False
        self.wakeup = self.listen_to_signals()

    def listen_to_signals(self) -> int:
        """Be notified of signals by a pipe: to stop, or because the server has ended."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, self.on_signal)
        readable, writable = os.pipe()
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        return readable

    def on_signal(self, number: int, _frame: object) -> None:
        self.stop_asked |= number != signal.SIGCHLD

    def path(self, name: str) -> str:
        return os.path.join(self.home, name)

    def start(self) -> None:
        """Start the server, or take over a running server without a supervisor.

        Raises:
            StartError: initdb or PostgreSQL gave up.
        """
        lock = open_file(self.path(SERVER_LOCK), os.O_RDWR)
        deadline = time.monotonic() + _ORPHAN_WAIT_S
        while not try_lock(lock, fcntl.LOCK_EX):
            self.socket_folder = self.read_endpoint()
            if self.answers():
                os.close(lock)
                return
            if time.monotonic() > deadline:
                raise StartError("processes of an earlier server still hold the data folder")
            time.sleep(_READY_POLL_S)
        if not os.path.exists(os.path.join(self.cluster, "PG_VERSION")):
            self.initialise(lock)
        # The server lock is free, so an existing pid file is stale, whatever process it names.
        remove_file(os.path.join(self.cluster, "postmaster.pid"))
        self.make_socket_folder()
        command = [os.path.join(self.binaries, "postgres"), "-D", self.cluster]
        command += ["-c", "config_file=" + os.path.join(self.config, "postgresql.conf")]
        command += ["-c", "hba_file=" + os.path.join(self.config, "pg_hba.conf")]
        command += ["-c", "ident_file=" + os.path.join(self.config, "pg_ident.conf")]
        command += ["-k", self.socket_folder, "-p", str(PORT)]
        self.child = self.spawn(command, lock, signal.SIGINT)
        os.close(lock)
        self.await_ready()

    def initialise(self, lock: int) -> None:
        """Make a cluster under a temporary name, so that an unfinished cluster is never used."""
        fresh = self.cluster + ".new"
        remove_tree(fresh)
        os.mkdir(fresh, 0o700)
        if os.geteuid() == 0:
            os.chown(fresh, self.uid, self.gid)
        command = [os.path.join(self.binaries, "initdb"), "-D", fresh, "-U", "codebase_mcp"]
        # The built-in locale needs nothing of the system and sorts alike on every machine.
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        command += ["--encoding=UTF8", "--auth=peer", "--no-instructions", "--no-sync"]
        command += ["--set", "dynamic_shared_memory_type=" + self.shared_memory]
        # After a failure its files show whether the disk is full: its log could not be written.
        command += ["--no-clean"]
        child = self.spawn(command, lock, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 0:
            disk = os.statvfs(self.home)
            remove_tree(fresh)
            if disk.f_bavail * disk.f_frsize < _LEAST_ROOM_BYTES:
                raise StartError(DISK_IS_FULL)
            raise StartError("initdb could not make a database cluster")
        os.rename(fresh, self.cluster)
        # Nothing in it is worth the wait yet, which is seconds while the disk is busy.
        _thread.start_new_thread(os.sync, ())

    def make_socket_folder(self) -> None:
        """Choose a private folder that can hold a socket, and write down where it is.

        The data folder is preferred, as all clients surely share it; a path
        too long for a socket, odd characters, or a file system without sockets lead to ``/tmp``.
        """
        self.socket_folder = self.read_endpoint()
        # It answers if this data folder is a copy and the original's server runs: keep it then.
        if self.socket_folder.startswith(_TEMPORARY) and not self.answers():
            remove_tree(self.socket_folder)
        self.socket_folder = self.path("socket")
        if not self.can_hold_socket(self.socket_folder):
            self.socket_folder = _TEMPORARY + os.urandom(6).hex()
            if not self.can_hold_socket(self.socket_folder):
                raise StartError("no folder for the server's socket: /tmp is not writable")
        temporary = self.path(ENDPOINT + ".new")
        fd = open_file(temporary, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, os.fsencode(self.socket_folder))
        os.close(fd)
        os.replace(temporary, self.path(ENDPOINT))

    def can_hold_socket(self, folder: str) -> bool:
        """Make the folder, owned by the server's user alone, and try a socket in it."""
        # A comma separates hosts for libpq, folders for PostgreSQL: plain letters only, then.
        if not folder.isascii() or not all(c.isalnum() or c in "/._-" for c in folder):
            return False
        trial = os.path.join(folder, f".s.PGSQL.{PORT}.trial")
        try:
            if os.path.dirname(folder) == self.home:
                remove_tree(folder)
            os.mkdir(folder, 0o700)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(os.fsencode(trial))
            os.unlink(trial)
            if os.geteuid() == 0:
                os.chown(folder, self.uid, self.gid)
        except OSError:
            remove_folder(folder)
            return False
        return True

    def read_endpoint(self) -> str:
        try:
            fd = os.open(self.path(ENDPOINT), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return ""
        with os.fdopen(fd, "rb") as file:
            return os.fsdecode(file.read())

    def spawn(self, command: list[str], lock: int, death_signal: int) -> int:
        """Run a program as the server's user, holding the lock, dying with this process."""
        log = open_file(self.path(LOG), os.O_WRONLY | os.O_APPEND)
        me = os.getpid()
        child = os.fork()
        if child:
            os.close(log)
            return child
        try:
            die_with_parent = death_switch()  # while root: its user may not read our Python
            os.setsid()
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(self.gid)
                os.setuid(self.uid)
            die_with_parent(death_signal)  # after setuid, which clears it
            if os.getppid() != me:
                os._exit(1)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.set_inheritable(lock, True)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            # PostgreSQL must not be turned by PGDATA, LD_PRELOAD and their like.
            os.execve(command[0], command, {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"})
        except OSError as error:
            os.write(2, f"{command[0]}: {error}\n".encode(errors="replace"))
        finally:
            os._exit(127)

    def await_ready(self) -> None:
        """Return when PostgreSQL accepts connections; recovery may take long."""
        pid_file = os.path.join(self.cluster, "postmaster.pid")
        while True:
            if self.has_ended():
                raise StartError("PostgreSQL ended while it was starting")
            lines = read_lines(pid_file)
            if len(lines) > 7 and lines[0] == str(self.child) and lines[7].startswith("ready"):
                return
            if self.stop_asked:
                self.stop()
                raise StartError("the start was stopped")
            time.sleep(_READY_POLL_S)

    def has_ended(self) -> bool:
        """Whether the server has ended; its parent must ask the kernel, to leave no zombie."""
        if self.child is None:
            return not is_locked(self.path(SERVER_LOCK))
        return os.waitpid(self.child, os.WNOHANG)[0] != 0

    def answers(self) -> bool:
        """Whether a process listens on the server's socket."""
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(os.path.join(self.socket_folder, f".s.PGSQL.{PORT}"))
            except OSError:
                return False
        return True

    def watch(self) -> None:
        """Wait until the server ends, is to be stopped, or was not used for the idle time."""
        clients = open_file(self.path(CLIENTS_LOCK), os.O_RDWR)
        poll_s = max(0.02, min(1.0, self.idle_s / 4))
        last_use, last_mtime = time.monotonic(), -1
        while not self.has_ended():
            self.bound_log()
            # A client between two rounds has changed the time of the file.
            mtime = os.fstat(clients).st_mtime_ns
            if mtime != last_mtime or not try_lock(clients, fcntl.LOCK_EX):
                last_use, last_mtime = time.monotonic(), mtime
            elif time.monotonic() - last_use >= self.idle_s:
                self.stop()  # still holding the lock: new users wait, then start another server
                break
            else:
                fcntl.flock(clients, fcntl.LOCK_UN)
            if self.stop_asked:
                self.stop()
                break
            if select.select([self.wakeup], [], [], poll_s)[0]:
                os.read(self.wakeup, 64)
        if self.socket_folder.startswith(_TEMPORARY):
            remove_folder(self.socket_folder)
        os.close(clients)

    def stop(self) -> None:
        """Shut down fast and in order; harder only if that takes too long."""
        for death, patience_s in ((signal.SIGINT, _FAST_SHUTDOWN_S), (signal.SIGQUIT, 10.0)):
            pid = self.child or self.adopted_pid()
            if pid is None:
                return
            os.kill(pid, death)
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline:
                if self.has_ended():
                    return
                time.sleep(_READY_POLL_S)

    def adopted_pid(self) -> int | None:
        """The postmaster's pid, trusted only while something answers on its private socket."""
        lines = read_lines(os.path.join(self.cluster, "postmaster.pid"))
        return int(lines[0]) if lines and self.answers() else None

    def bound_log(self) -> None:
        """Keep the newest part of a log that grew too long; its writers append, so they go on."""
        log = open_file(self.path(LOG), os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(log).st_size
            if size > _LOG_BYTES:
                kept = open_file(self.path(LOG + ".1"), os.O_WRONLY | os.O_TRUNC)
                os.write(kept, os.pread(log, _LOG_BYTES, size - _LOG_BYTES))
                os.close(kept)
                os.ftruncate(log, 0)
        finally:
            os.close(log)


def death_switch() -> Callable[[int], object]:
    """Asks Linux for a signal when the parent dies; elsewhere the next supervisor adopts it."""
    if sys.platform != "linux":
        return lambda death_signal: None
    import ctypes  # noqa: PLC0415 - costs a megabyte, so only the short-lived child pays

    pr_set_pdeathsig = 1
    prctl = ctypes.CDLL(None).prctl
    return lambda death_signal: prctl(pr_set_pdeathsig, int(death_signal), 0, 0, 0)


def read_lines(path: str) -> list[str]:
    """The lines of a small file; none when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def remove_folder(path: str) -> None:
    """Remove a folder if it is there and empty."""
    try:
        os.rmdir(path)
    except OSError:
        return


def remove_tree(path: str) -> None:
    """Remove a folder of ours with all that is in it, following no symlink."""
    for folder, subfolders, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(folder, name))
        for name in subfolders:
            inner = os.path.join(folder, name)
            (os.unlink if os.path.islink(inner) else os.rmdir)(inner)
    remove_folder(path)


def report(line: str) -> None:
    """Tell the starter, which may have ended, and close its pipe."""
    try:
        os.write(1, line.encode(errors="surrogateescape"))
    except BrokenPipeError:
        return
    finally:
        os.dup2(0, 1)


def main(arguments: dict[str, str]) -> int:
    """Keep the server until it ends; exit status 0 also if it has a supervisor already."""
    if os.fork():
        return 0  # the starter reaps this half; init reaps the child
    os.chdir("/")
    os.umask(0o077)
    supervisor = Supervisor(arguments)
    own = open_file(supervisor.path(SUPERVISOR_LOCK), os.O_RDWR)
    if not try_lock(own, fcntl.LOCK_EX):
        report("ready")
        return 0
    os.ftruncate(own, 0)
    os.write(own, str(os.getpid()).encode())
    try:
        supervisor.start()
    except (StartError, OSError) as error:
        report(f"failed: {error}")
        return 1
    report("ready")
    supervisor.watch()
    return 0


if __name__ == "__main__":
    sys.exit(main(dict(argument.split("=", 1) for argument in sys.argv[1:])))
