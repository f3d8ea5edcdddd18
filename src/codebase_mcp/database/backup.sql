-- name: tables
-- The tables of a schema with their columns, without the migration ledger, which a restore creates,
-- and without the log of index runs, which is no content of the project.
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
WHERE n.nspname = %(schema)s
    AND c.relkind = 'r'
    AND c.relname NOT IN ('schema_migration', 'index_run')
    AND a.attnum > 0
    AND NOT a.attisdropped
    AND a.attgenerated = ''
GROUP BY c.relname
ORDER BY c.relname

-- name: references
-- The foreign keys between tables.
SELECT DISTINCT c.relname, r.relname
FROM pg_catalog.pg_constraint AS f
JOIN pg_catalog.pg_class AS c ON c.oid = f.conrelid
JOIN pg_catalog.pg_class AS r ON r.oid = f.confrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s
    AND f.contype = 'f'
    AND c.oid <> r.oid

-- name: identities
-- The identity columns.
SELECT c.relname, a.attname
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
WHERE n.nspname = %(schema)s
    AND c.relkind = 'r'
    AND a.attidentity <> ''
ORDER BY c.relname

-- name: with_repository
-- The tables whose rows name a repository.
SELECT c.relname
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
WHERE n.nspname = %(schema)s
    AND c.relkind = 'r'
    AND a.attname = 'repository_id'
ORDER BY c.relname

-- name: repositories
-- The repositories of the project.
SELECT id, root
FROM repository

-- name: server_version
-- The version of the server.
SELECT pg_catalog.current_setting('server_version')

-- name: flush_word_indexes
-- Flush the pending lists of the GIN indexes, so that searches need not scan them.
SELECT pg_catalog.gin_clean_pending_list(c.oid)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_am AS m ON m.oid = c.relam
WHERE n.nspname = %(schema)s
    AND c.relkind = 'i'
    AND m.amname = 'gin'

-- name: set_search_path
-- Set the search path to this schema and that of pgvector.
SELECT pg_catalog.set_config(
    'search_path',
    pg_catalog.quote_ident(%(schema)s) || ', ' || pg_catalog.quote_ident(%(vector_schema)s),
    true
)

-- name: enter_project
-- Add the restored project to the catalogue, or replace its entry.
INSERT INTO project (project_id, schema_name, name, description, created_at)
VALUES (%(project_id)s, %(schema_name)s, %(name)s, %(description)s, %(created_at)s::timestamptz)
ON CONFLICT (schema_name) DO UPDATE
SET name = excluded.name, description = excluded.description, created_at = excluded.created_at
WHERE project.project_id IS NOT DISTINCT FROM excluded.project_id
RETURNING created_at
