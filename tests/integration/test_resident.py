"""Commands in copies of a resident process do what they would do by themselves."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import pytest
from tests.waiting import wait_until

import codebase_mcp
from codebase_mcp.app.app import App
from codebase_mcp.cli.launch import MINUTES
from codebase_mcp.database.connection import Embedded

LAUNCH = [sys.executable, "-c", "from codebase_mcp.cli.launch import main; main()"]
ADDRESS = "import codebase_mcp.cli.launch as l; print(l.address(l.key())[1:])"

Environment = dict[str, str]


def environment_of(embedded: Embedded, **more: str) -> Environment:
    """An environment that no other resident has."""
    return {
        **os.environ,
        "CODEBASE_MCP_DATA_DIR": str(embedded.data_dir),
        "CODEBASE_MCP_CHECK_MS": "30000",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHON_TESTED": uuid.uuid4().hex,
        MINUTES: "30",
        **more,
    }


class Resident:
    """The resident that commands with an environment use."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.mark = f"PYTHON_TESTED={environment['PYTHON_TESTED']}".encode()
        command = [sys.executable, "-c", ADDRESS]
        asked = subprocess.run(command, env=environment, capture_output=True, check=True)
        self.address = asked.stdout.decode().strip()

    def is_ready(self) -> bool:
        """Whether it listens."""
        lines = Path("/proc/net/unix").read_text().splitlines()
        return any(
            line.endswith(f"@{self.address}") and line.split()[3] == "00010000" for line in lines
        )

    @cached_property
    def pid(self) -> int:
        """Its process, once it is ready."""
        wait_until(self.is_ready)
        [pid] = self.processes()
        return pid

    def processes(self) -> list[int]:
        """It, and its copies, which have its mark too."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_ours = self.mark in (process / "environ").read_bytes()
                if is_ours and b"cli.resident" in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return found

    def work_of_copies(self) -> int:
        """How many pages its copies that have ended were given."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[8])

    def copies(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def stop(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


def run(
    environment: Environment, *arguments: str, cwd: Path | None = None, given: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCH, *arguments],
        env=environment,
        cwd=cwd,
        input=given,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def environment(embedded: Embedded) -> Environment:
    return environment_of(embedded)


@pytest.fixture(scope="module")
def resident(environment: Environment) -> Iterator[Resident]:
    """Left behind by a command."""
    resident = Resident(environment)
    assert not resident.is_ready()
    run(environment, "projects")
    assert resident.pid
    yield resident
    resident.stop()


@pytest.fixture
async def repository(app: App, make_repo: object, project_id: str) -> Path:
    root: Path = make_repo(  # type: ignore[operator]
        {"src/shop.py": "def sell(goods):\n    return goods\n", "README.md": "# A shop\n"}
    )
    await app.index(root, project_id)
    return root


pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        os.nice(0) != 0 or "NoNewPrivs:\t0" not in Path("/proc/self/status").read_text(),
        reason="the tests run confined, or yield to others: then there is no resident",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["search", "sell goods"], 0),
        (["symbol", "sell"], 0),
        (["grep", "goods"], 0),
        (["context", "--no-given"], 0),
        (["list_tasks"], 0),
        (["search", "sell", "--limit", "0"], 1),
        (["search"], 2),
    ],
)
async def test_a_copy_does_what_the_command_does(
    arguments: list[str],
    status: int,
    environment: Environment,
    resident: Resident,
    repository: Path,
    project_id: str,
) -> None:
    arguments = [*arguments, "--project_id" if "list_tasks" in arguments else "--project"]
    before = resident.work_of_copies()
    copied, own = (
        run(env, *arguments, project_id, cwd=repository / "src", given="where is sell?")
        for env in (environment, environment | {MINUTES: "0"})
    )
    assert (copied.returncode, copied.stderr) == (own.returncode, own.stderr)
    assert copied.stdout == own.stdout
    assert own.returncode == status
    wait_until(lambda: resident.work_of_copies() > before)


def test_a_copy_has_the_environment_of_its_command(
    environment: Environment, resident: Resident, tmp_path: Path
) -> None:
    told = run(environment | {"CODEBASE_MCP_LOG_LEVEL": "loud"}, "search", "x", cwd=tmp_path)
    assert "CODEBASE_MCP_LOG_LEVEL" in told.stderr + told.stdout
    assert told.returncode == 1


def hello(environment: Environment, *before: str) -> subprocess.Popen[str]:
    """A server on stdio that has answered a client's first message."""
    server = subprocess.Popen(
        [*before, *LAUNCH],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None and server.stdout is not None
    client = {"name": "test", "version": "1"}
    parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "codebase-mcp"
    return server


def test_a_server_ends_with_its_input(environment: Environment, resident: Resident) -> None:
    with hello(environment) as server:
        assert resident.copies()
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait(30) == 0
    wait_until(lambda: not resident.copies())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_with_its_launcher(
    environment: Environment, resident: Resident, number: signal.Signals
) -> None:
    with hello(environment) as server:
        assert resident.copies()
        server.send_signal(number)
        assert server.wait(30) == (0 if number is signal.SIGTERM else -signal.SIGKILL)
    wait_until(lambda: not resident.copies())


def test_a_launcher_tells_that_its_copy_was_killed(
    environment: Environment, resident: Resident
) -> None:
    with hello(environment) as server:
        [copy] = resident.copies()
        os.kill(copy, signal.SIGKILL)
        assert server.wait(30) == 1


def test_a_copy_has_the_limits_of_its_command(environment: Environment, resident: Resident) -> None:
    processor = min(os.sched_getaffinity(0))
    limited = ("prlimit", "--nofile=200:300", "taskset", "--cpu-list", str(processor))
    with hello(environment, *limited) as server:
        [copy] = resident.copies()
        assert resource.prlimit(copy, resource.RLIMIT_NOFILE) == (200, 300)
        assert os.sched_getaffinity(copy) == {processor}
        server.terminate()


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs util-linux")
def test_a_resident_with_lower_limits_makes_room_for_another(embedded: Embedded) -> None:
    environment = environment_of(embedded)
    resident = Resident(environment)
    # Root may raise any limit.
    bound = ["setpriv", "--bounding-set", "-sys_resource"] if os.geteuid() == 0 else []
    low = ["prlimit", "--nofile=200:200"]
    try:
        for limits in (low, []):
            command = [*bound, *limits, *LAUNCH, "projects"]
            subprocess.run(command, env=environment, capture_output=True, check=True)
            wait_until(resident.is_ready)
        [successor] = resident.processes()
        assert resource.prlimit(successor, resource.RLIMIT_NOFILE)[1] > 200
    finally:
        resident.stop()


def test_a_copy_stops_and_goes_on_with_its_launcher(
    environment: Environment, resident: Resident
) -> None:
    def are_stopped() -> bool:
        states = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2] for pid in both)
        return {state.split()[0] for state in states} == {"T"}

    with hello(environment) as server:
        both = [server.pid, *resident.copies()]
        server.send_signal(signal.SIGTSTP)
        wait_until(are_stopped)
        server.send_signal(signal.SIGCONT)
        server.terminate()
        assert server.wait(30) == 0


@pytest.mark.parametrize(
    "arguments",
    [["trust", "--list"], ["serve", "--transport", "nonsense"], ["grep", "x", "/dev/fd/9"]],
)
def test_other_commands_run_by_themselves(
    environment: Environment, resident: Resident, arguments: list[str]
) -> None:
    before = resident.work_of_copies()
    run(environment, *arguments)
    # The copy that refused has hardly done anything.
    assert resident.work_of_copies() - before < 2_000


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs util-linux")
def test_a_confined_process_neither_uses_nor_leaves_a_resident(
    environment: Environment, resident: Resident, embedded: Embedded
) -> None:
    before = resident.work_of_copies()
    confined = ["setpriv", "--no-new-privs", *LAUNCH, "projects"]
    subprocess.run(confined, env=environment, capture_output=True, check=True)
    assert resident.work_of_copies() - before < 2_000
    alone = environment_of(embedded)
    subprocess.run(confined, env=alone, capture_output=True, check=True)
    assert Resident(alone).processes() == []


def test_a_resident_ends_when_the_program_changes(embedded: Embedded, tmp_path: Path) -> None:
    source = Path(codebase_mcp.__file__).parent
    copy = shutil.copytree(source, tmp_path / "codebase_mcp")
    changed = environment_of(embedded)
    changed["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{changed['PYTHONPATH']}"
    resident = Resident(changed)
    run(changed, "projects")
    first = resident.pid
    (copy / "errors.py").touch()
    assert run(changed, "projects").returncode == 0
    wait_until(lambda: first not in resident.processes())
    resident.stop()  # the next one, which that command left behind


def test_a_resident_ends_when_it_has_nothing_to_do(embedded: Embedded) -> None:
    environment = environment_of(embedded, **{MINUTES: "0.02"})  # commands want whole ones
    run(environment, "projects")
    resident = Resident(environment)
    assert resident.processes()
    wait_until(lambda: not resident.processes())


def test_none_is_left_behind_where_it_is_switched_off(embedded: Embedded) -> None:
    environment = environment_of(embedded, **{MINUTES: "0"})
    assert run(environment, "projects").returncode == 0
    assert Resident(environment).processes() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_is_not_answered(resident: Resident) -> None:
    stranger = os.fork()
    if stranger == 0:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            os.setuid(65534)
            connection.connect(f"\0{resident.address}")
            os._exit(0 if connection.recv(1) == b"" else 1)
        os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(stranger, 0)[1])
    if status == 2:
        pytest.skip("this root may not become another user")
    assert status == 0
    assert resident.copies() == []
