-- name: renew_versions
-- Copies of the repository's snapshots in memory are out of date.
UPDATE snapshot
SET version = %(version)s
WHERE repository_id = %(repository_id)s;

-- name: paths
-- The files that are meant, in every snapshot.
SELECT DISTINCT f.path
FROM file AS f
JOIN snapshot AS s ON s.id = f.snapshot_id
WHERE s.repository_id = %(repository_id)s
  AND (%(is_whole)s OR f.path = ANY(%(paths)s::text[]) OR EXISTS (
      SELECT FROM unnest(%(directories)s::text[]) AS w (folder) WHERE starts_with(f.path, w.folder)
  ))
ORDER BY f.path;

-- name: blobs
-- The texts that no other file shows.
SELECT b.id
FROM blob AS b
WHERE NOT EXISTS (
    SELECT
    FROM file AS f
    JOIN snapshot AS s ON s.id = f.snapshot_id
    WHERE f.blob_id = b.id
      AND NOT (s.repository_id = %(repository_id)s
               AND (%(is_whole)s OR f.path = ANY(%(paths)s::text[]) OR EXISTS (
                   SELECT
                   FROM unnest(%(directories)s::text[]) AS w (folder)
                   WHERE starts_with(f.path, w.folder)
               )))
);

-- name: shared
-- Other files that show a text of those that are meant.
SELECT DISTINCT r.root || '/' || other.path
FROM file AS f
JOIN snapshot AS s ON s.id = f.snapshot_id
JOIN file AS other ON other.blob_id = f.blob_id
JOIN snapshot AS o ON o.id = other.snapshot_id
JOIN repository AS r ON r.id = o.repository_id
WHERE s.repository_id = %(repository_id)s
  AND (%(is_whole)s OR f.path = ANY(%(paths)s::text[]) OR EXISTS (
      SELECT FROM unnest(%(directories)s::text[]) AS w (folder) WHERE starts_with(f.path, w.folder)
  ))
  AND NOT (o.repository_id = %(repository_id)s
           AND (%(is_whole)s OR other.path = ANY(%(paths)s::text[]) OR EXISTS (
               SELECT
               FROM unnest(%(directories)s::text[]) AS w (folder)
               WHERE starts_with(other.path, w.folder)
           )))
ORDER BY 1;

-- name: terms
-- The terms that only these texts hold.
SELECT t.term
FROM (
    SELECT term, count(*) AS chunks
    FROM blob AS b
    JOIN chunk AS c ON c.blob_id = b.id, unnest(c.terms) AS term
    WHERE b.id = ANY(%(blobs)s::bigint[]) AND b.counted_for IS NOT NULL
    GROUP BY term
) AS here
JOIN term_frequency AS t ON t.term = here.term
GROUP BY t.term, here.chunks
HAVING sum(t.chunks) <= here.chunks;

-- name: delete_files
-- The files that are meant go from every snapshot.
DELETE FROM file AS f
USING snapshot AS s
WHERE s.id = f.snapshot_id AND s.repository_id = %(repository_id)s
  AND (f.path = ANY(%(paths)s::text[]) OR EXISTS (
      SELECT FROM unnest(%(directories)s::text[]) AS w (folder) WHERE starts_with(f.path, w.folder)
  ));

-- name: delete_replaced
-- Nor does a commit's snapshot name them among those that it does not take over from its base.
DELETE FROM replaced_file AS f
USING snapshot AS s
WHERE s.id = f.snapshot_id AND s.repository_id = %(repository_id)s
  AND (f.path = ANY(%(paths)s::text[]) OR EXISTS (
      SELECT FROM unnest(%(directories)s::text[]) AS w (folder) WHERE starts_with(f.path, w.folder)
  ));

-- name: forget_failures
-- Nor does a snapshot name them among the files that could not be indexed.
UPDATE snapshot
SET failures = coalesce((
        SELECT jsonb_agg(old.failure)
        FROM jsonb_array_elements(failures) AS old (failure)
        WHERE old.failure ->> 0 <> ALL(%(paths)s::text[])
          AND NOT EXISTS (
              SELECT
              FROM unnest(%(directories)s::text[]) AS w (folder)
              WHERE starts_with(old.failure ->> 0, w.folder)
          )
    ), '[]')
WHERE repository_id = %(repository_id)s;

-- name: forget_commit_texts
-- Nor what the commits that touched them are found by: it is made anew, without them.
DELETE FROM commit_text AS t
USING commit_entry AS c
WHERE c.repository_id = %(repository_id)s AND t.repository_id = c.repository_id AND t.hash = c.hash
  AND (c.paths && %(paths)s::text[] OR EXISTS (
      SELECT
      FROM unnest(c.paths) AS path, unnest(%(directories)s::text[]) AS w (folder)
      WHERE starts_with(path, w.folder)
  ));

-- name: forget_paths
-- Nor a commit among the files that it touched, nor as the one that a file was renamed from.
UPDATE commit_entry AS c
SET (paths, path_added, path_removed, path_former) = (
        SELECT coalesce(array_agg(p.path ORDER BY p.place), '{}'),
               coalesce(array_agg(p.added ORDER BY p.place), '{}'),
               coalesce(array_agg(p.removed ORDER BY p.place), '{}'),
               coalesce(
                   array_agg(
                       CASE
                           WHEN p.former <> ALL(%(paths)s::text[]) AND NOT EXISTS (
                               SELECT
                               FROM unnest(%(directories)s::text[]) AS w (folder)
                               WHERE starts_with(p.former, w.folder)
                           ) THEN p.former
                       END
                       ORDER BY p.place
                   ),
                   '{}'
               )
        FROM unnest(c.paths, c.path_added, c.path_removed, c.path_former)
            WITH ORDINALITY AS p (path, added, removed, former, place)
        WHERE p.path <> ALL(%(paths)s::text[])
          AND NOT EXISTS (
              SELECT
              FROM unnest(%(directories)s::text[]) AS w (folder)
              WHERE starts_with(p.path, w.folder)
          )
    )
WHERE repository_id = %(repository_id)s;

-- name: forget_errors
-- Nor the last run among its errors, nor as the file that it was at.
UPDATE index_run
SET errors = '[]', current_file = NULL
WHERE repository_id = %(repository_id)s;

-- name: count_repository
-- The repository.
SELECT count(*)
FROM repository
WHERE %(is_whole)s AND id = %(repository_id)s;

-- name: count_snapshot
-- Its snapshots, or those that name a file among their failures.
SELECT count(*)
FROM snapshot AS s
WHERE s.repository_id = %(repository_id)s
  AND (%(is_whole)s OR EXISTS (
      SELECT
      FROM jsonb_array_elements(s.failures) AS old (failure)
      WHERE old.failure ->> 0 = ANY(%(paths)s::text[]) OR EXISTS (
          SELECT
          FROM unnest(%(directories)s::text[]) AS w (folder)
          WHERE starts_with(old.failure ->> 0, w.folder)
      )
  ));

-- name: count_file
-- The files, in every snapshot.
SELECT count(*)
FROM file AS f
JOIN snapshot AS s ON s.id = f.snapshot_id
WHERE s.repository_id = %(repository_id)s
  AND (%(is_whole)s OR f.path = ANY(%(paths)s::text[]) OR EXISTS (
      SELECT FROM unnest(%(directories)s::text[]) AS w (folder) WHERE starts_with(f.path, w.folder)
  ));

-- name: count_blob
-- The texts.
SELECT count(*)
FROM blob
WHERE id = ANY(%(blobs)s::bigint[]);

-- name: count_chunk
-- Their chunks.
SELECT count(*)
FROM chunk
WHERE blob_id = ANY(%(blobs)s::bigint[]);

-- name: count_chunk_vector
-- Their vectors, of every model.
SELECT count(*)
FROM chunk_vector
WHERE profile_id = ANY(ARRAY(SELECT id FROM profile)) AND blob_id = ANY(%(blobs)s::bigint[]);

-- name: count_symbol
-- Their definitions.
SELECT count(*)
FROM symbol
WHERE blob_id = ANY(%(blobs)s::bigint[]);

-- name: count_blob_reference
-- Their uses of names.
SELECT count(*)
FROM blob_reference
WHERE blob_id = ANY(%(blobs)s::bigint[]);

-- name: count_term_frequency
-- The terms that only they held.
SELECT count(*)
FROM term_frequency
WHERE term = ANY(%(terms)s::integer[]);

-- name: count_index_run
-- What is known of the newest run, where it names a file or is all of the repository's.
SELECT count(*)
FROM index_run
WHERE repository_id = %(repository_id)s
  AND (%(is_whole)s OR current_file IS NOT NULL OR errors <> '[]');

-- name: count_commit_entry
-- The commits, or those that touched the files.
SELECT count(*)
FROM commit_entry AS c
WHERE c.repository_id = %(repository_id)s
  AND (%(is_whole)s OR c.paths && %(paths)s::text[] OR EXISTS (
      SELECT
      FROM unnest(c.paths) AS path, unnest(%(directories)s::text[]) AS w (folder)
      WHERE starts_with(path, w.folder)
  ));

-- name: count_commit_text
-- What these are found by.
SELECT count(*)
FROM commit_text AS t
JOIN commit_entry AS c ON c.repository_id = t.repository_id AND c.hash = t.hash
WHERE c.repository_id = %(repository_id)s
  AND (%(is_whole)s OR c.paths && %(paths)s::text[] OR EXISTS (
      SELECT
      FROM unnest(c.paths) AS path, unnest(%(directories)s::text[]) AS w (folder)
      WHERE starts_with(path, w.folder)
  ));
