-- name: active
-- The snapshot of the working tree, whose model and generation the snapshots of commits share.
SELECT s.id, s.generation, s.classifier, s.indexed_at IS NOT NULL AND s.files_pending = 0,
       p.id, p.fingerprint, p.model, p.dimension, p.provider, p.source, p.query_prefix,
       p.passage_prefix, p.slope, p.shift
FROM snapshot AS s
JOIN profile AS p ON p.id = s.profile_id
WHERE s.repository_id = %(repository_id)s AND s.active;

-- name: commit_snapshot
-- The snapshot of a commit, and whether it is complete.
SELECT id, base_id, indexed_at IS NOT NULL, classifier
FROM snapshot
WHERE repository_id = %(repository_id)s AND view = %(view)s;

-- name: possible_bases
-- Complete snapshots that have no base themselves: of commits the newest ones, then that of the working
-- tree, unless many differ from it already, as each of them is written to when a file changes.
(
    SELECT id
    FROM snapshot
    WHERE repository_id = %(repository_id)s AND view <> 'worktree' AND base_id IS NULL
      AND generation = %(generation)s AND profile_id = %(profile_id)s AND classifier = %(classifier)s
      AND indexed_at IS NOT NULL
    ORDER BY id DESC
    LIMIT %(most)s
)
UNION ALL
SELECT id
FROM snapshot AS s
WHERE repository_id = %(repository_id)s AND active AND classifier = %(classifier)s
  AND indexed_at IS NOT NULL AND files_pending = 0
  AND (SELECT count(*) FROM snapshot AS dependent WHERE dependent.base_id = s.id) < %(most_dependents)s;

-- name: hashes
-- The hash of each file's content in one snapshot, without what it takes over from a base: of all
-- files, or of some and of all attribute files.
SELECT f.path, encode(b.hash, 'hex')
FROM file AS f
JOIN blob AS b ON b.id = f.blob_id
WHERE f.snapshot_id = %(id)s
  AND (%(paths)s::text[] IS NULL OR f.path = ANY(%(paths)s) OR f.path LIKE '%%.gitattributes');

-- name: inherited_hashes
-- The same of what a snapshot takes over from its base.
SELECT f.path, encode(b.hash, 'hex')
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.base_id
JOIN blob AS b ON b.id = f.blob_id
WHERE s.id = %(id)s
  AND NOT EXISTS (
      SELECT FROM replaced_file AS r WHERE r.snapshot_id = s.id AND r.path = f.path
  );

-- name: create
-- A new, empty snapshot of a commit.
INSERT INTO snapshot (repository_id, view, generation, profile_id, active, classifier, base_id)
VALUES (%(repository_id)s, %(view)s, %(generation)s, %(profile_id)s, false, %(classifier)s, %(base_id)s)
RETURNING id;

-- name: drop
-- A snapshot that another version of the classifier made.
DELETE FROM snapshot
WHERE id = %(id)s;

-- name: copy_rows
-- The same files as in another snapshot.
INSERT INTO file (snapshot_id, path, blob_id, size, mtime_ns, ctime_ns, language, extension, kind, name_terms)
SELECT %(id)s, path, blob_id, size, 0, 0, language, extension, kind, name_terms
FROM file
WHERE snapshot_id = %(source)s AND path = ANY(%(paths)s::text[])
ON CONFLICT DO NOTHING;

-- name: replace_rows
-- The paths that a snapshot does not take over from its base.
INSERT INTO replaced_file (snapshot_id, path)
SELECT %(id)s, unnest(%(paths)s::text[])
ON CONFLICT DO NOTHING;

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
    used_at = excluded.used_at;

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
