-- name: history
-- What the newest commits touched, the newest first, but for those with very many paths.
SELECT c.paths
FROM commit_entry AS c
WHERE c.repository_id = %(repository_id)s AND NOT c.is_merge AND c.branches = '{}'
  AND c.paths_total <= %(max_paths)s
  AND c.hash NOT IN (SELECT decode(e.hash, 'hex') FROM unnest(%(excluded)s::text[]) AS e (hash))
ORDER BY c.position DESC
LIMIT %(max_commits)s;

-- name: candidates
-- The files of the index that a change may concern: those that the history names, and those in some
-- folders or of some names.
SELECT f.path, f.kind
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
WHERE s.repository_id = %(repository_id)s AND s.active
  AND (
      f.path = ANY(%(known)s::text[])
      OR regexp_replace(f.path, '[^/]*$', '') = ANY(%(folders)s::text[])
      OR lower(split_part(regexp_replace(f.path, '^.*/', ''), '.', 1)) = ANY(%(names)s::text[])
  )
LIMIT %(max_candidates)s;

-- name: busiest
-- The changed path that most commits of the stored history touched, how many did, and how many
-- commits there are.
SELECT coalesce(b.path, ''), coalesce(b.touched, 0),
       (SELECT count(*) FROM commit_entry AS h WHERE h.repository_id = %(repository_id)s AND NOT h.is_merge
          AND h.branches = '{}')
FROM (VALUES (1)) AS one
LEFT JOIN (
    SELECT p.path, count(*) AS touched
    FROM commit_entry AS c
    CROSS JOIN LATERAL unnest(c.paths) AS p (path)
    JOIN (SELECT DISTINCT w.path FROM unnest(%(paths)s::text[]) AS w (path)) AS w ON w.path = p.path
    WHERE c.repository_id = %(repository_id)s AND NOT c.is_merge AND c.branches = '{}'
      AND c.hash NOT IN (SELECT decode(e.hash, 'hex') FROM unnest(%(excluded)s::text[]) AS e (hash))
    GROUP BY p.path
    ORDER BY count(*) DESC, p.path
    LIMIT 1
) AS b ON true;

-- name: snapshots
-- The snapshot that answers for a repository.
SELECT ARRAY(SELECT id FROM snapshot WHERE repository_id = %(repository_id)s AND active);
