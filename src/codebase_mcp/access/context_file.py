"""The project of a directory.

Its ``.mcp-context.toml`` names it, or the nearest such file above it that names a project::

    project = "my-app"

``project_id = "my-app"``, ``collection = "my-app"`` and a table ``[project]`` with ``id`` mean the
same. `settings/repository.py` reads the other settings of the file.

A file may refer to a project if the project was created because of it, or if a user allowed it
(`Trust`). Otherwise the author of a cloned repository could choose the project, and so give access
to records of any project.
"""

from __future__ import annotations

import logging
import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebase_mcp.database.naming import DEFAULT_ID, nearest_valid_id, validate_project_id
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import InvalidInput
from codebase_mcp.source.git_directory import are_allowed, is_confined

if TYPE_CHECKING:
    from codebase_mcp.database.connection import Database, Transaction
    from codebase_mcp.database.naming import Project

_log = logging.getLogger(__name__)
_SQL = load_queries("codebase_mcp.access", "projects.sql")

FILE_NAME = ".mcp-context.toml"
MAX_BYTES = 64 * 1024

_MAX_REASON_CHARS = 200
_KEYS = ("project_id", "project", "collection")


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file that names a project; ``project_id`` is None for the default workspace."""

    path: Path
    project_id: str | None

    @property
    def directory(self) -> str:
        """The directory that it applies to."""
        return path_text(self.path.parent)


@dataclass(frozen=True, slots=True)
class ContextText:
    """The unparsed content of a file."""

    path: Path
    text: bytes


class ContextFiles:
    """Finds and reads context files, and warns once of a file that belongs to another user."""

    def __init__(self) -> None:
        self._foreign: set[Path] = set()

    def nearest(self, directory: Path) -> ContextFile | None:
        """The nearest file upward from a directory that names a project.

        The search ends at the root of the file system, so only files of the current user or of
        root count: any user can create one in a shared folder such as ``/tmp``.

        Raises:
            InvalidInput: the file is invalid. Ignoring it would silently use another project.
        """
        start = Path(os.path.realpath(directory))
        for folder in (start, *start.parents):
            context = self._at(folder / FILE_NAME)
            if context is not None:
                return context
        return None

    def _at(self, path: Path) -> ContextFile | None:
        """The file at this path, if it counts and names a project."""
        status = _entry_at(path)
        if status is None:
            return None
        entry, target = status
        if not is_trusted_owner(entry.st_uid) or not is_trusted_owner(target.st_uid):
            if path not in self._foreign:
                self._foreign.add(path)
                _log.warning("%s is ignored, as it belongs to another user", path)
            return None
        return read_context_file(path)


class Trust:
    """Stores permissions in the database, and caches them.

    Permissions end when a project is dropped. A later project with the same name has another time
    of creation.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._granted: set[tuple[str, str, datetime]] = set()

    async def is_granted(self, directory: str, project: Project) -> bool:
        """Whether the file of this directory may refer to the project."""
        key = (directory, project.schema_name, project.created_at)
        if key not in self._granted:
            async with self._database.catalogue(readonly=True) as tx:
                row = await tx.fetch_one(
                    _SQL["find_trust"], directory=directory, schema_name=project.schema_name
                )
            if row is None:
                return False
            self._granted.add(key)
        return True

    async def grant(self, directory: str, project: Project) -> None:
        """Allow the file of this directory to refer to the project."""
        key = (directory, project.schema_name, project.created_at)
        if key not in self._granted:
            async with self._database.catalogue() as tx:
                await enter_trust(tx, directory, project.schema_name)
            self._granted.add(key)


async def enter_trust(tx: Transaction, directory: str, schema_name: str) -> None:
    """Store that the file of this directory may refer to the project in this schema."""
    await tx.execute(_SQL["add_trust"], directory=directory, schema_name=schema_name)


def context_of(repository: Path) -> ContextText | None:
    """The nearest file upward from a repository's root, with the settings of the repository.

    A file in the root counts for any owner, as it can only restrict which files of the repository
    are read. A file above counts only if it belongs to the current user or to root. Below an
    allowed root a link that leads out of the roots does not count.

    Raises:
        InvalidInput: the file cannot be read.
    """
    start = Path(os.path.realpath(repository))
    for directory in (start, *start.parents):
        path = directory / FILE_NAME
        status = _entry_at(path)
        if status is None or (is_confined(directory) and not are_allowed(path)):
            continue
        if directory == start or all(is_trusted_owner(part.st_uid) for part in status):
            return ContextText(path, _text_of(path))
    return None


def is_trusted_owner(owner: int) -> bool:
    """Whether files of this user are trusted: it is the current user, or root."""
    return owner in (os.geteuid(), 0)


def read_context_file(path: Path) -> ContextFile | None:
    """Read a file; None if it names no project."""
    return project_in(ContextText(path, _text_of(path)))


def project_in(context: ContextText) -> ContextFile | None:
    """Parse a text; None if it names no project.

    Raises:
        InvalidInput: it is not TOML, or its project id is invalid.
    """
    path = context.path
    given = _named_in(path, read_toml(context))
    if not given:
        return None
    (key, value), *further = given.items()
    for key_2, value_2 in further:
        if value_2 != value:
            raise _broken(path, f"{key} and {key_2} name two projects", key=key_2, value=value_2)
    try:
        project_id = validate_project_id(value)
    except InvalidInput as error:
        way = f"Write {key} = {nearest_valid_id(value)!r} there, or pass project_id."
        raise _broken(path, error.message, key=key, value=value[:100], way=way) from None
    return ContextFile(path, None if project_id == DEFAULT_ID else project_id)


def read_toml(context: ContextText) -> dict[str, Any]:
    """The content of a file.

    Raises:
        InvalidInput: it is not TOML.
    """
    try:
        return tomllib.loads(context.text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = str(error)[:_MAX_REASON_CHARS]
        raise _broken(context.path, f"the file is not valid TOML: {reason}", rule="TOML") from None


def path_text(path: Path) -> str:
    """A path as text that JSON and PostgreSQL can hold."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _named_in(path: Path, content: Mapping[str, Any]) -> dict[str, str]:
    """The keys that name a project, with their values."""
    given: dict[str, str] = {}
    for key in _KEYS:
        if key not in content:
            continue
        name, value = key, content[key]
        if key == "project" and isinstance(value, dict):
            name, value = "project.id", value.get("id")
        if not isinstance(value, str):
            problem = f"{name} must be a string, got {type(value).__name__}"
            raise _broken(path, problem, key=name, value=str(value)[:100])
        given[name] = value
    return given


def _entry_at(path: Path) -> tuple[os.stat_result, os.stat_result] | None:
    """The status of a path and of its target, if it is a link; None if nothing is there."""
    try:
        entry = path.lstat()
    except OSError:
        return None
    try:
        return entry, path.stat() if stat.S_ISLNK(entry.st_mode) else entry
    except OSError as error:
        raise _unreadable(path, error) from None


def _text_of(path: Path) -> bytes:
    try:
        # Opened without blocking, in case it is a pipe.
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _broken(path, "it is not a file", rule="a file")
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(text) > MAX_BYTES:
        problem = f"it is larger than {MAX_BYTES // 1024} KiB"
        raise _broken(path, problem, rule=f"at most {MAX_BYTES} bytes")
    return text


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _unreadable(path: Path, error: OSError) -> InvalidInput:
    return _broken(path, f"it cannot be read ({error.strerror})", rule="a readable file")


def _broken(
    path: Path,
    problem: str,
    *,
    key: str = "project",
    value: str | None = None,
    rule: str = "the id of one project",
    way: str = 'Write project = "my-app" there, remove the file, or pass project_id.',
) -> InvalidInput:
    file = path_text(path)
    return InvalidInput.of(key, value, f"{file}: {problem}", rule=rule, hint=way, file=file)
