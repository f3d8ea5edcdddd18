-- fragment: passes_filters
-- Whether a commit e passes the filters.
(%(only)s::uuid[] IS NULL OR e.repository_id = ANY(%(only)s))
AND (%(since)s::timestamptz IS NULL OR e.authored_at >= %(since)s)
AND (%(until)s::timestamptz IS NULL OR e.authored_at < %(until)s)
AND (%(author)s::text IS NULL
     OR strpos(lower(e.author_name || ' <' || e.author_email || '>'), lower(%(author)s)) > 0)
AND (%(path)s::text IS NULL OR EXISTS (
    SELECT
    FROM unnest(e.paths) AS path
    WHERE path = %(path)s OR starts_with(path, %(path)s || '/')
))

-- name: prepare
-- For this transaction: plans that know their parameters.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: frequencies
-- How many commits there are, and in how many of them each term occurs.
SELECT term, (SELECT count(*) FROM commit_text WHERE terms @> ARRAY[term])
FROM unnest(%(terms)s::integer[]) AS asked (term)
UNION ALL
SELECT %(all)s, (SELECT count(*) FROM commit_text);

-- name: matches
-- The best commits by words and the nearest in meaning, of those that pass the filters: where each is
-- stored, its score by words, how near in meaning it is, and how many were compared. A commit that
-- several repositories have counts once.
WITH scored AS (
    SELECT t.hash,
           min(t.repository_id::text)::uuid AS repository_id,
           max(-(t.lex <#> %(query)s::sparsevec)) AS words,
           max(-((t.subject <#> %(vector)s::halfvec) + (t.dense <#> %(vector)s::halfvec)) / 2)
               AS nearness
    FROM commit_text AS t
    JOIN commit_entry AS e ON e.repository_id = t.repository_id AND e.hash = t.hash
    WHERE t.model = %(model)s
      AND {passes_filters}
    GROUP BY t.hash
), best AS (
    (SELECT * FROM scored ORDER BY words DESC LIMIT %(by_words)s)
    UNION
    (SELECT * FROM scored ORDER BY nearness DESC LIMIT %(by_meaning)s)
)
SELECT repository_id, hash, words, nearness, (SELECT count(*) FROM scored)
FROM best;

-- name: newest
-- The newest commits that pass the filters; of a path, as git does, without the merges of what others
-- changed.
SELECT DISTINCT ON (e.authored_at, e.hash) e.repository_id, e.hash
FROM commit_entry AS e
WHERE {passes_filters}
  AND (%(path)s::text IS NULL OR NOT e.is_merge)
ORDER BY e.authored_at DESC, e.hash, e.repository_id
LIMIT %(limit)s;

-- name: commits
-- Some commits as they are stored.
SELECT e.repository_id, e.hash, e.author_name, e.author_email, e.authored_at, e.message,
       e.paths, e.path_added, e.path_removed, e.path_former, e.paths_total, e.lines_added,
       e.lines_removed, e.is_merge, e.branches
FROM unnest(%(repository_ids)s::uuid[], %(hashes)s::bytea[]) AS wanted (repository_id, hash)
JOIN commit_entry AS e ON e.repository_id = wanted.repository_id AND e.hash = wanted.hash;

-- name: newest_of_path
-- The newest commit of HEAD that touched each of these paths; a merge only passes on what others did.
SELECT wanted.place, found.hash, found.author_name, found.authored_at, found.message
FROM unnest(%(repository_ids)s::uuid[], %(paths)s::text[]) WITH ORDINALITY
    AS wanted (repository_id, path, place)
CROSS JOIN LATERAL (
    SELECT e.hash, e.author_name, e.authored_at, e.message
    FROM commit_entry AS e
    WHERE e.repository_id = wanted.repository_id AND e.paths @> ARRAY[wanted.path]
      AND NOT e.is_merge AND e.branches = '{}'
    ORDER BY e.position DESC
    LIMIT 1
) AS found;
