-- name: find_schema
-- Is there a schema of this name?
SELECT 1
FROM pg_catalog.pg_namespace
WHERE nspname = %(schema)s

-- name: find_cluster
-- Is this the coordinator of a Citus cluster that places whole schemas?
SELECT 1
WHERE pg_catalog.to_regproc('pg_catalog.citus_schema_distribute') IS NOT NULL

-- name: distribute_schema
-- The schema goes to a machine of the cluster, with its rows.
SELECT pg_catalog.citus_schema_distribute(%(schema)s::text::regnamespace)

-- name: find_ledger
-- Has this very schema a ledger, and may we read it? (The search path might find another schema's,
-- and passes by a schema that we may not use as if that held nothing.)
SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s
    AND c.relname = 'schema_migration'
    AND c.relkind = 'r'

-- name: find_relation
-- Does this schema hold anything?
SELECT 1
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s
LIMIT 1

-- name: create_ledger
-- What has been done to this schema, and from which text.
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
-- One migration has been applied.
INSERT INTO schema_migration (version, name, checksum)
VALUES (%(version)s, %(name)s, %(checksum)s)
