-- name: changed_files
-- The files that two snapshots do not have in common: their path and the text of each.
SELECT path, o.blob_id, n.blob_id
FROM (SELECT path, blob_id FROM view_file WHERE snapshot_id = %(old)s) AS o
FULL JOIN (SELECT path, blob_id FROM view_file WHERE snapshot_id = %(new)s) AS n USING (path)
WHERE o.blob_id IS DISTINCT FROM n.blob_id
ORDER BY path
LIMIT %(most)s;

-- name: chunk_lines
-- The lines of all chunks of some texts.
SELECT blob_id, ordinal, start_line, end_line
FROM chunk
WHERE blob_id = ANY(%(blobs)s::bigint[]);
