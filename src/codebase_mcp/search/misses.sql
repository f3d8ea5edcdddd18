-- name: file_names
-- Which of these words are in the name of any file.
SELECT asked.term
FROM unnest(%(terms)s::integer[]) AS asked (term)
WHERE EXISTS (
    SELECT
    FROM file AS f
    WHERE f.name_terms @> ARRAY[asked.term] AND f.snapshot_id = ANY(%(snapshots)s::bigint[])
);

-- name: filtered_files
-- How many files there are, how many pass each filter, and how many pass all of them.
SELECT count(*),
       count(*) FILTER (WHERE asked.repository),
       count(*) FILTER (WHERE asked.extension),
       count(*) FILTER (WHERE asked.language),
       count(*) FILTER (WHERE asked.kind),
       count(*) FILTER (WHERE asked.directory),
       count(*) FILTER (
           WHERE asked.repository AND asked.extension AND asked.language AND asked.kind
               AND asked.directory
       )
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
CROSS JOIN LATERAL (
    SELECT %(repository_id)s::uuid IS NULL OR s.repository_id = %(repository_id)s AS repository,
           %(extensions)s::text[] IS NULL OR f.extension = ANY(%(extensions)s) AS extension,
           %(languages)s::text[] IS NULL OR f.language = ANY(%(languages)s) AS language,
           %(kinds)s::text[] IS NULL OR f.kind = ANY(%(kinds)s) AS kind,
           %(directory)s::text IS NULL OR f.path ~ %(directory)s AS directory
) AS asked
WHERE CASE WHEN %(ids)s::bigint[] IS NULL THEN s.active ELSE s.id = ANY(%(ids)s) END;

-- name: repositories
-- The repositories of the project, those with most files first.
SELECT r.name || ' (' || r.id || ')'
FROM repository AS r
JOIN snapshot AS s ON s.repository_id = r.id AND s.active
ORDER BY (SELECT count(*) FROM file AS f WHERE f.snapshot_id = s.id) DESC, r.name
LIMIT %(most)s;

-- name: extensions
-- The extensions of files, the most frequent first.
SELECT f.extension
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
WHERE CASE WHEN %(ids)s::bigint[] IS NULL THEN s.active ELSE s.id = ANY(%(ids)s) END
  AND f.extension <> ''
GROUP BY f.extension
ORDER BY count(*) DESC, f.extension
LIMIT %(most)s;

-- name: languages
-- The languages of files, the most frequent first.
SELECT f.language
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
WHERE CASE WHEN %(ids)s::bigint[] IS NULL THEN s.active ELSE s.id = ANY(%(ids)s) END
GROUP BY f.language
ORDER BY count(*) DESC, f.language
LIMIT %(most)s;

-- name: kinds
-- The kinds of files, the most frequent first.
SELECT f.kind
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
WHERE CASE WHEN %(ids)s::bigint[] IS NULL THEN s.active ELSE s.id = ANY(%(ids)s) END
GROUP BY f.kind
ORDER BY count(*) DESC, f.kind
LIMIT %(most)s;

-- name: directories
-- The directories whose last name matches a pattern; those with most files first.
SELECT substring(f.path FROM %(ending)s::text)
FROM snapshot AS s
JOIN file AS f ON f.snapshot_id = s.id
WHERE CASE WHEN %(ids)s::bigint[] IS NULL THEN s.active ELSE s.id = ANY(%(ids)s) END
  AND f.path ~ %(ending)s::text
GROUP BY 1
ORDER BY count(*) DESC, 1
LIMIT %(most)s;

-- name: names
-- The names of symbols outside generated and vendored files, each once, up to a number: the most
-- frequent ones.
SELECT string_agg(named.name, chr(10))
FROM (
    SELECT s.name
    FROM symbol AS s
    WHERE s.blob_id IN (
        SELECT f.blob_id
        FROM file AS f
        WHERE f.snapshot_id = ANY(%(snapshots)s::bigint[]) AND f.kind NOT IN ('generated', 'vendored')
    )
      AND s.kind <> 'item'
    GROUP BY s.name
    ORDER BY count(*) DESC
    LIMIT %(most)s
) AS named;

-- name: paths
-- The paths of files that are neither generated nor vendored, up to a number.
SELECT string_agg(written.path, chr(10))
FROM (
    SELECT f.path
    FROM file AS f
    WHERE f.snapshot_id = ANY(%(snapshots)s::bigint[]) AND f.kind NOT IN ('generated', 'vendored')
    LIMIT %(most)s
) AS written;
