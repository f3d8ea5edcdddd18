-- name: stored
-- How much of a repository's history is kept, and what HEAD was when it was read.
SELECT r.history_depth, r.history_tip,
       (SELECT count(*) FROM commit_entry AS c WHERE c.repository_id = r.id)
FROM repository AS r
WHERE r.id = %(repository_id)s;

-- name: histories
-- Every repository, and how many of its commits are kept.
SELECT id, root, name, history_depth
FROM repository
ORDER BY root;

-- name: known
-- The commits that are kept, where they stand, and which branches have those that HEAD lacks.
SELECT encode(hash, 'hex'), position, branches
FROM commit_entry
WHERE repository_id = %(repository_id)s;

-- name: forget_uncertain
-- Forget the commits whose paths could not be known, as by now they may be, and those that an
-- earlier version read without lines.
DELETE FROM commit_entry
WHERE repository_id = %(repository_id)s AND (paths_total IS NULL OR path_added IS NULL);

-- name: add
-- Commits that were read.
INSERT INTO commit_entry (
    repository_id, hash, position, author_name, author_email, authored_at, message, paths,
    path_added, path_removed, path_former, paths_total, lines_added, lines_removed, is_merge
)
SELECT %(repository_id)s, decode(c.hash, 'hex'), c.position, c.author_name, c.author_email,
       to_timestamp(c.authored_at), c.message, c.paths, c.path_added, c.path_removed,
       c.path_former, c.paths_total, c.lines_added, c.lines_removed, c.is_merge
FROM json_to_recordset(%(commits)s::text::json) AS c (
    hash text, position integer, author_name text, author_email text,
    authored_at double precision, message text, paths text[], path_added integer[],
    path_removed integer[], path_former text[], paths_total integer, lines_added integer,
    lines_removed integer, is_merge boolean
);

-- name: forget
-- Forget commits that are no longer among the newest.
DELETE FROM commit_entry
WHERE repository_id = %(repository_id)s
  AND hash IN (SELECT decode(g.hash, 'hex') FROM unnest(%(hashes)s::text[]) AS g (hash));

-- name: move
-- Give commits other places.
UPDATE commit_entry AS c
SET position = m.position
FROM unnest(%(hashes)s::text[], %(positions)s::integer[]) AS m (hash, position)
WHERE c.repository_id = %(repository_id)s AND c.hash = decode(m.hash, 'hex');

-- name: name_branches
-- Store which branches reach commits that HEAD does not reach.
UPDATE commit_entry AS c
SET branches = b.branches
FROM json_to_recordset(%(commits)s::text::json) AS b (hash text, branches text[])
WHERE c.repository_id = %(repository_id)s AND c.hash = decode(b.hash, 'hex');

-- name: end
-- What is kept from now on.
UPDATE repository
SET history_depth = %(depth)s, history_tip = %(tip)s
WHERE id = %(repository_id)s;
