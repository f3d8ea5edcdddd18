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

-- name: words
-- Of some chunks those with one of the terms, best first.
SELECT blob_id, ordinal, distance, expansion
FROM (
    SELECT c.blob_id, c.ordinal, c.lex <#> %(query)s::sparsevec AS distance,
           c.lex <#> %(expansion)s::sparsevec AS expansion
    FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS wanted (blob_id, ordinal)
    JOIN chunk AS c ON c.blob_id = wanted.blob_id AND c.ordinal = wanted.ordinal
    WHERE c.terms && %(terms)s::integer[]
    OFFSET 0
) AS found
ORDER BY distance + expansion, blob_id, ordinal
LIMIT %(limit)s;

-- name: holding_count
-- How many of some chunks hold one of the terms, up to a number.
SELECT count(*)
FROM (
    SELECT
    FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS wanted (blob_id, ordinal)
    JOIN chunk AS c ON c.blob_id = wanted.blob_id AND c.ordinal = wanted.ordinal
    WHERE c.terms && %(terms)s::integer[]
    LIMIT %(most)s
) AS held;

-- name: meaning
-- Of some chunks the nearest in meaning by one profile's model.
SELECT v.blob_id, v.ordinal, v.dense <#> %(vector)s::halfvec AS distance
FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS wanted (blob_id, ordinal)
JOIN chunk_vector AS v ON v.profile_id = {profile_id} AND v.blob_id = wanted.blob_id
    AND v.ordinal = wanted.ordinal
ORDER BY distance, v.blob_id, v.ordinal
LIMIT %(limit)s;
