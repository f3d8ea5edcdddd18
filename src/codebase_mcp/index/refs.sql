-- name: commit
-- The snapshot of a commit.
SELECT id, indexed_at IS NOT NULL
FROM snapshot
WHERE repository_id = %(repository_id)s AND view = %(commit)s;

-- name: refs
-- By which names commits of a repository were asked for.
SELECT name, commit_hash
FROM git_ref
WHERE repository_id = %(repository_id)s
ORDER BY used_at DESC, name;

-- name: remember
-- By this name the commit is asked for.
INSERT INTO git_ref (repository_id, name, commit_hash, is_kept)
VALUES (%(repository_id)s, %(name)s, %(commit)s, %(is_kept)s)
ON CONFLICT (repository_id, name) DO UPDATE
SET commit_hash = excluded.commit_hash,
    is_kept = git_ref.is_kept OR excluded.is_kept,
    used_at = now();

-- name: keep_only
-- Which of the branches that are kept still are.
UPDATE git_ref
SET is_kept = false
WHERE repository_id = %(repository_id)s AND is_kept AND name <> ALL(%(kept)s::text[]);

-- name: forget
-- Forget names: those that no longer lead to a commit, and of those that are not kept the least
-- recently used.
DELETE FROM git_ref AS old
WHERE old.repository_id = %(repository_id)s
  AND (old.name = ANY(%(gone)s::text[])
       OR old.name IN (
           SELECT name
           FROM git_ref
           WHERE repository_id = %(repository_id)s AND NOT is_kept
           ORDER BY used_at DESC, name
           OFFSET %(most)s
       ));

-- name: drop_unnamed
-- Drop the snapshots of commits that no name leads to, unless another one differs from them.
DELETE FROM snapshot AS s
WHERE s.repository_id = %(repository_id)s AND s.view <> 'worktree'
  AND NOT EXISTS (
      SELECT FROM git_ref AS r WHERE r.repository_id = s.repository_id AND r.commit_hash = s.view
  )
  AND NOT EXISTS (SELECT FROM snapshot AS other WHERE other.base_id = s.id);
