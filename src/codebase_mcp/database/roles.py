"""Which database role do the transactions of a project run as?

A role that may only use the schema of this project. So PostgreSQL refuses a statement that names
tables of a different project, by a mistake of ours. Schemas are made, migrated and dropped as the
role of the connection. Where that role may not make roles, it does everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Transaction

_SQL = load_queries("codebase_mcp.database", "roles.sql")


@dataclass(frozen=True, slots=True)
class ProjectRole:
    """The role of a schema, and the rights of ours.

    ``may_set`` says that this session may run as it. On a Citus cluster it is not used, as the
    nodes would need it too.
    """

    name: str
    exists: bool
    may_set: bool
    has_grants: bool
    reaches_vectors: bool
    has_vector_grant: bool
    may_create: bool
    may_drop: bool
    is_on_cluster: bool
    our_role: str
    schema: str
    vector_schema: str

    @property
    def is_usable(self) -> bool:
        """Whether transactions can run as it."""
        is_whole = self.may_set and self.has_grants and self.reaches_vectors
        return is_whole and not self.is_on_cluster

    @property
    def is_worth_making(self) -> bool:
        """Whether it is missing or incomplete, and we may be able to change that."""
        can_be_made = (self.exists or self.may_create) and not self.is_on_cluster
        return can_be_made and not self.is_usable

    def in_words(self) -> str:
        """Whether projects have roles; if not, why, and the grant that allows it."""
        if self.is_on_cluster:
            return "no role per project, as this is a Citus cluster"
        if self.is_usable or self.may_create:
            return "a role per project"
        grant = sql.SQL("ALTER ROLE {} CREATEROLE").format(sql.Identifier(self.our_role))
        return f"no role per project; to allow it, run {grant.as_string(None)}"


async def find_role(tx: Transaction, schema: str, vector_schema: str) -> ProjectRole:
    """The role of a project's schema, as it is now."""
    row = await tx.fetch_one(_SQL["find_role"], schema=schema, vector_schema=vector_schema)
    assert row is not None
    return ProjectRole(*row)


async def make_role(tx: Transaction, schema: str, vector_schema: str) -> ProjectRole:
    """Make the role, or complete it, as far as our own role may.

    Raises:
        PermissionDenied: it may not; the transaction has failed.
    """
    await tx.lock("migrate")
    role = await find_role(tx, schema, vector_schema)
    if not role.exists:
        await _run(tx, "create", role)
        role = await find_role(tx, schema, vector_schema)
    if not role.may_set:
        await _run(tx, "join", role)
    if not role.has_grants:
        await _run(tx, "grant", role)
    if not role.reaches_vectors:
        await _run(tx, "grant_vectors", role)
    return await find_role(tx, schema, vector_schema)


async def renew_grants(tx: Transaction, schema: str, vector_schema: str) -> None:
    """Let an existing role use a schema that has replaced an earlier schema."""
    role = await find_role(tx, schema, vector_schema)
    if role.exists:
        await _run(tx, "grant", role)


async def drop_role(tx: Transaction, schema: str, vector_schema: str) -> None:
    """Drop the role of a schema that was dropped, if it exists and we may drop it."""
    role = await find_role(tx, schema, vector_schema)
    if role.exists and role.may_drop:
        if role.has_vector_grant:
            await _run(tx, "revoke_vectors", role)
        await _run(tx, "drop", role)


async def _run(tx: Transaction, statements: str, role: ProjectRole) -> None:
    script = sql.SQL(_SQL[statements]).format(
        role=sql.Identifier(role.name),
        schema=sql.Identifier(role.schema),
        vector_schema=sql.Identifier(role.vector_schema),
    )
    await tx.run_script(script.as_string(None))
