-- name: changed_together
-- For each changed path, the files of the index that the same commits touched. Of a path that very
-- many commits touched the newest count; commits with very many paths say little about any of them.
WITH touching AS (
    SELECT c.paths
    FROM commit_entry AS c
    WHERE c.repository_id = %(repository_id)s
      AND c.paths && %(paths)s::text[]
      AND c.paths_total <= %(max_paths)s
      AND c.hash NOT IN (SELECT decode(e.hash, 'hex') FROM unnest(%(excluded)s::text[]) AS e (hash))
    ORDER BY c.position DESC
    LIMIT %(max_commits)s
),
pair AS (
    SELECT changed.path AS changed, other.path AS other, count(*) AS support
    FROM touching AS t
    CROSS JOIN LATERAL unnest(t.paths) AS changed (path)
    CROSS JOIN LATERAL unnest(t.paths) AS other (path)
    WHERE changed.path = ANY (%(paths)s::text[])
    GROUP BY changed.path, other.path
)
SELECT p.changed, p.other, p.support, total.support, f.kind
FROM pair AS p
JOIN pair AS total ON total.changed = p.changed AND total.other = p.changed
JOIN snapshot AS s ON s.repository_id = %(repository_id)s AND s.active
JOIN file AS f ON f.snapshot_id = s.id AND f.path = p.other
WHERE p.other <> ALL (%(paths)s::text[])
  AND p.support >= %(min_support)s
  AND p.support >= %(min_confidence)s * total.support
ORDER BY p.support::float / total.support DESC, p.support DESC, p.other, p.changed
LIMIT %(max_pairs)s;

-- name: touched
-- How many commits of the stored history touched each changed path, and how many there are.
SELECT changed.path, count(c.hash),
       (SELECT count(*) FROM commit_entry AS h WHERE h.repository_id = %(repository_id)s)
FROM unnest(%(paths)s::text[]) AS changed (path)
LEFT JOIN commit_entry AS c
  ON c.repository_id = %(repository_id)s
 AND c.paths @> ARRAY[changed.path]
 AND c.hash NOT IN (SELECT decode(e.hash, 'hex') FROM unnest(%(excluded)s::text[]) AS e (hash))
GROUP BY changed.path
ORDER BY count(c.hash) DESC, changed.path;
