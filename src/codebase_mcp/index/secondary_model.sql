-- name: load_secondaries
-- The secondary profiles, and which of them searches use.
SELECT t.answers, p.id, p.fingerprint, p.model, p.dimension, p.provider, p.source, p.query_prefix,
       p.passage_prefix, p.slope, p.shift
FROM second_tier AS t
JOIN profile AS p ON p.id = t.profile_id
ORDER BY p.id;

-- name: unavailable
-- Why secondary models are unavailable now.
SELECT model, error
FROM second_tier_away;

-- name: add
-- Add a secondary profile; the first one is used from its first vector on.
INSERT INTO second_tier (profile_id, answers)
SELECT %(profile_id)s, NOT EXISTS (SELECT FROM second_tier WHERE answers)
ON CONFLICT (profile_id) DO NOTHING;

-- name: exists
-- A row if this is a secondary profile.
SELECT true
FROM second_tier
WHERE profile_id = %(profile_id)s;

-- name: note_unavailable
-- Store why a model is unavailable.
INSERT INTO second_tier_away (model, error)
VALUES (%(model)s, %(error)s)
ON CONFLICT (model) DO UPDATE SET error = excluded.error;

-- name: forget_unavailable
-- A model is available again.
DELETE FROM second_tier_away
WHERE model = %(model)s;

-- name: forget_all_unavailable
-- Delete the reasons of all models.
DELETE FROM second_tier_away;

-- name: missing
-- Texts without vectors of a profile, those of the newest files first. A file that was touched too
-- shortly before it was read has no time of its own: that of its inode says when.
SELECT f.blob_id
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.active AND b.chunk_count > 0
  AND (%(repositories)s::uuid[] IS NULL OR s.repository_id = ANY(%(repositories)s))
  AND NOT EXISTS (
      SELECT
      FROM chunk_vector AS v
      WHERE v.profile_id = %(profile_id)s AND v.blob_id = f.blob_id
  )
GROUP BY f.blob_id
ORDER BY max(CASE WHEN f.mtime_ns > 0 THEN f.mtime_ns ELSE f.ctime_ns END) DESC, min(f.path)
LIMIT %(limit)s;

-- name: texts
-- Some texts, and the lines of their chunks.
SELECT b.id, b.text, array_agg(c.start_line ORDER BY c.ordinal),
       array_agg(c.end_line ORDER BY c.ordinal)
FROM blob AS b
JOIN chunk AS c ON c.blob_id = b.id
WHERE b.id = ANY(%(ids)s::bigint[])
GROUP BY b.id;

-- name: count
-- The chunks that searches see, and how many of them have a vector of a profile.
SELECT coalesce(sum(b.chunk_count), 0)::bigint,
       coalesce(sum(b.chunk_count) FILTER (WHERE EXISTS (
           SELECT
           FROM chunk_vector AS v
           WHERE v.profile_id = %(profile_id)s AND v.blob_id = b.id
       )), 0)::bigint
FROM blob AS b
WHERE EXISTS (
    SELECT
    FROM file AS f
    JOIN snapshot AS s ON s.id = f.snapshot_id
    WHERE f.blob_id = b.id AND s.active
      AND (%(repositories)s::uuid[] IS NULL OR s.repository_id = ANY(%(repositories)s))
);

-- name: answer
-- Let searches use this profile.
UPDATE second_tier
SET answers = true
WHERE profile_id = %(profile_id)s;

-- name: drop_others
-- Delete the other secondary profiles.
DELETE FROM second_tier
WHERE profile_id <> %(profile_id)s
RETURNING profile_id;

-- name: drop_all
-- Delete all secondary profiles.
DELETE FROM second_tier
RETURNING profile_id;

-- name: drop_vectors
-- Delete the vectors of profiles.
DELETE FROM chunk_vector
WHERE profile_id = ANY(%(ids)s::integer[]);

-- name: state
-- A value that changes whenever there may be new chunks: the active snapshots, and when each was
-- brought up to date.
SELECT id, indexed_at, files_pending
FROM snapshot
WHERE active
ORDER BY id;
