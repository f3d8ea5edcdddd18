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

-- name: missing
-- Some commits without what they are found by, or with what another model made.
SELECT e.repository_id, e.hash, e.message, e.paths
FROM commit_entry AS e
LEFT JOIN commit_text AS t ON t.repository_id = e.repository_id AND t.hash = e.hash
WHERE t.model IS DISTINCT FROM %(model)s
ORDER BY e.repository_id, e.hash
LIMIT %(limit)s;

-- name: mask
-- Messages whose secrets are masked now.
UPDATE commit_entry AS e
SET message = masked.message
FROM unnest(%(repository_ids)s::uuid[], %(hashes)s::bytea[], %(messages)s::text[])
    AS masked (repository_id, hash, message)
WHERE e.repository_id = masked.repository_id AND e.hash = masked.hash
    AND e.message <> masked.message;

-- name: store
-- What commits are found by; of those that are still there. A cast of text to an array is not immutable,
-- and Citus cannot run such a statement.
INSERT INTO commit_text (repository_id, hash, model, terms, lex, subject, dense)
SELECT e.repository_id, e.hash, %(model)s,
       string_to_array(btrim(made.terms, '{}'), ',')::integer[],
       made.lex::sparsevec, made.subject::halfvec, made.dense::halfvec
FROM unnest(%(repository_ids)s::uuid[], %(hashes)s::bytea[], %(terms)s::text[], %(lex)s::text[],
            %(subjects)s::text[], %(dense)s::text[])
    AS made (repository_id, hash, terms, lex, subject, dense)
JOIN commit_entry AS e ON e.repository_id = made.repository_id AND e.hash = made.hash
ORDER BY e.repository_id, e.hash
ON CONFLICT (repository_id, hash) DO UPDATE
SET model = excluded.model, terms = excluded.terms, lex = excluded.lex,
    subject = excluded.subject, dense = excluded.dense;
