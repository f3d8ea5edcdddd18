"""Which project ids are valid, and which schema belongs to each? Pure rules, no database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from codebase_mcp.errors import InvalidInput

DEFAULT_ID = "default"
MAX_ID_CHARS = 50

_PATTERN = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Project:
    """A workspace: its id (None for the default workspace) and the schema with all its data."""

    project_id: str | None
    schema_name: str
    created_at: datetime
    name: str | None = None
    description: str | None = None


def validate_project_id(value: str) -> str:
    """Return the id if it is valid.

    Raises:
        InvalidInput: it is invalid; the hint is the nearest valid id.
    """
    if len(value) <= MAX_ID_CHARS and _PATTERN.fullmatch(value):
        return value
    raise InvalidInput.of(
        "project_id",
        value,
        "Invalid project_id: Project identifier must be lowercase alphanumeric with hyphens"
        " or underscores",
        rule=f"^[a-z0-9]+([-_][a-z0-9]+)*$, 1 to {MAX_ID_CHARS} characters",
        hint=f"Use {nearest_valid_id(value)!r}.",
    )


def nearest_valid_id(value: str) -> str:
    """The valid id closest to this text: ``My App!`` is ``my-app``."""
    return _valid_part(value) or "my-project"


def id_for(name: str) -> str:
    """The id of a project with this name, if none was given.

    Raises:
        InvalidInput: no id can be made from the name.
    """
    if made := _valid_part(name):
        return made
    raise InvalidInput.of(
        "project_id",
        None,
        f"Field required: project_id, as none can be made from the name {name}",
        rule="required where the name has neither a Latin letter nor a digit",
        hint="Pass a project_id of lower case letters, digits, hyphens and underscores.",
    )


def _valid_part(value: str) -> str:
    lowered = re.sub(r"[^a-z0-9_-]+", "-", value.lower())
    single = re.sub(r"[-_]*-[-_]*", "-", re.sub(r"_+", "_", lowered))
    return single.strip("-_")[:MAX_ID_CHARS].rstrip("-_")


def schema_of(project_id: str | None) -> str:
    """The schema of a valid id; the default workspace's for None."""
    return "project_" + (project_id or DEFAULT_ID).replace("-", "_")


def index_lock(repository_id: UUID) -> str:
    """Held while a repository's index is changed."""
    return f"index {repository_id}"


def commit_lock(repository_id: UUID, commit: str) -> str:
    """Held while the snapshot of a commit is made."""
    return f"commit {repository_id} {commit}"


def backfill_lock() -> str:
    """Held while a process adds the secondary model's vectors to a project."""
    return "grow"


def watch_lock(repository_id: UUID) -> str:
    """Held by the process that watches a repository's files."""
    return f"watch {repository_id}"


def behind_lock(repository_id: UUID) -> str:
    """Held by a watcher while there are changes that are not indexed yet."""
    return f"behind {repository_id}"
