-- name: add
-- Add a batch of entries, given by column.
INSERT INTO audit_entry (at, owner, key_id, peer, tool, operation, project_id, outcome, duration_ms)
SELECT *
FROM unnest(
    %(at)s::timestamptz[], %(owner)s::text[], %(key_id)s::text[], %(peer)s::text[],
    %(tool)s::text[], %(operation)s::text[], %(project_id)s::text[], %(outcome)s::text[],
    %(duration_ms)s::real[]
)

-- name: delete_old
-- Delete the entries that were kept long enough.
DELETE FROM audit_entry
WHERE at < now() - make_interval(days => %(days)s)

-- name: entries
-- The newest entries since a time, the oldest of them first.
SELECT at, owner, key_id, peer, tool, operation, project_id, outcome, duration_ms
FROM (
    SELECT id, at, owner, key_id, peer, tool, operation, project_id, outcome, duration_ms
    FROM audit_entry
    WHERE at >= %(since)s
        AND (%(owner)s::text IS NULL OR owner = %(owner)s)
        AND (%(project_id)s::text IS NULL OR project_id = %(project_id)s)
    ORDER BY at DESC, id DESC
    LIMIT %(limit)s
) AS newest
ORDER BY at, id
