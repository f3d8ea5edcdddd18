-- name: commits
-- The newest commits of HEAD with paths, but few, the newest first, up to a position.
SELECT c.hash, split_part(c.message, E'\n', 1), c.paths
FROM commit_entry AS c
WHERE c.repository_id = %(repository_id)s AND NOT c.is_merge AND c.branches = '{}'
  AND c.paths_total BETWEEN 1 AND %(max_paths)s AND c.paths <> '{}'
  AND (%(newest)s::text IS NULL OR c.position <= (
      SELECT e.position
      FROM commit_entry AS e
      WHERE e.repository_id = %(repository_id)s AND e.hash = decode(%(newest)s, 'hex')))
ORDER BY c.position DESC
LIMIT %(most)s;

-- name: alike
-- The commits that share most words with a task, and the nearest in meaning: score, cosine.
WITH scored AS MATERIALIZED (
    SELECT t.hash, -(t.lex <#> %(query)s::sparsevec) AS words,
           -((t.subject <#> %(vector)s::halfvec) + (t.dense <#> %(vector)s::halfvec)) / 2 AS nearness
    FROM commit_text AS t
    WHERE t.repository_id = %(repository_id)s AND t.model = %(model)s
)
(SELECT hash, words, nearness FROM scored ORDER BY words DESC LIMIT %(most)s)
UNION
(SELECT hash, words, nearness FROM scored ORDER BY nearness DESC LIMIT %(most)s);

-- name: defined
-- The definitions of some names, without fields, in the texts of some snapshots.
SELECT t.blob_id, t.folded, t.name, t.qualified, t.start_line, t.end_line
FROM symbol AS t
WHERE t.folded = ANY(%(folded)s::text[])
  AND t.kind <> ALL ('{attribute,entry,enumerator,field,item,section,key,selector}'::text[])
LIMIT %(most)s;

-- name: using
-- The texts that use some names, of those that are not used everywhere.
SELECT asked.name, t.blob_id
FROM unnest(%(names)s::text[]) AS asked (name)
CROSS JOIN LATERAL (
    SELECT r.blob_id FROM blob_reference AS r WHERE r.names @> ARRAY[asked.name]
    LIMIT %(most)s
) AS t;

-- name: defined_in
-- The names that some texts define, without fields.
SELECT DISTINCT s.blob_id, s.name
FROM symbol AS s
WHERE s.blob_id = ANY(%(blobs)s::bigint[])
  AND s.kind <> ALL ('{attribute,entry,enumerator,field,item,section,key,selector,variable}'::text[])
  AND length(s.name) > 2;

-- name: used_in
-- The names that some texts use.
SELECT r.blob_id, r.names
FROM blob_reference AS r
WHERE r.blob_id = ANY(%(blobs)s::bigint[]);

-- name: definers
-- The texts that define some names, of names that few texts define, and few definitions have.
SELECT asked.name, array_agg(DISTINCT t.blob_id)
FROM unnest(%(names)s::text[], %(folded)s::text[]) AS asked (name, folded)
CROSS JOIN LATERAL (
    SELECT s.blob_id
    FROM symbol AS s
    WHERE s.folded = asked.folded AND s.name = asked.name
      AND s.kind <> ALL ('{attribute,entry,enumerator,field,item,section,key,selector,variable}'::text[])
    LIMIT %(most_rows)s
) AS t
GROUP BY asked.name
HAVING count(DISTINCT t.blob_id) <= %(most)s AND count(*) < %(most_rows)s;

-- name: hashes
-- The files of a snapshot with the hashes of their contents, as git has them.
SELECT f.path, encode(b.hash, 'hex')
FROM view_file AS f
JOIN blob AS b ON b.id = f.blob_id
WHERE f.snapshot_id = %(snapshot_id)s;
