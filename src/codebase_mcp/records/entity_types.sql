-- name: register_type
-- Add a type; no row if the name is used.
INSERT INTO entity_type (id, name, folded, description, created_at, updated_at)
SELECT %(id)s, %(name)s, %(folded)s, %(description)s, now, now
FROM statement_timestamp() AS now
ON CONFLICT (folded) DO NOTHING
RETURNING created_at;

-- name: first_version
-- The schema of a new type.
INSERT INTO entity_type_version (type_id, version, schema, created_at)
SELECT id, version, %(schema)s::text::json, created_at
FROM entity_type
WHERE id = %(id)s;

-- name: share_type
-- Lock the schema of a type against changes until the transaction ends. Later statements see the
-- current version.
SELECT id
FROM entity_type
WHERE folded = %(folded)s
FOR SHARE;

-- name: share_type_of
-- The same for the type of an entity.
SELECT id
FROM entity_type
WHERE id = (SELECT type_id FROM entity WHERE id = %(id)s)
FOR SHARE;

-- name: lock_type
-- Lock a type against new entities and changes of its schema until the transaction ends.
SELECT id
FROM entity_type
WHERE folded = %(folded)s
FOR UPDATE;

-- name: type
-- A type with its current schema.
SELECT t.id, t.name, t.description, t.version, v.schema::text, t.created_at, t.updated_at
FROM entity_type AS t
JOIN entity_type_version AS v ON v.type_id = t.id AND v.version = t.version
WHERE t.folded = %(folded)s;

-- name: type_of
-- The type of an entity with its current schema.
SELECT t.id, t.name, t.description, t.version, v.schema::text, t.created_at, t.updated_at
FROM entity AS e
JOIN entity_type AS t ON t.id = e.type_id
JOIN entity_type_version AS v ON v.type_id = t.id AND v.version = t.version
WHERE e.id = %(id)s;

-- name: type_names
-- Some types, by name.
SELECT name
FROM entity_type
ORDER BY folded
LIMIT %(limit)s;

-- name: add_version
-- Add a version of a type's schema.
INSERT INTO entity_type_version (type_id, version, schema)
VALUES (%(type_id)s, %(version)s, %(schema)s::text::json);

-- name: use_version
-- Make it current; returns the time.
UPDATE entity_type AS t
SET version = v.version, updated_at = v.created_at
FROM entity_type_version AS v
WHERE t.id = %(type_id)s AND v.type_id = t.id AND v.version = %(version)s
RETURNING t.updated_at;

-- name: live
-- A page of the undeleted entities of a type. Their order is that of an index that begins with the
-- type; it does not change while the type is locked.
SELECT id, updated_at, name, data::text
FROM entity
WHERE type_id = %(type_id)s
  AND deleted_at IS NULL
  AND (updated_at, id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
ORDER BY updated_at DESC, id DESC
LIMIT %(limit)s;

-- name: checked
-- Record that all undeleted entities of a type were validated against a version of its schema.
UPDATE entity
SET schema_version = %(version)s
WHERE type_id = %(type_id)s AND deleted_at IS NULL AND schema_version <> %(version)s;
