-- name: find_schema
-- Whether there is a schema of this name.
SELECT 1
FROM pg_catalog.pg_namespace
WHERE nspname = %(schema)s

-- name: find_cluster
-- Whether this is the coordinator of a Citus cluster with schema-based sharding.
SELECT 1
WHERE pg_catalog.to_regproc('pg_catalog.citus_schema_distribute') IS NOT NULL

-- name: distribute_schema
-- Move the schema with its rows to a node of the cluster.
SELECT pg_catalog.citus_schema_distribute(%(schema)s::text::regnamespace)

-- name: find_ledger
-- Whether this very schema has a ledger, and whether we may read it. (The search path could find
-- the ledger of another schema, and it skips schemas that we may not use.)
SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s
    AND c.relname = 'schema_migration'
    AND c.relkind = 'r'

-- name: find_relation
-- Whether this schema has any content.
SELECT 1
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s
LIMIT 1

-- name: create_ledger
-- The migrations applied to this schema, with the hashes of their texts.
CREATE TABLE schema_migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: read_ledger
-- The history of the schema at the head of the search path.
SELECT version, checksum
FROM schema_migration
ORDER BY version

-- name: add_to_ledger
-- Record an applied migration.
INSERT INTO schema_migration (version, name, checksum)
VALUES (%(version)s, %(name)s, %(checksum)s)
