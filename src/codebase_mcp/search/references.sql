-- name: uses
-- Where the files of some snapshots use a name.
SELECT f.snapshot_id, f.path, f.blob_id, f.language, f.kind,
       r.uses[array_position(r.names, %(name)s::text)]
FROM blob_reference AS r
JOIN view_file AS f ON f.blob_id = r.blob_id
WHERE r.names @> ARRAY[%(name)s::text]
  AND f.snapshot_id = ANY(%(snapshots)s::bigint[])
ORDER BY f.snapshot_id, f.path;

-- name: used_in
-- The names that some texts use, each with its uses.
SELECT r.blob_id, each_name.name, each_name.uses
FROM blob_reference AS r, unnest(r.names, r.uses) AS each_name (name, uses)
WHERE r.blob_id = ANY(%(blobs)s::bigint[]);

-- name: enclosing
-- The innermost definition around each of some lines.
SELECT asked.blob_id, asked.line, s.name, s.qualified, s.kind, s.start_line, s.end_line, s.depth
FROM unnest(%(blobs)s::bigint[], %(lines)s::integer[]) AS asked (blob_id, line)
CROSS JOIN LATERAL (
    SELECT name, qualified, kind, start_line, end_line, depth
    FROM symbol
    WHERE symbol.blob_id = asked.blob_id AND asked.line BETWEEN start_line AND end_line
    ORDER BY depth DESC, start_line DESC
    LIMIT 1
) AS s;
