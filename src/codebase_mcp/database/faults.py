"""What does an error of the driver tell a user?

The only module that translates the driver's exceptions. No message contains SQL, values or
credentials; the log does, and the original exception is chained to ours.
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
    StandbyLost,
    TimeLimitExceeded,
)

logger = logging.getLogger(__name__)

UNAVAILABLE = "PostgreSQL database unavailable"

# SQLSTATE classes and codes of faults of the server or the connection, not of the statement.
_UNAVAILABLE_STATES = ("08", "28", "3D", "53", "57P", "58")

# What happens when another process drops a project meanwhile, or locks tables in another order.
_OF_OTHERS = (
    errors.DeadlockDetected,
    errors.InvalidParameterValue,  # a role is gone
    errors.InvalidSchemaName,
    errors.UndefinedTable,
)

# With less than a WAL segment free the server stops, and statements fail without that reason.
_FULL_BELOW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Advice:
    """The hint if this server is unavailable, and its data folder if that is on this machine.

    What fails on a server that ``is_standby`` is tried again on the primary, but for statements
    that take too long.
    """

    unavailable: str = ""
    data_dir: Path | None = None
    is_standby: bool = False

    def disk_is_full(self) -> bool:
        """Whether the disk with the data is full; False if it is on another machine."""
        try:
            return (
                self.data_dir is not None
                and shutil.disk_usage(self.data_dir).free < _FULL_BELOW_BYTES
            )
        except OSError:
            return False


@contextmanager
def translated(advice: Advice) -> Iterator[None]:
    """Turn the driver's exceptions in the block into our errors."""
    try:
        yield
    except psycopg.Error as error:
        if advice.is_standby and not isinstance(error, errors.QueryCanceled):
            logger.info("A search goes on at the primary, as the standby failed: %s", error)
            raise StandbyLost(UNAVAILABLE) from error
        raise translate(error, advice) from error


def is_unavailable(error: psycopg.Error) -> bool:
    """Whether this error means that the server, or the connection to it, is lost."""
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_UNAVAILABLE_STATES)
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def translate(error: psycopg.Error, advice: Advice) -> CodebaseError:
    """Our error for an error of the driver."""
    if is_unavailable(error):
        logger.warning("%s: %s", UNAVAILABLE, error)
        return _unavailable(error, advice)
    if isinstance(error, errors.InvalidSqlStatementName | errors.DuplicatePreparedStatement):
        return DatabaseUnavailable(
            f"{UNAVAILABLE}: a connection pooler breaks prepared statements",
            hint="Add pgbouncer=true to the options of DATABASE_URL.",
        )
    if isinstance(error, errors.QueryCanceled):
        return TimeLimitExceeded(
            "The database stopped a statement that took too long",
            hint="Narrow the search by a repository, a directory or a language; or try again when"
            " the server has less to do. CODEBASE_MCP_SEARCH_TIMEOUT is the limit.",
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return PermissionDenied(
            "The database role lacks a required privilege",
            hint="Ask the administrator of the database to grant it.",
        )
    if isinstance(error, errors.UniqueViolation):
        return Conflict(
            "A record with these values already exists",
            details={"constraint": error.diag.constraint_name},
        )
    error_id = str(uuid.uuid4())
    if isinstance(error, _OF_OTHERS):
        logger.warning("database error %s: %s", error_id, error.diag.message_primary)
    else:
        logger.error("database error %s", error_id, exc_info=error)
    return InternalError(
        "The database refused a statement",
        details={"error_id": error_id, "sqlstate": error.sqlstate},
    )


def _unavailable(error: psycopg.Error, advice: Advice) -> DatabaseUnavailable:
    if isinstance(error, errors.DiskFull) or advice.disk_is_full():
        return disk_full(advice)
    return DatabaseUnavailable(UNAVAILABLE, hint=advice.unavailable)


def disk_full(advice: Advice, kept: str = "") -> DatabaseUnavailable:
    """The error for a full disk, which it names; ``kept`` names reserved space on it."""
    if advice.data_dir is None:
        where = "the disk of the server that DATABASE_URL names is full"
        how = "Free space there"
    else:
        where = f"the disk that holds {advice.data_dir} is full"
        how = "Free space there, or set CODEBASE_MCP_DATA_DIR to a folder on another disk"
    return DatabaseUnavailable(
        f"{UNAVAILABLE}: {where}{kept}",
        hint=f"{how}, then run it again. What was stored before is kept.",
    )
