"""A process that has everything loaded, and makes a copy of itself for each command.

A command that ran without it leaves it behind, for those that follow; it ends when no command came
for some minutes, or when the program's files change. Copies share its memory as long as nobody
writes to it, so ten servers on stdio need little more than one.

It only loads and forks: it has no thread, no connection and no data. It serves processes alone
that could do the same themselves: of the same user, in the same namespaces, with the same rights,
and not confined (`no_new_privs`), as a sandbox must not find a way out here. `launch` is the other
side.
"""

from __future__ import annotations

import array
import atexit
import gc
import marshal
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NoReturn

import codebase_mcp
from codebase_mcp.cli import launch
from codebase_mcp.cli.command import command_first
from codebase_mcp.cli.commands import all_commands
from codebase_mcp.cli.server_commands import SERVE
from codebase_mcp.settings.loading import SETTINGS, TOOLSETS, Settings, use_one_blas_thread

# A server leaves one behind when its first calls are answered.
_SERVER_AFTER_S = 10.0
_WAITING = 64
_LOOK_AFTER_S = 60.0
# How long a copy waits for what it has to know, and for the word to begin.
_HELLO_S = 5.0
# How long a copy may go on whose launcher was killed.
_END_S = 10.0

# What a process may do, as the kernel says it.
_RIGHTS = ("Uid", "Gid", "Groups", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_UNCONFINED = "NoNewPrivs:\t0"
_NAMESPACES = ("mnt", "pid", "user", "net", "ipc", "uts")

# The modules of commands that soon end; most index runs have little to do.
_QUICK = {"asking", "context", "early_start", "inventory", "records"}
_HELP = {"-h", "--help", "--version"}
_KEPT = ("PATH", "HOME", "TMPDIR", launch.MINUTES)
# Memory that was freed goes back to the system. By itself glibc keeps more after each large block.
_RETURN_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(128 << 10)}
# Libraries that our modules load when they first need them.
_LATER = ("httpx2", "rich.console", "rich.table", "safetensors.numpy", "tokenizers")


@contextmanager
def left_behind(arguments: Sequence[str]) -> Iterator[None]:
    """Leave a resident behind, if it could have run this command."""
    could_have_run = launch.is_possible() and _is_suited(arguments, os.environ)
    if not could_have_run or _UNCONFINED not in _rights_of(os.getpid()):
        yield
        return
    begin = partial(_begin, launch.key(), dict(os.environ))  # before the command changes any
    if _is_server(arguments):
        timer = threading.Timer(_SERVER_AFTER_S, begin)
        timer.daemon = True
        timer.start()
        yield
        return
    try:
        yield
    finally:
        begin()


def _begin(key: bytes, environment: Mapping[str, str]) -> None:
    """Start a resident in the background; it ends at once if there is one."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT or name.startswith(launch.LOADED_BY)
    }
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    with suppress(OSError):
        process = subprocess.Popen(
            [sys.executable, *flags, "-m", "codebase_mcp.cli.resident"],
            cwd="/",
            env=_RETURN_MEMORY | kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(key)


def main() -> None:
    """Load, and make copies until there is nothing to do."""
    key = sys.stdin.buffer.read()
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(launch.address(key))
        except OSError:  # there is one
            return
        files = _files()
        _load()
        if len(list(Path("/proc/self/task").iterdir())) > 1:  # a copy would lack other threads
            return
        listener.listen(_WAITING)
        connection = _copies(listener, files)
    if connection is not None:
        _stand_for(connection, key)


def _copies(listener: socket.socket, files: Mapping[str, tuple[int, int]]) -> socket.socket | None:
    """Make copies; in a copy, the connection to the one whom it stands for, in the end None."""
    idle_s = 60 * _minutes()
    copies: set[int] = set()

    def forget_ended(*_: object) -> None:
        copies.difference_update([pid for pid in copies if os.waitpid(pid, os.WNOHANG)[0]])

    signal.signal(signal.SIGCHLD, forget_ended)
    last = time.monotonic()
    while True:
        asked, _, _ = select.select([listener], [], [], min(idle_s, _LOOK_AFTER_S))
        forget_ended()
        if files != _files():
            return None
        if asked:
            connection, _ = listener.accept()
            if launch.peer_of(connection):  # other users reach the address too
                if (pid := os.fork()) == 0:
                    return connection
                copies.add(pid)
            connection.close()
        if asked or copies:
            last = time.monotonic()
        elif time.monotonic() - last >= idle_s:
            return None


def _minutes() -> float:
    [setting] = (setting for setting in SETTINGS if setting.variable == launch.MINUTES)
    default: float = setting.default()
    try:
        return float(os.environ.get(launch.MINUTES, default))
    except ValueError:  # commands say so
        return default


def _load() -> None:
    """Load all modules, the built-in model and what searches derive from it."""
    use_one_blas_thread()
    for module in walk_packages(codebase_mcp.__path__, "codebase_mcp."):
        with suppress(ImportError):  # of an optional library
            import_module(module.name)
    for name in _LATER:
        import_module(name)
    import asyncio  # noqa: PLC0415 - like all of these not for the one who begins this

    from codebase_mcp.embedding.models import builtin_model  # noqa: PLC0415
    from codebase_mcp.embedding.thesaurus import thesaurus_of  # noqa: PLC0415
    from codebase_mcp.tools.catalog import all_tools  # noqa: PLC0415
    from codebase_mcp.tools.server import AppHolder  # noqa: PLC0415
    from codebase_mcp.web.pages.apps import server_with_apps  # noqa: PLC0415

    thesaurus_of(builtin_model())
    for tool in all_tools():
        tool.input_schema()
    # A server that is never served: with it comes what FastMCP loads when it is first asked.
    server = server_with_apps(AppHolder(Settings.load({})), TOOLSETS)
    asyncio.run(server.list_tools())
    gc.collect()
    gc.freeze()  # a collection in a copy would write to all objects


def _files() -> dict[str, tuple[int, int]]:
    """Times and sizes of the program's files; looked at for each command, so without a Path."""
    found = {}
    for folder, _, names in os.walk(Path(codebase_mcp.__file__).parent):
        if not folder.endswith("__pycache__"):
            for location in (f"{folder}/{name}" for name in names):
                status = os.lstat(location)
                found[location] = status.st_mtime_ns, status.st_size
    return found


def _stand_for(connection: socket.socket, key: bytes) -> NoReturn:
    """Run the command of the process at the other end, in its place."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        rights, launcher = _rights_of(os.getpid()), launch.peer_of(connection)
        if _rights_of(launcher) != rights or _UNCONFINED not in rights:
            os._exit(0)
        try:
            _take_limits(launcher)
        except ValueError:  # the next resident may have higher ones
            os.kill(os.getppid(), signal.SIGTERM)
            os._exit(0)
        connection.settimeout(_HELLO_S)
        common, arguments, environment, mask, descriptors = _read(connection)
        variables = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
        if common != key or not _is_suited(arguments[1:], variables):
            os._exit(0)
        launch.send_number(connection, os.getpid())
        if not connection.recv(1):
            os._exit(0)
        connection.settimeout(None)
        _become(arguments, environment, mask, descriptors)
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        status = _run(arguments[1:])
        launch.send_number(connection, status)
    finally:
        os._exit(status)


def _take_limits(pid: int) -> None:
    """Take over a process's limits. Raises ValueError if one is higher than we may set."""
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            limit = getattr(resource, name)
            resource.setrlimit(limit, resource.prlimit(pid, limit))
    os.sched_setaffinity(0, os.sched_getaffinity(pid))


def _read(connection: socket.socket) -> tuple[bytes, list[str], dict[bytes, bytes], int, list[int]]:
    """What the launcher sent: key, arguments, environment, mask, and descriptors."""
    room = socket.CMSG_SPACE(launch.PASSED * array.array("i").itemsize)
    start, ancillary, _, _ = connection.recvmsg(launch.NUMBER, room)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data)
    size, parts = int.from_bytes(start, "big"), []
    while size and (part := connection.recv(min(size, 1 << 16))):
        parts.append(part)
        size -= len(part)
    common, arguments, environment, mask = marshal.loads(b"".join(parts))
    return common, arguments, environment, mask, list(descriptors)


def _become(
    arguments: list[str], environment: dict[bytes, bytes], mask: int, descriptors: list[int]
) -> None:
    """Take over everything that a new process gets from the one that starts it."""
    os.setsid()
    *streams, place = descriptors
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.fchdir(place)
    for descriptor in descriptors:
        os.close(descriptor)
    os.umask(mask)
    os.environ.clear()
    os.environb.update(environment)
    time.tzset()
    tempfile.tempdir = None
    sys.argv = arguments
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    with suppress(OSError):
        Path("/proc/self/comm").write_text("codebase-mcp")


def _stream(number: int, like: TextIOWrapper) -> Any:
    """A text stream as Python makes it for this descriptor."""
    return open(
        number,
        "w" if number else "r",
        buffering=1 if number == 2 or os.isatty(number) else -1,
        encoding=like.encoding,
        errors=like.errors,
        closefd=False,
    )


def _end_with(connection: socket.socket) -> None:
    """End this process when its launcher is gone."""
    with suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _run(arguments: Sequence[str]) -> int:
    """Run the command; its exit status."""
    from codebase_mcp.cli.main import main as run  # noqa: PLC0415 - it is loaded

    try:
        run(arguments)
        status = 0
    except SystemExit as end:
        status = end.code & 255 if isinstance(end.code, int) else int(end.code is not None)
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads, as at an end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    return status


def _is_suited(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a copy may run this: commands that soon end, help, and servers on stdio."""
    from codebase_mcp.cli.tool_commands import is_tool  # noqa: PLC0415 - heavy

    if not _HELP.isdisjoint(arguments):
        return True
    if any(a.startswith(("/dev/fd/", "/proc/self/", "--transport")) for a in arguments):
        return False
    if _is_server(arguments):
        return environment.get("CODEBASE_MCP_TRANSPORT", "stdio") == "stdio"
    ordered = [*command_first(arguments), ""]
    modules = (c.run.partition(":")[0] for c in all_commands() if c.name == ordered[0])
    return is_tool(ordered[:-1]) or not _QUICK.isdisjoint(modules)


def _is_server(arguments: Sequence[str]) -> bool:
    """Whether this serves: a command line that names no command, and asks for no help, does."""
    if not _HELP.isdisjoint(arguments):
        return False
    name = next(iter(command_first(arguments)), SERVE.name)
    return name == SERVE.name or name.startswith("-")


def _rights_of(pid: int) -> list[str]:
    """What a process may do, and where it is; nothing if that cannot be read."""
    process = Path("/proc", str(pid))
    try:
        lines = (process / "status").read_text(errors="replace").splitlines()
        places = [str((process / "ns" / name).readlink()) for name in _NAMESPACES]
        places.append(str((process / "root").readlink()))
        profile = process / "attr" / "current"  # of AppArmor or SELinux
        try:
            places.append(profile.read_text())
        except OSError:
            places.append("")
    except OSError:
        return []
    return [line for line in lines if line.partition(":")[0] in _RIGHTS] + places


if __name__ == "__main__":
    main()
