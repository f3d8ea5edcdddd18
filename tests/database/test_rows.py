"""The binary rows, read back by PostgreSQL itself."""

from __future__ import annotations

import numpy as np
import pytest

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.index import rows

pytestmark = pytest.mark.anyio


async def test_every_kind_of_field_arrives_as_it_was(database: Database, project: Project) -> None:
    values = np.array([[0.5, -1.0, 0.25]], np.float32)
    row = rows.row(
        rows.int2(-3),
        rows.int4(70_000),
        rows.int8(-(2**62)),
        rows.text("naïve ☃"),
        rows.text(None),
        rows.binary(b"\0\xff"),
        rows.int4_array(np.array([1, 5, 999_999_999])),
        rows.int4_array(np.array([], np.int64)),
        rows.sparse_vector(np.array([0, 999_999_999]), np.array([0.5, 2.0], np.float32)),
        *rows.half_vectors(values),
    )
    async with database.transaction(project) as tx:
        await tx.become_owner()
        await tx.execute(
            "CREATE TEMP TABLE t (a smallint, b integer, c bigint, d text, e text, f bytea, "
            "g integer[], h integer[], i sparsevec, j halfvec)"
        )
        await tx.copy("COPY t FROM STDIN (FORMAT BINARY)", rows.payload([row]))
        found = await tx.fetch_one("SELECT a, b, c, d, e, f, g, h, i::text, j::text FROM t")
    assert found == (
        -3, 70_000, -(2**62), "naïve ☃", None, b"\0\xff", [1, 5, 999_999_999], [],
        "{1:0.5,1000000000:2}/1000000000", "[0.5,-1,0.25]",
    )  # fmt: skip
