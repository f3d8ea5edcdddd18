-- name: changed_together
-- For each changed path, the files of the index that the same commits touched. Of a path that very
-- many commits touched the newest count; commits with very many paths say little about any of them.
-- A path was touched as often as together with itself, which is more often than with any other.
WITH wanted AS MATERIALIZED (
    SELECT DISTINCT w.path
    FROM unnest(%(paths)s::text[]) AS w (path)
),
touching AS MATERIALIZED (
    SELECT c.paths
    FROM commit_entry AS c
    WHERE c.repository_id = %(repository_id)s AND NOT c.is_merge AND c.branches = '{}'
      AND c.paths_total <= %(max_paths)s
      AND EXISTS (SELECT FROM unnest(c.paths) AS p (path) WHERE p.path IN (SELECT path FROM wanted))
      AND c.hash NOT IN (SELECT decode(e.hash, 'hex') FROM unnest(%(excluded)s::text[]) AS e (hash))
    ORDER BY c.position DESC
    LIMIT %(max_commits)s
),
pair AS MATERIALIZED (
    SELECT changed.path AS changed, other.path AS other, count(*) AS support,
           max(count(*)) OVER (PARTITION BY changed.path) AS commits
    FROM touching AS t
    CROSS JOIN LATERAL unnest(t.paths) AS changed (path)
    JOIN wanted AS w ON w.path = changed.path
    CROSS JOIN LATERAL unnest(t.paths) AS other (path)
    GROUP BY changed.path, other.path
),
frequent AS MATERIALIZED (
    SELECT p.changed, p.other, p.support, p.commits
    FROM pair AS p
    WHERE p.support >= %(min_support)s
      AND p.support >= %(min_confidence)s * p.commits
      AND p.other NOT IN (SELECT w.path FROM wanted AS w)
)
SELECT p.changed, p.other, p.support, p.commits, f.kind
FROM frequent AS p
JOIN snapshot AS s ON s.repository_id = %(repository_id)s AND s.active
JOIN file AS f ON f.snapshot_id = s.id AND f.path = p.other
ORDER BY p.support::float / p.commits DESC, p.support DESC, p.other, p.changed
LIMIT %(max_pairs)s;

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
SELECT f.path
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
