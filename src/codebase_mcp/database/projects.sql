-- name: find_project
-- The project that lives in a schema.
SELECT project_id, schema_name, created_at, name, description
FROM project
WHERE schema_name = %(schema_name)s

-- name: add_project
-- Enter a project, unless its schema has one.
INSERT INTO project (project_id, schema_name, name, description)
VALUES (%(project_id)s, %(schema_name)s, %(name)s, %(description)s)
ON CONFLICT DO NOTHING

-- name: list_projects
-- All projects, newest first.
SELECT project_id, schema_name, created_at, name, description
FROM project
ORDER BY created_at DESC, schema_name

-- name: remove_project
-- Forget a project.
DELETE FROM project
WHERE schema_name = %(schema_name)s
