-- name: find_vector
-- Where pgvector is, if anywhere: its schema and version here, and what the server could install.
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
-- Any schema would do, as it joins the search path; public is where others look for it too.
CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public
