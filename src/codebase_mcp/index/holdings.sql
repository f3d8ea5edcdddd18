-- name: repositories
-- Every repository that is indexed, or has begun to be.
SELECT id, root
FROM repository
ORDER BY root

-- name: count
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
     + (SELECT count(*) FROM chunk_vector WHERE blob_id IN (SELECT id FROM blobs))
