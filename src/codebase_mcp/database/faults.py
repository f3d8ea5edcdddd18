"""What does an error of the driver mean to a user?

The only place that knows the driver's exceptions. No message carries SQL, values or credentials;
the log has them, and the exception that caused ours is chained to it.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import errors

from codebase_mcp.errors import (
    CodebaseError,
    Conflict,
    DatabaseUnavailable,
    InternalError,
    PermissionDenied,
)

logger = logging.getLogger(__name__)

UNAVAILABLE = "PostgreSQL database unavailable"

# SQLSTATE classes and codes that say: not your statement, the server or the way to it.
_AWAY = ("08", "28", "3D", "53", "57P", "58")


# With less than a segment of its log free the server stops, and no statement hears why.
_FULL_BELOW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Advice:
    """What helps if this server is away, and where its data is if that is on this machine."""

    away: str = ""
    data_dir: Path | None = None

    def disk_is_full(self) -> bool:
        """Is there no room beside the data? Only known of a disk of this machine."""
        try:
            return (
                self.data_dir is not None
                and shutil.disk_usage(self.data_dir).free < _FULL_BELOW_BYTES
            )
        except OSError:
            return False


@contextmanager
def translated(advice: Advice) -> Iterator[None]:
    """Turn what the driver raises inside into an error of ours."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, advice) from error


def is_away(error: psycopg.Error) -> bool:
    """Does this error say that the server, or the connection to it, is gone?"""
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_AWAY)
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def translate(error: psycopg.Error, advice: Advice) -> CodebaseError:
    """Our error for one of the driver's."""
    if is_away(error):
        logger.warning("%s: %s", UNAVAILABLE, error)
        return _away(error, advice)
    if isinstance(error, errors.InvalidSqlStatementName | errors.DuplicatePreparedStatement):
        return DatabaseUnavailable(
            f"{UNAVAILABLE}: a pooler between mixes up prepared statements",
            hint="Add pgbouncer=true to the options of DATABASE_URL.",
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return PermissionDenied(
            "The database role lacks a right that this needs",
            hint="Ask the administrator of the database to grant it.",
        )
    if isinstance(error, errors.UniqueViolation):
        return Conflict(
            "A record with these values exists already",
            details={"constraint": error.diag.constraint_name},
        )
    error_id = str(uuid.uuid4())
    logger.error("database error %s", error_id, exc_info=error)
    return InternalError(
        "The database refused a statement",
        details={"error_id": error_id, "sqlstate": error.sqlstate},
    )


def _away(error: psycopg.Error, advice: Advice) -> DatabaseUnavailable:
    if isinstance(error, errors.DiskFull) or advice.disk_is_full():
        return disk_full(advice)
    return DatabaseUnavailable(UNAVAILABLE, hint=advice.away)


def disk_full(advice: Advice) -> DatabaseUnavailable:
    """Which disk it is, and the way out."""
    if advice.data_dir is None:
        where = "the disk of the server that DATABASE_URL names is full"
        how = "Free space there"
    else:
        where = f"the disk that holds {advice.data_dir} is full"
        how = "Free space there, or let CODEBASE_MCP_DATA_DIR name a folder on another disk"
    return DatabaseUnavailable(
        f"{UNAVAILABLE}: {where}",
        hint=f"{how}, then run it again. What was stored before is kept.",
    )
