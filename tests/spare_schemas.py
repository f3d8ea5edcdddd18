"""Schemas of projects for one test after another: emptying one takes a tenth of making one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import sql

from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.naming import schema_of
from codebase_mcp.database.server import EmbeddedServer

FIRST = "project_spare"

# A schema that a test has changed differs from a new one in this; rows do not matter.
SHAPE = sql.SQL("""\
SELECT
    (SELECT string_agg(version || checksum, ' ' ORDER BY version) FROM {schema}.schema_migration),
    string_agg(concat_ws(' ', relname, attname, atttypid, attnotnull), ',' ORDER BY relname, attnum)
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE relnamespace = {name}::regnamespace AND attnum > 0
""")
TABLES_WITH_ROWS = sql.SQL("""\
SELECT relname
FROM pg_class
WHERE relnamespace = {name}::regnamespace AND relkind = 'r'
    AND relname <> 'schema_migration' AND pg_relation_size(oid) > 0
""")
# The planner then decides as in a new schema.
FORGET_STATISTICS = sql.SQL("""\
DELETE FROM pg_statistic USING pg_class AS c
WHERE starelid = c.oid AND relnamespace = {name}::regnamespace;
UPDATE pg_class SET relpages = 0, reltuples = -1
WHERE relnamespace = {name}::regnamespace AND relkind = 'r' AND reltuples <> -1
""")
# As in roles.sql.
ROLE = """\
SELECT rolname
FROM pg_roles
JOIN pg_database ON datname = current_database()
    AND rolname = format('cbm_%%s_%%s', lpad(to_hex(pg_database.oid::bigint), 8, '0'), %s::text)
"""


class SpareSchemas:
    """Emptied schemas of the run's server."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._spare = [FIRST]
        self._shape = self._fetch(SHAPE, FIRST)
        self._taken = 0

    def give(self, project_id: str) -> None:
        """Let a project that does not exist yet find its schema made, if there is a spare one."""
        if self._spare:
            self._rename(self._spare.pop(), schema_of(project_id))

    async def take(self, project_id: str) -> None:
        """Empty and keep the schema of a project, if it has one that no test has changed.

        What is left of the project is then dropped as usual.
        """
        await asyncio.to_thread(self._take, project_id)

    def _take(self, project_id: str) -> None:
        schema = schema_of(project_id)
        exists = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
        if not self._connection.execute(exists, [schema]).fetchall():
            return
        # A task that still uses it, which `drop_project` waits for, or another order of locks.
        busy = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
        with suppress(busy), self._connection.transaction():
            if self._fetch(SHAPE, schema) != self._shape:
                return
            tables = [row[0] for row in self._fetch(TABLES_WITH_ROWS, schema)]
            if tables:
                names = sql.SQL(", ").join(sql.Identifier(schema, table) for table in tables)
                self._connection.execute(
                    sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names)
                )
            self._connection.execute(FORGET_STATISTICS.format(name=schema))
            self._taken += 1
            spare = f"{FIRST}_{self._taken}"
            self._rename(schema, spare)
            self._spare.append(spare)

    def _fetch(self, query: sql.SQL, schema: str) -> list[tuple[str, ...]]:
        named = query.format(schema=sql.Identifier(schema), name=schema)
        return self._connection.execute(named).fetchall()

    def _rename(self, old: str, new: str) -> None:
        """Rename a schema with its role."""
        self._connection.execute(
            sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(*map(sql.Identifier, (old, new)))
        )
        role = self._connection.execute(ROLE, [old.removeprefix("project_")]).fetchone()
        if role is not None:
            new_role = role[0].replace(old.removeprefix("project_"), new.removeprefix("project_"))
            names = map(sql.Identifier, (role[0], new_role))
            self._connection.execute(sql.SQL("ALTER ROLE {} RENAME TO {}").format(*names))


@contextmanager
def open_spare_schemas(embedded: Embedded) -> Iterator[SpareSchemas]:
    """Spare schemas of a server, of which the first is made now."""

    async def make_first() -> None:
        database = await Database.open(embedded)
        await database.migrate("project", FIRST)
        await database.close()

    asyncio.run(make_first())
    server = EmbeddedServer(embedded)
    with psycopg.connect(server.join(), autocommit=True) as connection:
        connection.execute("SET lock_timeout = '2s'")
        yield SpareSchemas(connection)
    server.leave()
