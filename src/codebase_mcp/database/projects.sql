-- name: find_project
-- The project of a schema.
SELECT project_id, schema_name, created_at, name, description
FROM project
WHERE schema_name = %(schema_name)s

-- name: add_project
-- Add a project, unless its schema already has one.
INSERT INTO project (project_id, schema_name, name, description)
VALUES (%(project_id)s, %(schema_name)s, %(name)s, %(description)s)
ON CONFLICT DO NOTHING

-- name: list_projects
-- All projects, newest first.
SELECT project_id, schema_name, created_at, name, description
FROM project
ORDER BY created_at DESC, schema_name

-- name: enter_schema
-- Read the tables of this schema alone, until the transaction ends.
SELECT pg_catalog.set_config('search_path', pg_catalog.quote_ident(%(schema)s), true)

-- name: page_of_projects
-- A page of these projects, newest first; schemas have no UUID, so a hash of the name breaks ties.
SELECT p.project_id, p.schema_name, p.created_at, p.name, p.description
FROM project AS p
CROSS JOIN LATERAL (
    SELECT left(encode(sha256(convert_to(p.schema_name, 'UTF8')), 'hex'), 32)::uuid AS id
) AS page
WHERE p.schema_name = ANY(%(schema_names)s)
    AND (p.created_at, page.id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
ORDER BY p.created_at DESC, page.id DESC
LIMIT %(limit)s
OFFSET %(offset)s

-- name: remove_project
-- Delete a project with its jobs and its trusted directories: a later project of this name is
-- another one. It stays the active project of callers, so that they get an error that it was
-- dropped.
WITH distrusted AS (
    DELETE FROM trusted_context
    WHERE schema_name = %(schema_name)s
), jobless AS (
    DELETE FROM procrastinate_jobs
    WHERE args ->> 'schema_name' = %(schema_name)s
)
DELETE FROM project
WHERE schema_name = %(schema_name)s

-- name: tables
-- The tables of a schema.
SELECT relname
FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND relkind IN ('r', 'p')
ORDER BY relname

-- name: count_project
-- Whether the project of a schema is in the catalogue.
SELECT count(*)
FROM project
WHERE schema_name = %(schema_name)s

-- name: count_trusted_context
-- The number of directories that are trusted to name it.
SELECT count(*)
FROM trusted_context
WHERE schema_name = %(schema_name)s

-- name: count_procrastinate_jobs
-- The number of its jobs.
SELECT count(*)
FROM procrastinate_jobs
WHERE args ->> 'schema_name' = %(schema_name)s
