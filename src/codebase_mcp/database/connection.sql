-- name: find_vector
-- The schema and version of pgvector in this database, and the version that can be installed.
SELECT
    (SELECT n.nspname
     FROM pg_catalog.pg_extension AS e
     JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
     WHERE e.extname = 'vector'),
    (SELECT extversion
     FROM pg_catalog.pg_extension
     WHERE extname = 'vector'),
    (SELECT default_version
     FROM pg_catalog.pg_available_extensions
     WHERE name = 'vector')

-- name: create_vector
-- Any schema works, as it is added to the search path; other programs expect it in public.
CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public
