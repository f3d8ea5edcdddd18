"""Starts a command, in a copy of a process that has everything loaded if there is one.

To load our modules takes several times as long as to answer. A resident process (`resident`) has
loaded them and makes a copy of itself for each command. The copy gets our arguments, environment,
directory and standard streams, so it does what we would do; we pass signals on, and end with its
status. Where there is no resident, or it refuses, the command runs here.

Only modules that Python has built in are imported: this file is all that such a command loads.
"""

# pathlib and contextlib would take as long as the rest of this file:
# ruff: noqa: PTH115,PTH120,SIM105

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # and so would typing
if TYPE_CHECKING:
    import _socket

MINUTES = "CODEBASE_MCP_RESIDENT_MINUTES"

# How long a resident may take to answer: after that it may be stopped, and the command runs here.
_ANSWER_S = 2.0

# Variables that are read when an interpreter or a library is loaded.
LOADED_BY = ("PYTHON", "LD_", "LC_", "LANG", "FASTMCP_", "OPENBLAS_", "OMP_", "MALLOC_")

# On the wire: the bytes of a number, and how many descriptors are passed.
NUMBER, PASSED = 4, 4


def main() -> None:
    status = _status_of_copy()
    if status is not None:
        sys.exit(status)
    from codebase_mcp.cli import main, resident  # noqa: PLC0415 - not for those who only ask

    with resident.left_behind(sys.argv[1:]):
        main.main()


def key() -> bytes:
    """What a process and the copy that stands for it have in common, beside their rights."""
    variables = sorted(item for item in os.environ.items() if item[0].startswith(LOADED_BY))
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "pid")]
    parts = (os.path.dirname(__file__), sys.executable, sys.flags, variables, spaces)
    return repr(parts).encode(errors="surrogateescape")


def address(key: bytes) -> str:
    """The abstract address of the resident with this key."""
    import zlib  # noqa: PLC0415 - built in

    return f"\0codebase-mcp-{os.geteuid()}-{zlib.crc32(key):08x}"


def is_possible() -> bool:
    """Whether there may be a resident: it is not switched off, and we need not yield to others."""
    return (
        sys.platform == "linux"
        and os.environ.get(MINUTES, "").strip() != "0"
        and os.nice(0) == 0
        and None not in (sys.stdin, sys.stdout, sys.stderr)  # closed
    )


def peer_of(connection: _socket.socket) -> int:
    """The process at the other end of a connection; 0 if it is another user's, or unknown."""
    import _socket  # noqa: PLC0415 - the module socket takes 5 ms

    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 3 * NUMBER)
    pid, uid = (int.from_bytes(credentials[i : i + NUMBER], sys.byteorder) for i in (0, NUMBER))
    return pid if uid == os.geteuid() else 0


def send_number(connection: _socket.socket, number: int) -> None:
    connection.sendall(number.to_bytes(NUMBER, "big"))


def _number_from(connection: _socket.socket) -> int | None:
    """The next number; None at the end."""
    number = connection.recv(NUMBER)  # so few bytes come as they were sent
    return int.from_bytes(number, "big") if number else None


def _status_of_copy() -> int | None:
    """The exit status of the command in a copy of the resident; None if it has to run here."""
    if not is_possible():
        return None
    import _socket  # noqa: PLC0415

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        common = key()
        connection.connect(address(common))
        if not peer_of(connection):  # anybody may have taken the address
            return None
        connection.settimeout(_ANSWER_S)
        _ask(connection, common)
        pid = _number_from(connection)
        if pid is None:
            return None
        connection.sendall(b"!")  # only now it begins: a copy that is late finds nobody here
        connection.settimeout(None)
    except OSError:
        return None
    return _follow(connection, pid)


def _ask(connection: _socket.socket, common: bytes) -> None:
    """Send what a copy needs to stand for this process."""
    import _socket  # noqa: PLC0415
    import array  # noqa: PLC0415
    import marshal  # noqa: PLC0415

    mask = os.umask(0o077)
    os.umask(mask)
    place = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        asked = marshal.dumps((common, sys.argv, dict(os.environb), mask))
        passed = array.array("i", (0, 1, 2, place))
        # The descriptors come with the first bytes.
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)]
        connection.sendmsg([len(asked).to_bytes(NUMBER, "big")], rights)
        connection.sendall(asked)
    finally:
        os.close(place)


def _follow(connection: _socket.socket, pid: int) -> int:
    """Pass signals on until the copy ends; its exit status."""
    import _signal  # type: ignore[import-not-found] # noqa: PLC0415 - the module signal makes enumerations first

    passed: list[int] = []

    def pass_on(number: int, _: object) -> None:
        passed.append(number)
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # it ends just now
            pass

    def stop(*_: object) -> None:
        for process in (pid, os.getpid()):
            os.kill(process, _signal.SIGSTOP)
        os.kill(pid, _signal.SIGCONT)  # this process was continued

    answers = dict.fromkeys((_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP), pass_on)
    for number, answer in {**answers, _signal.SIGTSTP: stop}.items():
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, answer)
    try:
        status = _number_from(connection)
    except OSError:
        status = None
    if status is not None:
        return status
    if not passed:
        sys.stderr.write("Error: the process that ran this command was killed\n")
        return 1
    return 128 + passed[-1]
