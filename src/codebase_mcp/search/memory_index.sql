-- name: snapshots
-- The snapshots to copy, with their versions and models. Without ids those that are searched by
-- default.
SELECT s.id, s.version, s.profile_id
FROM snapshot AS s
JOIN repository AS r ON r.id = s.repository_id
WHERE CASE WHEN %(ids)s::bigint[] IS NULL THEN s.active ELSE s.id = ANY(%(ids)s) END
ORDER BY r.root, s.active DESC, s.view;

-- name: chunk_count
-- How many chunks their texts have.
SELECT coalesce(sum(b.chunk_count), 0)
FROM blob AS b
WHERE b.id IN (
    SELECT f.blob_id
    FROM view_file AS f
    WHERE f.snapshot_id = ANY(%(ids)s::bigint[])
);

-- name: dimension
-- The dimension of a model's vectors.
SELECT dimension
FROM profile
WHERE id = %(profile_id)s;

-- fragment: file_columns
-- The columns of a file f of snapshot s, whose text is b.
s.id, s.repository_id, f.path, f.blob_id, f.language, f.kind, f.extension, f.name_terms, b.chunk_count

-- name: files
-- All files of the snapshots.
SELECT {file_columns}
FROM snapshot AS s
JOIN view_file AS f ON f.snapshot_id = s.id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.id = ANY(%(ids)s::bigint[])
ORDER BY f.path, f.blob_id, s.id;

-- name: files_of_texts
-- The files of the snapshots that have some texts.
SELECT {file_columns}
FROM snapshot AS s
JOIN view_file AS f ON f.snapshot_id = s.id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.id = ANY(%(ids)s::bigint[]) AND f.blob_id = ANY(%(blobs)s::bigint[])
ORDER BY f.path, f.blob_id, s.id;

-- name: texts_of_files
-- The text of each file of some snapshots, and its number of chunks.
SELECT f.snapshot_id, f.path, f.blob_id, b.chunk_count
FROM view_file AS f
JOIN blob AS b ON b.id = f.blob_id
WHERE f.snapshot_id = ANY(%(ids)s::bigint[]);

-- name: comments
-- The words of the comments of some texts.
SELECT id, sparsevec_send(comments)
FROM blob
WHERE id = ANY(%(blobs)s::bigint[])
ORDER BY id;

-- name: chunks
-- The chunks of some texts: lines, and words with their weights.
SELECT c.blob_id,
       string_agg(int4send(c.start_line) || int4send(c.end_line), ''::bytea ORDER BY c.ordinal),
       string_agg(sparsevec_send(c.lex), ''::bytea ORDER BY c.ordinal)
FROM chunk AS c
WHERE c.blob_id = ANY(%(blobs)s::bigint[])
GROUP BY c.blob_id
ORDER BY c.blob_id;

-- name: vectors
-- The vectors of the chunks of some texts, by one model.
SELECT v.blob_id,
       string_agg(int4send(v.ordinal), ''::bytea ORDER BY v.ordinal),
       string_agg(halfvec_send(v.dense), ''::bytea ORDER BY v.ordinal)
FROM chunk_vector AS v
WHERE v.profile_id = %(profile_id)s AND v.blob_id = ANY(%(blobs)s::bigint[])
GROUP BY v.blob_id
ORDER BY v.blob_id;

-- name: symbols
-- The definitions in some texts, without fields (model.FIELD_KINDS).
SELECT blob_id, name, folded, kind, start_line, end_line, depth
FROM symbol
WHERE blob_id = ANY(%(blobs)s::bigint[])
  AND kind <> ALL ('{attribute,entry,enumerator,field,item}'::text[])
ORDER BY blob_id, depth, start_line, end_line;
