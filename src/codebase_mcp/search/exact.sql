-- name: chunks_with
-- The chunks with some lines.
SELECT c.blob_id, c.ordinal, l.line
FROM unnest(%(texts)s::bigint[], %(lines)s::integer[]) AS l (text_id, line)
JOIN chunk AS c ON c.blob_id = l.text_id AND l.line BETWEEN c.start_line AND c.end_line
ORDER BY c.blob_id, c.ordinal, l.line;

-- name: files
-- The files of some snapshots.
SELECT snapshot_id, path, blob_id, language, extension, kind
FROM view_file
WHERE snapshot_id = ANY(%(ids)s::bigint[])
ORDER BY snapshot_id, path COLLATE "C";

-- name: definitions
-- The definitions in some texts.
SELECT blob_id, name, qualified, kind, start_line, end_line, depth
FROM symbol
WHERE blob_id = ANY(%(ids)s::bigint[])
ORDER BY blob_id, start_line, end_line DESC;

-- name: definers
-- The texts that define a name, or one that differs in case and underscores.
SELECT DISTINCT blob_id, name
FROM symbol
WHERE folded = %(folded)s;
