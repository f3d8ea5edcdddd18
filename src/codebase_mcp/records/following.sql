-- name: lock_anchors
-- Lock out other refreshes of the project, and callers that set anchors.
SELECT pg_advisory_xact_lock(hashtextextended('anchors ' || current_schema(), 0));

-- name: snapshot
-- The active snapshot of a repository, and the files that could not be indexed.
SELECT id, failures::text
FROM snapshot
WHERE repository_id = %(repository_id)s AND view = %(view)s AND active;

-- name: affected
-- The anchors whose file is gone, or has changed since they were last checked. If anything changed,
-- also those that were missing, and those without a repository. The latter are assigned to this
-- repository if their repository had the same root.
SELECT a.id, coalesce(a.repository_id, r.id), a.file, a.symbol, a.commit, a.start_line, a.end_line,
       a.state, a.reason, a.moved_from, a.hash, a.blob_id, a.is_missing, f.blob_id, b.hash
FROM anchor AS a
LEFT JOIN repository AS r ON r.id = %(repository_id)s AND r.root = a.root
LEFT JOIN file AS f ON f.path = a.file AND f.snapshot_id = (
    SELECT s.id
    FROM snapshot AS s
    WHERE s.repository_id = %(repository_id)s AND s.view = %(view)s AND s.active
)
LEFT JOIN blob AS b ON b.id = f.blob_id
WHERE (a.file IS NOT NULL OR a.symbol IS NOT NULL)
  AND (a.repository_id = %(repository_id)s OR a.repository_id IS NULL)
  AND CASE
      WHEN a.repository_id IS NULL
          THEN %(is_changed)s AND (a.file IS NULL OR f.path IS NOT NULL)
      WHEN a.is_missing
          THEN %(is_changed)s
      ELSE f.blob_id IS NULL OR f.blob_id IS DISTINCT FROM a.blob_id
  END
ORDER BY a.id
FOR UPDATE OF a;

-- name: mark_unindexed
-- Mark the anchors of a repository that is no longer indexed. Their last text is cleared, so that
-- they are checked if the repository is indexed again.
UPDATE anchor
SET state = 'needs_review',
    reason = 'the repository is not indexed any more',
    start_line = NULL,
    end_line = NULL,
    blob_id = NULL,
    is_missing = true,
    checked_at = statement_timestamp()
WHERE id IN (
    SELECT id
    FROM anchor
    WHERE repository_id = %(repository_id)s AND (file IS NOT NULL OR symbol IS NOT NULL)
    ORDER BY id
    FOR UPDATE
);

-- name: blob_hashes
-- The hashes of texts; a text without a file is kept for some time.
SELECT id, hash
FROM blob
WHERE id = ANY(%(blobs)s::bigint[]);

-- name: files_of_texts
-- The files of a snapshot with one of these texts, except empty ones, which are all alike.
SELECT f.path, f.blob_id, b.hash
FROM file AS f
JOIN blob AS b ON b.id = f.blob_id
WHERE f.snapshot_id = %(snapshot_id)s
  AND f.size > 0
  AND b.hash IN (
      SELECT old.hash
      FROM blob AS old
      WHERE old.id = ANY(%(blobs)s::bigint[])
      UNION ALL
      SELECT unnest(%(hashes)s::bytea[])
  );

-- name: new_files
-- Files of a snapshot by their paths.
SELECT f.path, f.blob_id, b.hash
FROM file AS f
JOIN blob AS b ON b.id = f.blob_id
WHERE f.snapshot_id = %(snapshot_id)s AND f.path = ANY(%(paths)s::text[]);

-- name: defined_names
-- The names that texts define.
SELECT blob_id, array_agg(DISTINCT folded)
FROM symbol
WHERE blob_id = ANY(%(blobs)s::bigint[])
GROUP BY blob_id;

-- name: texts
-- The contents of texts.
SELECT id, text
FROM blob
WHERE id = ANY(%(blobs)s::bigint[]);

-- name: outlines
-- The definitions of texts.
SELECT blob_id, name, qualified, start_line, end_line
FROM symbol
WHERE blob_id = ANY(%(blobs)s::bigint[])
ORDER BY blob_id, start_line, end_line;

-- name: namesakes
-- Definitions of a symbol's qualified name anywhere in a snapshot, and of its last part in the
-- files that changed; a few for each symbol.
SELECT w.symbol, d.path, d.blob_id, d.qualified
FROM unnest(%(symbols)s::text[], %(names)s::text[], %(folded)s::text[])
    AS w (symbol, name, folded)
CROSS JOIN LATERAL (
    SELECT DISTINCT d.qualified = w.symbol AS has_name, f.path = ANY(%(written)s::text[])
               AS is_written,
           f.path, f.blob_id, d.qualified
    FROM symbol AS d
    JOIN file AS f ON f.blob_id = d.blob_id AND f.snapshot_id = %(snapshot_id)s
    WHERE d.folded = w.folded
      AND d.name = w.name
      AND (d.qualified = w.symbol OR f.path = ANY(%(written)s::text[]))
    ORDER BY has_name DESC, is_written DESC, f.path, d.qualified
    LIMIT %(limit)s
) AS d;

-- name: update_anchors
-- Store the new places and states of anchors.
UPDATE anchor AS a
SET repository_id = n.repository_id,
    root = coalesce((SELECT r.root FROM repository AS r WHERE r.id = n.repository_id), a.root),
    file = n.file,
    symbol = n.symbol,
    start_line = n.start_line,
    end_line = n.end_line,
    hash = n.hash,
    blob_id = n.blob_id,
    is_missing = n.is_missing,
    state = n.state,
    reason = n.reason,
    moved_from = n.moved_from,
    checked_at = statement_timestamp()
FROM unnest(%(id)s::uuid[], %(repository_id)s::uuid[], %(file)s::text[], %(symbol)s::text[],
            %(start_line)s::integer[], %(end_line)s::integer[], %(hash)s::bytea[],
            %(blob_id)s::bigint[], %(is_missing)s::boolean[], %(state)s::text[],
            %(reason)s::text[], %(moved_from)s::text[])
    AS n (id, repository_id, file, symbol, start_line, end_line, hash, blob_id, is_missing, state,
          reason, moved_from)
WHERE a.id = n.id;
