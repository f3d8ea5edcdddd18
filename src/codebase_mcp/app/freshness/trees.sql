-- name: trees
-- The repositories of a project and the snapshot of each that answers searches.
SELECT r.id, r.root, s.id, s.generation, s.files_pending, s.indexed_at IS NOT NULL, r.selected_by, r.ignore_patterns,
       coalesce(run.status = 'cancelled', false), p.id, p.fingerprint, p.model, p.dimension,
       p.provider, p.source, p.query_prefix, p.passage_prefix, p.slope, p.shift
FROM repository AS r
JOIN snapshot AS s ON s.repository_id = r.id AND s.active
JOIN profile AS p ON p.id = s.profile_id
LEFT JOIN index_run AS run ON run.repository_id = r.id
ORDER BY r.root;

-- name: stored
-- What one snapshot holds.
SELECT path, blob_id, size, mtime_ns, ctime_ns, language, kind
FROM file
WHERE snapshot_id = %(snapshot_id)s;

-- name: is_known
-- A row if a repository is still there.
SELECT true
FROM repository
WHERE root = %(root)s;
