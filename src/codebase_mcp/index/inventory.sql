-- name: repositories
-- Every repository with the size and state of its index, and what it was made with. The chunks of a
-- text count once, as many files as show it.
SELECT r.id, r.root, r.name, count(f.path),
       (SELECT coalesce(sum(b.chunk_count), 0)::bigint
        FROM blob AS b
        WHERE b.id IN (SELECT shown.blob_id FROM file AS shown WHERE shown.snapshot_id = s.id)),
       coalesce(sum(f.size), 0)::bigint, s.files_pending, jsonb_array_length(s.failures),
       s.skipped::text, s.indexed_at,
       (SELECT count(*) FROM commit_entry AS h WHERE h.repository_id = r.id),
       p.id, p.fingerprint, p.model, p.dimension, p.provider, p.source, p.query_prefix,
       p.passage_prefix, p.slope, p.shift
FROM repository AS r
JOIN snapshot AS s ON s.repository_id = r.id AND s.active
JOIN profile AS p ON p.id = s.profile_id
LEFT JOIN file AS f ON f.snapshot_id = s.id
GROUP BY r.id, s.id, p.id
ORDER BY r.root;

-- name: languages
-- Files of each language, by repository.
SELECT s.repository_id, f.language, count(*)
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
WHERE s.active
GROUP BY s.repository_id, f.language
ORDER BY count(*) DESC, f.language;

-- name: encoding_counts
-- Files that are not in UTF-8, by repository and encoding.
SELECT s.repository_id, b.encoding, count(*)
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.active AND b.encoding IS NOT NULL
GROUP BY s.repository_id, b.encoding
ORDER BY count(*) DESC, b.encoding;

-- name: names
-- Every repository that is indexed, or has begun to be.
SELECT r.id, r.root, r.name
FROM repository AS r
ORDER BY r.root;

-- name: roots
-- Where the repositories are, and when each was indexed.
SELECT r.root, s.indexed_at
FROM repository AS r
JOIN snapshot AS s ON s.repository_id = r.id AND s.active;

-- name: failures
-- The files that could not be indexed, by repository, each with the reason.
SELECT s.repository_id, s.failures::text
FROM snapshot AS s
WHERE s.active AND s.repository_id = ANY(%(ids)s::uuid[]);

-- name: secrets
-- The files in which secrets are masked, with their number, by repository.
SELECT s.repository_id, f.path, b.secrets
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.active AND s.repository_id = ANY(%(ids)s::uuid[]) AND b.secrets > 0
ORDER BY f.path;

-- name: encodings
-- The files that are not in UTF-8, with their encoding, by repository.
SELECT s.repository_id, f.path, b.encoding
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.active AND s.repository_id = ANY(%(ids)s::uuid[]) AND b.encoding IS NOT NULL
ORDER BY f.path;

-- name: uncounted
-- By repository, the number of files whose secrets were masked by a version that did not count them.
SELECT s.repository_id, count(*)
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.active AND s.repository_id = ANY(%(ids)s::uuid[]) AND b.secrets IS NULL
GROUP BY s.repository_id;

-- name: sizes
-- Bytes of each language, by repository.
SELECT s.repository_id, f.language, sum(f.size)::bigint
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
WHERE s.active AND s.repository_id = ANY(%(ids)s::uuid[])
GROUP BY s.repository_id, f.language
ORDER BY sum(f.size) DESC, f.language;

-- name: count_items
-- Files of these repositories in every view, and the chunks and vectors that go with them: those of
-- texts that no other repository holds.
WITH doomed AS (
    SELECT id
    FROM snapshot
    WHERE repository_id = ANY(%(ids)s::uuid[])
), blobs AS (
    SELECT b.id
    FROM blob AS b
    WHERE NOT EXISTS (
        SELECT
        FROM file AS f
        WHERE f.blob_id = b.id AND f.snapshot_id NOT IN (SELECT id FROM doomed)
    )
)
SELECT (SELECT count(*) FROM file WHERE snapshot_id IN (SELECT id FROM doomed))
     + (SELECT count(*) FROM chunk WHERE blob_id IN (SELECT id FROM blobs))
     + (SELECT count(*) FROM chunk_vector WHERE blob_id IN (SELECT id FROM blobs));
