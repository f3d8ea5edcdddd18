-- fragment: columns
-- The columns of an item, the last with its anchors.
id, item_type, title, description, status, parent_id, path, created_at, updated_at, completed_at,
ARRAY(
    SELECT jsonb_build_array(
        anchor.repository_id, anchor.file, anchor.symbol, anchor.commit, anchor.start_line,
        anchor.end_line, anchor.state, anchor.reason, anchor.moved_from)
    FROM anchor
    WHERE anchor.record_id = work_item.id
    ORDER BY anchor.ordinal)

-- fragment: passes
-- Whether an item passes the given filters: status, type, parent, or an item that it is ``below``
-- (no code point sorts after chr(1114111)).
(%(status)s::text IS NULL OR status = %(status)s)
AND (%(item_type)s::text IS NULL OR item_type = %(item_type)s)
AND (%(parent_id)s::uuid IS NULL OR parent_id = %(parent_id)s)
AND (%(below)s::uuid IS NULL
     OR (path > (SELECT path FROM work_item WHERE id = %(below)s)
         AND path < (SELECT path FROM work_item WHERE id = %(below)s) || chr(1114111)))

-- name: create_work_item
-- Add an item below a parent of a higher level; returns the parent's type too, if the parent
-- exists. Types and paths never change, and the foreign key prevents the parent's deletion.
WITH parent AS (
    SELECT id, item_type, path
    FROM work_item
    WHERE id = %(parent_id)s
), new AS (
    INSERT INTO work_item (id, item_type, title, description, status, parent_id, path, created_at,
                           updated_at, completed_at)
    SELECT %(id)s, %(item_type)s, %(title)s, %(description)s, %(status)s, parent.id,
           coalesce(parent.path, '') || %(id)s || '/', now, now,
           CASE WHEN %(status)s = 'completed' THEN now END
    FROM statement_timestamp() AS now
    LEFT JOIN parent ON true
    WHERE %(parent_id)s::uuid IS NULL OR parent.item_type = ANY(%(above)s)
    RETURNING id, item_type, title, description, status, parent_id, path, created_at, updated_at,
              completed_at
)
SELECT (SELECT item_type FROM parent), id, item_type, title, description, status, parent_id, path,
       created_at, updated_at, completed_at, '{}'::jsonb[] AS anchors
FROM (VALUES (1)) AS always
LEFT JOIN new ON true;

-- name: update_work_item
-- Change the ``given`` columns of an item. The time of completion is kept while the status is
-- completed. Both times are one reading of the clock. If the statement waited for another change,
-- that reading is older than the change; hence greatest().
UPDATE work_item
SET title = coalesce(%(title)s, title),
    description = CASE
        WHEN 'description' = ANY(%(given)s::text[]) THEN %(description)s ELSE description END,
    status = coalesce(%(status)s, status),
    completed_at = CASE
        WHEN coalesce(%(status)s, status) = 'completed'
            THEN coalesce(completed_at, now)
        END,
    updated_at = CASE
        WHEN 'anchors' = ANY(%(given)s::text[])
            OR title <> %(title)s
            OR status <> %(status)s
            OR ('description' = ANY(%(given)s::text[])
                AND description IS DISTINCT FROM %(description)s)
            THEN greatest(now, updated_at)
        ELSE updated_at END
FROM statement_timestamp() AS now
WHERE id = %(id)s
RETURNING {columns};

-- name: plan_for_values
-- Plan the statements of this transaction for their actual parameters: absent filters are then
-- optimized away, and each given one can use its index.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: page
-- A page of items that pass the given filters: status, type, parent, or an item that they are
-- ``below`` (no code point sorts after chr(1114111)).
SELECT {columns}
FROM work_item
WHERE {passes}
  AND (created_at, id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
ORDER BY created_at DESC, id DESC
OFFSET %(offset)s
LIMIT %(limit)s;

-- name: total
-- The number of items that pass the given filters.
SELECT count(*)
FROM work_item
WHERE {passes};

-- name: lineage
-- An item and its ancestors, the root first, by the ids in its path.
SELECT {columns}
FROM work_item
WHERE id = ANY((
    SELECT string_to_array(rtrim(path, '/'), '/')
    FROM work_item
    WHERE id = %(id)s)::uuid[])
ORDER BY path;

-- name: descendants
-- The descendants of an item, level by level: all ids in a path have the same length.
SELECT {columns}
FROM work_item
WHERE path > (SELECT path FROM work_item WHERE id = %(id)s)
  AND path < (SELECT path FROM work_item WHERE id = %(id)s) || chr(1114111)
ORDER BY length(path), created_at, id
LIMIT %(limit)s;

-- name: count_descendants
-- The number of an item's descendants.
SELECT count(*)
FROM work_item
WHERE path > (SELECT path FROM work_item WHERE id = %(id)s)
  AND path < (SELECT path FROM work_item WHERE id = %(id)s) || chr(1114111);

-- name: root_page
-- A page of the items without a parent, newest first, each with the number of its descendants.
SELECT root.id, root.created_at,
       (SELECT count(*)
        FROM work_item AS below
        WHERE below.path > root.path AND below.path < root.path || chr(1114111))
FROM work_item AS root
WHERE root.parent_id IS NULL
  AND (root.created_at, root.id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
ORDER BY root.created_at DESC, root.id DESC
OFFSET %(offset)s
LIMIT %(limit)s;

-- name: count_roots
-- The number of items without a parent.
SELECT count(*)
FROM work_item
WHERE parent_id IS NULL;

-- name: trees
-- Some items, each with the first of its descendants, level by level.
SELECT item.*
FROM unnest(%(roots)s::uuid[]) AS wanted (id)
JOIN work_item AS root ON root.id = wanted.id
CROSS JOIN LATERAL (
    SELECT {columns}
    FROM work_item
    WHERE work_item.path >= root.path AND work_item.path < root.path || chr(1114111)
    ORDER BY length(work_item.path), work_item.created_at, work_item.id
    LIMIT %(most)s
) AS item;

-- name: exists
-- One row if the item exists.
SELECT id
FROM work_item
WHERE id = %(id)s;

-- name: roots
-- The oldest items without a parent.
SELECT id
FROM work_item
WHERE parent_id IS NULL
ORDER BY created_at, id
LIMIT %(limit)s;
