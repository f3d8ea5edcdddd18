"""What does an error of the driver mean to a user?

The only place that knows the driver's exceptions. No message carries SQL, values or credentials;
the log has them, and the exception that caused ours is chained to it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def translated(hint: str) -> Iterator[None]:
    """Turn what the driver raises inside into an error of ours; ``hint`` helps if it is away."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, hint) from error


def is_away(error: psycopg.Error) -> bool:
    """Does this error say that the server, or the connection to it, is gone?"""
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_AWAY)
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def translate(error: psycopg.Error, hint: str) -> CodebaseError:
    """Our error for one of the driver's."""
    if is_away(error):
        logger.warning("%s: %s", UNAVAILABLE, error)
        if isinstance(error, errors.DiskFull):
            return DatabaseUnavailable(f"{UNAVAILABLE}: its disk is full", hint=hint)
        return DatabaseUnavailable(UNAVAILABLE, hint=hint)
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
