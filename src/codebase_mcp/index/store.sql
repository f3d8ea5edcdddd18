-- name: upsert_repository
-- The repository at a root; its id comes from its root, so it is the same for ever.
INSERT INTO repository (id, root, name, selected_by, ignore_patterns)
VALUES (%(id)s, %(root)s, %(name)s, %(selected_by)s, coalesce(%(ignore_patterns)s::text[], '{}'))
ON CONFLICT (id) DO UPDATE
SET name = coalesce(%(given_name)s::text, repository.name), selected_by = excluded.selected_by,
    ignore_patterns = coalesce(%(ignore_patterns)s::text[], repository.ignore_patterns)
RETURNING id, name;

-- name: repository
-- The settings of a repository's last run, and what its index was made with.
SELECT r.selected_by, r.ignore_patterns, p.id, p.fingerprint, p.model, p.dimension, p.provider,
       p.source, p.query_prefix, p.passage_prefix, p.slope, p.shift
FROM repository AS r
LEFT JOIN snapshot AS s ON s.repository_id = r.id AND s.view = 'worktree' AND s.active
LEFT JOIN profile AS p ON p.id = s.profile_id
WHERE r.id = %(id)s;

-- name: delete_repository
-- Forget a repository; its snapshots and files go with it.
DELETE FROM repository
WHERE id = %(id)s;

-- name: insert_profile
-- Remember a profile once; of a model that lies elsewhere now, where it was last found.
INSERT INTO profile (fingerprint, model, dimension, provider, source, query_prefix, passage_prefix,
                     slope, shift)
VALUES (%(fingerprint)s, %(model)s, %(dimension)s, %(provider)s, %(source)s, %(query_prefix)s,
        %(passage_prefix)s, %(slope)s, %(shift)s)
ON CONFLICT (fingerprint) DO UPDATE
SET model = excluded.model, provider = excluded.provider, source = excluded.source,
    query_prefix = excluded.query_prefix, passage_prefix = excluded.passage_prefix
RETURNING id;

-- name: active_snapshot
-- The snapshot that answers searches in one view of a repository.
SELECT s.id, s.generation, s.classifier
FROM snapshot AS s
WHERE s.repository_id = %(repository_id)s AND s.view = %(view)s AND s.active;

-- name: begun_rebuild
-- The rebuild that broke off and can go on.
SELECT id, generation, classifier
FROM snapshot
WHERE repository_id = %(repository_id)s AND view = %(view)s AND NOT active
  AND profile_id = %(profile_id)s AND generation > %(generation)s AND indexed_at IS NULL
ORDER BY id DESC
LIMIT 1;

-- name: create_snapshot
-- A new, empty snapshot, with a generation beside those of its view.
INSERT INTO snapshot (repository_id, view, generation, profile_id, active, classifier)
SELECT %(repository_id)s, %(view)s, coalesce(max(generation), 0) + 1, %(profile_id)s, %(active)s,
       %(classifier)s
FROM snapshot
WHERE repository_id = %(repository_id)s AND view = %(view)s
RETURNING id, generation, classifier;

-- name: delete_other_snapshots
-- Drop what this snapshot replaces: others of its view, and those of commits if their texts are not
-- the ones of its model and generation.
DELETE FROM snapshot AS old
USING snapshot AS new
WHERE new.id = %(id)s AND old.repository_id = new.repository_id AND old.id <> new.id
  AND (old.view = new.view
       OR (old.profile_id, old.generation) <> (new.profile_id, new.generation));

-- name: activate_snapshot
-- From now on this snapshot answers searches.
UPDATE snapshot
SET active = true
WHERE id = %(id)s;

-- name: start_run
-- How many files are pending, for status queries during the run.
UPDATE snapshot
SET files_pending = %(pending)s, classifier = %(classifier)s
WHERE id = %(id)s;

-- name: distrust_files
-- Files that a run is going to read, also if it breaks off: their times prove nothing until then.
UPDATE file
SET mtime_ns = 0, ctime_ns = 0
WHERE snapshot_id = %(id)s AND path = ANY(%(paths)s::text[]);

-- name: advance_run
-- One batch less is ahead, and copies of the snapshot in memory are out of date.
UPDATE snapshot
SET files_pending = greatest(files_pending - %(done)s, 0), version = %(version)s
WHERE id = %(id)s;

-- name: record_outcome
-- The snapshot equals the source tree or the commit, but for the failures.
UPDATE snapshot
SET files_pending = 0,
    skipped = %(skipped)s::text::jsonb,
    failures = %(failures)s::text::jsonb,
    indexed_at = now(),
    median_depth = coalesce((
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length(path) - length(replace(path, '/', '')))
        FROM view_file
        WHERE snapshot_id = %(id)s
    ), 0)
WHERE id = %(id)s;

-- name: finish_partial_run
-- Some paths of the snapshot equal the source tree, but for the failures.
UPDATE snapshot
SET files_pending = 0,
    indexed_at = now(),
    failures = coalesce((
        SELECT jsonb_agg(old.failure)
        FROM jsonb_array_elements(failures) AS old (failure)
        WHERE old.failure ->> 0 <> ALL(%(paths)s::text[])
          AND NOT EXISTS (
              SELECT
              FROM unnest(%(directories)s::text[]) AS wanted (folder)
              WHERE starts_with(old.failure ->> 0, wanted.folder)
          )
    ), '[]') || %(failures)s::text::jsonb
WHERE id = %(id)s;

-- name: stored_files
-- What one snapshot holds.
SELECT path, blob_id, size, mtime_ns, ctime_ns, language, kind
FROM file
WHERE snapshot_id = %(snapshot_id)s;

-- name: stored_files_in
-- What one snapshot holds at some paths, and below some folders.
SELECT path, blob_id, size, mtime_ns, ctime_ns, language, kind
FROM file
WHERE snapshot_id = %(snapshot_id)s AND path = ANY(%(paths)s::text[])
UNION
SELECT f.path, f.blob_id, f.size, f.mtime_ns, f.ctime_ns, f.language, f.kind
FROM unnest(%(directories)s::text[]) AS wanted (folder)
JOIN file AS f ON f.snapshot_id = %(snapshot_id)s AND starts_with(f.path, wanted.folder);

-- name: finished_snapshot
-- The snapshot that answers searches, if nothing is ahead of it.
SELECT s.id, s.generation, p.id, p.fingerprint, p.model, p.dimension, p.provider, p.source,
       p.query_prefix, p.passage_prefix, p.slope, p.shift
FROM snapshot AS s
JOIN profile AS p ON p.id = s.profile_id
WHERE s.repository_id = %(repository_id)s AND s.view = %(view)s AND s.active
  AND s.indexed_at IS NOT NULL AND s.files_pending = 0 AND s.classifier = %(classifier)s;

-- name: stored_blobs
-- Which of these blobs are stored, their chunks, and whether those have vectors of a profile.
SELECT b.id, b.chunk_count, b.chunk_count = 0 OR EXISTS (
    SELECT
    FROM chunk_vector AS v
    WHERE v.profile_id = %(profile_id)s AND v.blob_id = b.id
)
FROM blob AS b
WHERE b.id = ANY(%(ids)s);

-- name: copy_to_dependents
-- Before paths of a snapshot change: those that differ from it keep the files as they are now.
INSERT INTO file (snapshot_id, path, blob_id, size, mtime_ns, ctime_ns, language, extension, kind, name_terms)
SELECT s.id, f.path, f.blob_id, f.size, 0, 0, f.language, f.extension, f.kind, f.name_terms
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = %(snapshot_id)s AND f.path = ANY(%(paths)s)
WHERE s.base_id = %(snapshot_id)s
  AND NOT EXISTS (
      SELECT
      FROM replaced_file AS r
      WHERE r.snapshot_id = s.id AND r.path = f.path
  );

-- name: replace_in_dependents
-- After that: these paths are no longer taken over from the snapshot.
INSERT INTO replaced_file (snapshot_id, path)
SELECT s.id, changed.path
FROM snapshot AS s
CROSS JOIN unnest(%(paths)s::text[]) AS changed (path)
WHERE s.base_id = %(snapshot_id)s
ON CONFLICT DO NOTHING;

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
COPY blob (id, hash, language, generation, chunk_count, text, comments, secrets, encoding, counted_for)
FROM STDIN (FORMAT BINARY);

-- name: copy_chunks
-- The chunks of one batch.
COPY chunk (blob_id, ordinal, start_line, end_line, symbol, kind, terms, lex)
FROM STDIN (FORMAT BINARY);

-- name: copy_vectors
-- The vectors of one batch.
COPY chunk_vector (profile_id, blob_id, ordinal, dense)
FROM STDIN (FORMAT BINARY);

-- name: copy_symbols
-- The definitions of one batch.
COPY symbol (blob_id, name, folded, qualified, kind, start_line, end_line, depth)
FROM STDIN (FORMAT BINARY);

-- name: copy_references
-- The uses of names in one batch.
COPY blob_reference (blob_id, names, uses)
FROM STDIN (FORMAT BINARY);

-- name: add_frequencies
-- Count the terms of new chunks for a repository.
INSERT INTO term_frequency (term, counted_for, chunks)
SELECT term, %(repository_id)s, chunks
FROM unnest(%(terms)s::integer[], %(chunks)s::integer[]) AS added (term, chunks)
ON CONFLICT (term, counted_for) DO UPDATE SET chunks = term_frequency.chunks + excluded.chunks;

-- name: show_blobs
-- Of these texts, or of all, those come into the candidate lists that the snapshot of a repository
-- which answers searches holds now.
UPDATE blob
SET counted_for = %(repository_id)s
WHERE counted_for IS NULL
  AND (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s))
  AND EXISTS (
      SELECT
      FROM file AS f
      JOIN snapshot AS s ON s.id = f.snapshot_id
      WHERE f.blob_id = blob.id AND s.repository_id = %(repository_id)s AND s.active
  )
RETURNING id;

-- name: count_shown
-- Count the terms of texts that came into the candidate lists.
INSERT INTO term_frequency (term, counted_for, chunks)
SELECT term, %(repository_id)s, count(*)
FROM chunk AS c, unnest(ARRAY[-1] || c.terms) AS term
WHERE c.blob_id = ANY(%(ids)s)
GROUP BY term
ON CONFLICT (term, counted_for) DO UPDATE SET chunks = term_frequency.chunks + excluded.chunks;

-- name: hidden_blobs
-- Of these texts, or of all, those that no snapshot which answers searches holds any more.
SELECT id
FROM blob
WHERE counted_for IS NOT NULL AND (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s))
  AND NOT EXISTS (
      SELECT
      FROM file AS f
      JOIN snapshot AS s ON s.id = f.snapshot_id
      WHERE f.blob_id = blob.id AND s.active
  );

-- name: hide_blobs
-- These texts are in no candidate list any more.
UPDATE blob
SET counted_for = NULL
WHERE id = ANY(%(ids)s);

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
-- Take the terms of texts that are about to be hidden, or to go, out of the frequencies.
WITH gone AS (
    SELECT b.counted_for, term, count(*) AS chunks
    FROM blob AS b
    JOIN chunk AS c ON c.blob_id = b.id, unnest(ARRAY[-1] || c.terms) AS term
    WHERE b.id = ANY(%(ids)s) AND b.counted_for IS NOT NULL
    GROUP BY b.counted_for, term
)
UPDATE term_frequency AS t
SET chunks = t.chunks - gone.chunks
FROM gone
WHERE t.term = gone.term AND t.counted_for = gone.counted_for;

-- name: delete_spent_frequencies
-- Terms that no chunk holds any more.
DELETE FROM term_frequency
WHERE chunks <= 0;

-- name: delete_chunks
-- The chunks of blobs that go.
DELETE FROM chunk
WHERE blob_id = ANY(%(ids)s);

-- name: delete_vectors
-- The vectors of blobs that go, of every model.
DELETE FROM chunk_vector
WHERE profile_id = ANY(ARRAY(SELECT id FROM profile)) AND blob_id = ANY(%(ids)s);

-- name: delete_vectors_unused
-- The vectors of texts that only files indexed with another model hold, but for the secondary model's. A
-- text without any file waits for the sweep with all that it has.
DELETE FROM chunk_vector AS v
WHERE v.profile_id NOT IN (SELECT profile_id FROM second_tier)
  AND EXISTS (SELECT FROM file AS f WHERE f.blob_id = v.blob_id)
  AND NOT EXISTS (
      SELECT
      FROM file AS f
      JOIN snapshot AS s ON s.id = f.snapshot_id
      WHERE f.blob_id = v.blob_id AND s.profile_id = v.profile_id
  );

-- name: unused_profiles
-- The profiles that no chunk has a vector of any more.
SELECT id
FROM profile
WHERE NOT EXISTS (SELECT FROM chunk_vector WHERE chunk_vector.profile_id = profile.id);

-- name: recount_blob
-- A text that is cut in another way than it was.
UPDATE blob
SET chunk_count = %(chunks)s
WHERE id = %(id)s;

-- name: delete_symbols
-- The definitions of blobs that go.
DELETE FROM symbol
WHERE blob_id = ANY(%(ids)s);

-- name: delete_references
-- The uses of names in blobs that go.
DELETE FROM blob_reference
WHERE blob_id = ANY(%(ids)s);

-- name: delete_blobs
-- The blobs themselves.
DELETE FROM blob
WHERE id = ANY(%(ids)s);

-- name: flush_terms
-- Work off the lists of pending entries of words and names, so that searches need not read through
-- them.
SELECT gin_clean_pending_list('chunk_terms'), gin_clean_pending_list('blob_reference_names');

-- name: analyze
-- Fresh statistics for the planner, of the columns that it joins and filters by. A table whose
-- index is being built is left out, as it would have to wait.
ANALYZE (SKIP_LOCKED) file, blob (id, released_at, counted_for), chunk (blob_id, ordinal), chunk_vector (profile_id, blob_id, ordinal, added), symbol (blob_id, folded), blob_reference (blob_id, names);
