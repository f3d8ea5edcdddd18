-- name: find_active
-- The project that a caller switched to.
SELECT project_id
FROM active_project
WHERE owner = %(owner)s

-- name: set_active
-- Set the active project of a caller.
INSERT INTO active_project (owner, project_id)
VALUES (%(owner)s, %(project_id)s)
ON CONFLICT (owner) DO UPDATE
SET project_id = excluded.project_id,
    switched_at = now()

-- name: find_trust
-- Whether the context file of this directory may name the project in this schema.
SELECT 1
FROM trusted_context
WHERE directory = %(directory)s
    AND schema_name = %(schema_name)s

-- name: add_trust
-- The context file of this directory may name the project in this schema.
INSERT INTO trusted_context (directory, schema_name)
VALUES (%(directory)s, %(schema_name)s)
ON CONFLICT DO NOTHING
