-- name: share_anchors
-- No index run updates anchors while they are being set. So a new anchor is either based on the
-- result of a run, or checked by that run.
SELECT pg_advisory_xact_lock_shared(hashtextextended('anchors ' || current_schema(), 0));

-- name: lock_record
-- Make other callers that set the anchors of this record wait.
SELECT pg_advisory_xact_lock(hashtextextended('anchors ' || %(record_id)s::uuid, 0));

-- name: repositories
-- The roots of the repositories.
SELECT id, root
FROM repository
ORDER BY root;

-- name: delete_anchors
-- Delete all anchors of a record.
DELETE FROM anchor
WHERE id IN (
    SELECT id
    FROM anchor
    WHERE record_id = %(record_id)s
    ORDER BY id
    FOR UPDATE
);

-- name: insert_anchors
-- Add the anchors of a record, in their order.
INSERT INTO anchor (id, record_kind, record_id, ordinal, repository_id, root, file, symbol, commit,
                    start_line, end_line, hash, blob_id, is_missing, state, reason)
SELECT n.id, %(kind)s, %(record_id)s, n.ordinal - 1, n.repository_id, r.root, n.file, n.symbol,
       n.commit, n.start_line, n.end_line, n.hash, n.blob_id, n.is_missing, n.state, n.reason
FROM unnest(%(id)s::uuid[], %(repository_id)s::uuid[], %(file)s::text[], %(symbol)s::text[],
            %(commit)s::text[], %(start_line)s::integer[], %(end_line)s::integer[],
            %(hash)s::bytea[], %(blob_id)s::bigint[], %(is_missing)s::boolean[], %(state)s::text[],
            %(reason)s::text[])
    WITH ORDINALITY
    AS n (id, repository_id, file, symbol, commit, start_line, end_line, hash, blob_id, is_missing,
          state, reason, ordinal)
LEFT JOIN repository AS r ON r.id = n.repository_id;

-- name: files_named
-- The repositories that have a file with this path.
SELECT w.position, s.repository_id, f.path, f.blob_id, b.hash
FROM unnest(%(positions)s::integer[], %(paths)s::text[], %(repositories)s::uuid[])
    AS w (position, path, repository_id)
JOIN snapshot AS s ON s.active AND s.view = %(view)s
    AND (w.repository_id IS NULL OR s.repository_id = w.repository_id)
JOIN file AS f ON f.snapshot_id = s.id AND f.path = w.path
JOIN blob AS b ON b.id = f.blob_id
ORDER BY w.position, s.repository_id;

-- name: definitions_named
-- Definitions whose qualified name is, or ends with, a name: code before headings and keys, equal
-- names before those that only end with it.
SELECT w.position, d.repository_id, d.path, d.blob_id, NULL AS hash, d.qualified, d.start_line,
       d.is_prose, d.is_part
FROM unnest(%(positions)s::integer[], %(names)s::text[], %(folded)s::text[], %(paths)s::text[],
            %(repositories)s::uuid[]) AS w (position, name, folded, path, repository_id)
CROSS JOIN LATERAL (
    SELECT s.repository_id, f.path, f.blob_id, d.qualified, d.start_line,
           d.kind IN ('section', 'key', 'selector') AS is_prose, d.qualified <> w.name AS is_part
    FROM symbol AS d
    JOIN file AS f ON f.blob_id = d.blob_id
    JOIN snapshot AS s ON s.id = f.snapshot_id AND s.active AND s.view = %(view)s
    WHERE d.folded = w.folded
      AND (d.qualified = w.name OR right(d.qualified, length(w.name) + 1) = '.' || w.name)
      AND (w.path IS NULL OR f.path = w.path)
      AND (w.repository_id IS NULL OR s.repository_id = w.repository_id)
    ORDER BY is_prose, is_part, s.repository_id, f.path, d.start_line
    LIMIT %(limit)s
) AS d;

-- name: texts
-- The contents of texts.
SELECT id, text
FROM blob
WHERE id = ANY(%(blobs)s::bigint[]);

-- name: spans
-- The lines of every definition of a name in a text.
SELECT d.blob_id, d.qualified, d.start_line, d.end_line
FROM unnest(%(blobs)s::bigint[], %(names)s::text[]) AS w (blob_id, qualified)
JOIN symbol AS d ON d.blob_id = w.blob_id AND d.qualified = w.qualified
ORDER BY d.start_line, d.end_line;

-- name: notes_on
-- The records anchored in ranges of lines, or to the whole files: each record by its best anchor,
-- and the first few records for each range. An anchor to a missing symbol has no lines.
SELECT position, record_kind, record_id, title, status, type, state, reason, symbol, start_line,
       end_line
FROM (
    SELECT n.*,
           row_number() OVER (
               PARTITION BY position
               ORDER BY state, created_at DESC, record_id
           ) AS place
    FROM (
        SELECT DISTINCT ON (h.position, a.record_id)
               h.position - 1 AS position, a.record_kind, a.record_id, a.state, a.reason, a.symbol,
               a.start_line, a.end_line, a.created_at,
               coalesce(t.title, w.title, e.name, left(o.content, 1000)) AS title,
               coalesce(t.status, w.status) AS status,
               coalesce(o.type, y.name, w.item_type) AS type
        FROM unnest(%(repositories)s::uuid[], %(files)s::text[], %(starts)s::integer[],
                    %(ends)s::integer[]) WITH ORDINALITY
            AS h (repository_id, file, start_line, end_line, position)
        JOIN anchor AS a ON a.repository_id = h.repository_id
            AND a.file = h.file
            AND (a.symbol IS NULL
                 OR a.start_line IS NULL
                 OR (a.start_line <= h.end_line AND a.end_line >= h.start_line))
        LEFT JOIN task AS t ON t.id = a.record_id AND a.record_kind = 'task'
        LEFT JOIN observation AS o ON o.id = a.record_id AND a.record_kind = 'observation'
        LEFT JOIN work_item AS w ON w.id = a.record_id AND a.record_kind = 'work_item'
        LEFT JOIN entity AS e ON e.id = a.record_id AND a.record_kind = 'entity'
            AND e.deleted_at IS NULL
        LEFT JOIN entity_type AS y ON y.id = e.type_id
        WHERE coalesce(t.id, o.id, w.id, e.id) IS NOT NULL
        ORDER BY h.position, a.record_id, a.state, a.ordinal
    ) AS n
) AS ranked
WHERE place <= %(limit)s
ORDER BY position, place;
