-- name: files_named
-- The repositories that have a file with this path.
SELECT w.position, s.repository_id, f.blob_id, b.hash
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
SELECT w.position, d.repository_id, d.path, d.blob_id, d.qualified, d.start_line, d.is_prose,
       d.is_part
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
