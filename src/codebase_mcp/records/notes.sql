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
