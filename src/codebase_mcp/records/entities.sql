-- fragment: columns
-- The columns of an entity ``e`` of a type ``t``, the last with its anchors.
e.id, t.name, e.name, e.data::text, e.tags, e.version, e.schema_version, e.created_at,
e.updated_at, e.deleted_at,
ARRAY(
    SELECT jsonb_build_array(
        anchor.repository_id, anchor.file, anchor.symbol, anchor.commit, anchor.start_line,
        anchor.end_line, anchor.state, anchor.reason, anchor.moved_from)
    FROM anchor
    WHERE anchor.record_id = e.id
    ORDER BY anchor.ordinal)

-- name: create_entity
-- Add an entity; no row if an undeleted one of its type has the name.
INSERT INTO entity (id, type_id, name, data, tags, schema_version, created_at, updated_at)
SELECT %(id)s, %(type_id)s, %(name)s, %(data)s::text::jsonb, %(tags)s::text[], %(schema_version)s,
       now, now
FROM statement_timestamp() AS now
ON CONFLICT (type_id, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING id;

-- name: entity_named
-- The undeleted entity of a type and a name.
SELECT id
FROM entity
WHERE type_id = %(type_id)s AND name = %(name)s AND deleted_at IS NULL;

-- name: entity
-- An entity, deleted or not.
SELECT {columns}
FROM entity AS e
JOIN entity_type AS t ON t.id = e.type_id
WHERE e.id = %(id)s;

-- name: version_of
-- The version of an undeleted entity.
SELECT version
FROM entity
WHERE id = %(id)s AND deleted_at IS NULL;

-- name: update_entity
-- Replace the data, if the entity still has the version that the caller read; tags if given.
UPDATE entity
SET data = %(data)s::text::jsonb,
    tags = coalesce(%(tags)s::text[], tags),
    version = version + 1,
    schema_version = %(schema_version)s,
    updated_at = statement_timestamp()
WHERE id = %(id)s AND version = %(version)s AND deleted_at IS NULL
RETURNING id;

-- name: delete_entity
-- Mark an entity as deleted, once.
UPDATE entity
SET deleted_at = now, updated_at = now
FROM statement_timestamp() AS now
WHERE id = %(id)s AND deleted_at IS NULL;

-- name: newest
-- A page of all entities of a type, in the order of an index.
WITH e AS (
    SELECT e.id, e.name, e.data, e.tags, e.version, e.schema_version, e.created_at, e.updated_at,
           e.deleted_at
    FROM entity AS e
    WHERE e.type_id = (SELECT id FROM entity_type WHERE folded = %(folded)s)
      AND (%(include_deleted)s OR e.deleted_at IS NULL)
      AND (e.updated_at, e.id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
    ORDER BY e.updated_at DESC, e.id DESC
    OFFSET %(offset)s
    LIMIT %(limit)s
)
SELECT {columns}
FROM e
CROSS JOIN (SELECT name FROM entity_type WHERE folded = %(folded)s) AS t
ORDER BY e.updated_at DESC, e.id DESC;

-- name: count
-- How many entities a type has.
SELECT count(*)
FROM entity
WHERE type_id = (SELECT id FROM entity_type WHERE folded = %(folded)s)
  AND (%(include_deleted)s OR deleted_at IS NULL);

-- name: plan_for_values
-- Plan the next statement for its actual parameters: absent filters are then optimized away, and
-- each given one can use its index.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: matching
-- A page of the entities of a type that contain the filter and have all tags. Each row begins with
-- their total number; an empty page is one row without an entity. Counting needs all matches, so
-- they are found once, and the page is taken from them instead of scanning all entities again.
WITH matching AS MATERIALIZED (
    SELECT id, updated_at
    FROM entity
    WHERE type_id = (SELECT id FROM entity_type WHERE folded = %(folded)s)
      AND (%(include_deleted)s OR deleted_at IS NULL)
      AND (%(filter)s::text IS NULL OR data @> %(filter)s::text::jsonb)
      AND (%(tags)s::text[] IS NULL OR tags @> %(tags)s::text[])
), page AS (
    SELECT id
    FROM matching
    WHERE (updated_at, id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
    ORDER BY updated_at DESC, id DESC
    OFFSET %(offset)s
    LIMIT %(limit)s
)
SELECT counted.total, {columns}
FROM (SELECT count(*) AS total FROM matching) AS counted
LEFT JOIN (
    page
    JOIN entity AS e ON e.id = page.id
    JOIN entity_type AS t ON t.id = e.type_id
) ON true
ORDER BY e.updated_at DESC, e.id DESC;
