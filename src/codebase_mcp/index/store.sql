-- name: upsert_repository
-- The repository at a root; its id comes from its root, so it is the same for ever.
INSERT INTO repository (id, root, name)
VALUES (%(id)s, %(root)s, %(name)s)
ON CONFLICT (id) DO UPDATE SET name = coalesce(%(given_name)s::text, repository.name)
RETURNING id, name;

-- name: repositories
-- Every repository of the project.
SELECT id, root, name
FROM repository
ORDER BY root;

-- name: delete_repository
-- Forget a repository; its snapshots and files go with it.
DELETE FROM repository
WHERE id = %(id)s;

-- name: insert_profile
-- Remember a profile once.
INSERT INTO profile (fingerprint, model, dimension)
VALUES (%(fingerprint)s, %(model)s, %(dimension)s)
ON CONFLICT (fingerprint) DO NOTHING;

-- name: profile_id
-- The number of a profile.
SELECT id
FROM profile
WHERE fingerprint = %(fingerprint)s;

-- name: active_snapshot
-- The snapshot that answers searches in one view of a repository.
SELECT s.id, s.generation, s.classifier, p.fingerprint, p.model
FROM snapshot AS s
JOIN profile AS p ON p.id = s.profile_id
WHERE s.repository_id = %(repository_id)s AND s.view = %(view)s AND s.active;

-- name: next_generation
-- The number for a rebuild beside whatever is there.
SELECT coalesce(max(generation), 0) + 1
FROM snapshot
WHERE repository_id = %(repository_id)s AND view = %(view)s;

-- name: create_snapshot
-- A new, empty snapshot.
INSERT INTO snapshot (repository_id, view, generation, profile_id, active, classifier)
VALUES (%(repository_id)s, %(view)s, %(generation)s, %(profile_id)s, %(active)s, %(classifier)s)
RETURNING id;

-- name: delete_snapshots_but
-- Drop all other snapshots of this view: the one that was replaced, and rebuilds given up.
DELETE FROM snapshot
WHERE repository_id = %(repository_id)s AND view = %(view)s AND id <> %(id)s;

-- name: activate_snapshot
-- From now on this snapshot answers searches.
UPDATE snapshot
SET active = true
WHERE id = %(id)s;

-- name: start_run
-- How much is ahead, for whoever asks while the run goes on.
UPDATE snapshot
SET files_pending = %(pending)s, classifier = %(classifier)s
WHERE id = %(id)s;

-- name: advance_run
-- One batch less is ahead.
UPDATE snapshot
SET files_pending = greatest(files_pending - %(done)s, 0)
WHERE id = %(id)s;

-- name: finish_run
-- The snapshot equals the source tree, but for the failures.
UPDATE snapshot
SET files_pending = 0,
    skipped = %(skipped)s::text::jsonb,
    failures = %(failures)s::text::jsonb,
    indexed_at = now(),
    median_depth = coalesce((
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length(path) - length(replace(path, '/', '')))
        FROM file
        WHERE snapshot_id = %(id)s
    ), 0)
WHERE id = %(id)s;

-- name: stored_files
-- What one snapshot holds.
SELECT path, blob_id, size, mtime_ns, ctime_ns, language, kind
FROM file
WHERE snapshot_id = %(snapshot_id)s;

-- name: count_snapshot
-- Files and chunks of one snapshot.
SELECT count(*), coalesce(sum(b.chunk_count), 0)
FROM file AS f
JOIN blob AS b ON b.id = f.blob_id
WHERE f.snapshot_id = %(snapshot_id)s;

-- name: existing_blobs
-- Which of these blobs are stored.
SELECT id
FROM blob
WHERE id = ANY(%(ids)s);

-- name: delete_files
-- Forget some paths of a snapshot; their blobs may be without a file now.
DELETE FROM file
WHERE snapshot_id = %(snapshot_id)s AND path = ANY(%(paths)s)
RETURNING blob_id;

-- name: copy_files
-- The files of one batch.
COPY file (snapshot_id, path, blob_id, size, mtime_ns, ctime_ns, language, extension, kind, name_terms)
FROM STDIN (FORMAT BINARY);

-- name: copy_blobs
-- The texts of one batch.
COPY blob (id, hash, language, profile_id, generation, chunk_count, text, comments)
FROM STDIN (FORMAT BINARY);

-- name: copy_chunks
-- The chunks of one batch.
COPY chunk (blob_id, ordinal, start_line, end_line, symbol, kind, terms, lex)
FROM STDIN (FORMAT BINARY);

-- name: copy_vectors
-- The vectors of one batch.
COPY chunk_vector (blob_id, ordinal, dense)
FROM STDIN (FORMAT BINARY);

-- name: copy_symbols
-- The definitions of one batch.
COPY symbol (blob_id, name, folded, qualified, kind, start_line, end_line, depth)
FROM STDIN (FORMAT BINARY);

-- name: add_frequencies
-- Count the terms of new chunks.
INSERT INTO term_frequency (term, chunks)
SELECT *
FROM unnest(%(terms)s::integer[], %(chunks)s::integer[])
ON CONFLICT (term) DO UPDATE SET chunks = term_frequency.chunks + excluded.chunks;

-- name: release_blobs
-- Blobs that no file uses any more start to wait for the sweep.
UPDATE blob
SET released_at = now()
WHERE id = ANY(%(ids)s)
  AND NOT EXISTS (SELECT FROM file WHERE file.blob_id = blob.id);

-- name: claim_blobs
-- Blobs that are in use again.
UPDATE blob
SET released_at = NULL
WHERE id = ANY(%(ids)s) AND released_at IS NOT NULL;

-- name: release_orphans
-- Start the wait of every blob that lost its last file with a snapshot or a repository.
UPDATE blob
SET released_at = now()
WHERE released_at IS NULL
  AND NOT EXISTS (SELECT FROM file WHERE file.blob_id = blob.id);

-- name: expired_blobs
-- Blobs whose wait is over.
SELECT id
FROM blob
WHERE released_at <= now() - make_interval(secs => %(grace_s)s)
  AND NOT EXISTS (SELECT FROM file WHERE file.blob_id = blob.id);

-- name: subtract_frequencies
-- Take the terms of blobs that are about to go out of the frequencies.
WITH gone AS (
    SELECT blob_id, ordinal, terms
    FROM chunk
    WHERE blob_id = ANY(%(ids)s)
), counts AS (
    SELECT term, count(*) AS chunks
    FROM gone, unnest(terms) AS term
    GROUP BY term
    UNION ALL
    SELECT -1, count(*)
    FROM gone
)
UPDATE term_frequency AS t
SET chunks = t.chunks - c.chunks
FROM counts AS c
WHERE t.term = c.term;

-- name: delete_spent_frequencies
-- Terms that no chunk holds any more.
DELETE FROM term_frequency
WHERE chunks <= 0 AND term <> -1;

-- name: delete_chunks
-- The chunks of blobs that go.
DELETE FROM chunk
WHERE blob_id = ANY(%(ids)s);

-- name: delete_vectors
-- The vectors of blobs that go.
DELETE FROM chunk_vector
WHERE blob_id = ANY(%(ids)s);

-- name: delete_symbols
-- The definitions of blobs that go.
DELETE FROM symbol
WHERE blob_id = ANY(%(ids)s);

-- name: delete_blobs
-- The blobs themselves.
DELETE FROM blob
WHERE id = ANY(%(ids)s);

-- name: flush_terms
-- Work off the word index's list of pending entries, so that searches need not read through it.
SELECT gin_clean_pending_list('chunk_terms');

-- name: analyze
-- Fresh statistics for the planner, of the columns that it joins and filters by.
ANALYZE file, blob (id, released_at), chunk (blob_id, ordinal), chunk_vector (blob_id, ordinal), symbol (blob_id, folded);

-- name: count_chunks
-- How many chunks the project has.
SELECT chunks
FROM term_frequency
WHERE term = -1;
