-- fragment: passes_filters
-- Whether a file f is in a snapshot that is searched, and passes the filters.
f.snapshot_id = ANY(%(snapshots)s::bigint[])
AND (%(extensions)s::text[] IS NULL OR f.extension = ANY(%(extensions)s))
AND (%(languages)s::text[] IS NULL OR f.language = ANY(%(languages)s))
AND (%(kinds)s::text[] IS NULL OR f.kind = ANY(%(kinds)s))
AND (%(directory)s::text IS NULL OR f.path ~ %(directory)s)

-- fragment: in_scope
-- Whether to search chunk c: its text is not one of the few that are hidden.
c.blob_id NOT IN (SELECT unnest(%(hidden)s::bigint[]))

-- fragment: in_scope/in_texts
-- If few texts pass the filters: its text is one of them.
c.blob_id = ANY(%(texts)s::bigint[])

-- fragment: in_scope/filtered
-- Otherwise: a file with its text passes the filters. If the snapshots have few files, those that pass
-- are put into a hash table once, which takes a fiftieth of the time. Else each chunk is tested, with a
-- LIMIT: as a join, a generic plan would begin with all files. Few snapshots have a base, and looking
-- for one takes most of the time of a test.
CASE
    WHEN (
        SELECT count(*)
        FROM (
            SELECT
            FROM view_file
            WHERE snapshot_id = ANY(%(snapshots)s::bigint[])
            LIMIT 10001
        ) AS counted
    ) <= 10000
    THEN c.blob_id IN (SELECT f.blob_id FROM view_file AS f WHERE {passes_filters} LIMIT 10000)
    ELSE (
        SELECT true
        FROM file AS f
        WHERE f.blob_id = c.blob_id
          AND {passes_filters}
        LIMIT 1
    ) IS TRUE OR (
        EXISTS (
            SELECT
            FROM snapshot
            WHERE id = ANY(%(snapshots)s::bigint[]) AND base_id IS NOT NULL
        )
        AND (
            SELECT true
            FROM view_file AS f
            WHERE f.blob_id = c.blob_id
              AND {passes_filters}
            LIMIT 1
        )
    )
END

-- fragment: no_field
-- Of definition s: it names its lines, as a field does not (model.FIELD_KINDS).
s.kind <> ALL ('{attribute,entry,enumerator,field,item}'::text[])

-- name: scope
-- The snapshots to search, of all repositories, and the state of their index. Without ids those that
-- are searched by default.
SELECT s.version, s.view, s.id, s.repository_id, r.root, r.name, s.median_depth, s.files_pending,
       jsonb_array_length(s.failures), s.skipped::text, s.indexed_at,
       p.id, p.fingerprint, p.model, p.dimension, p.provider, p.source, p.query_prefix,
       p.passage_prefix, p.slope, p.shift
FROM snapshot AS s
JOIN repository AS r ON r.id = s.repository_id
JOIN profile AS p ON p.id = s.profile_id
WHERE CASE WHEN %(ids)s::bigint[] IS NULL THEN s.active ELSE s.id = ANY(%(ids)s) END
ORDER BY r.root, s.active DESC, s.view;

-- name: scope_texts
-- The texts that pass the filters, up to a number.
SELECT f.blob_id
FROM snapshot AS s
JOIN view_file AS f ON f.snapshot_id = s.id
WHERE CASE WHEN %(ids)s::bigint[] IS NULL THEN s.active ELSE s.id = ANY(%(ids)s) END
  AND (%(repository_id)s::uuid IS NULL OR s.repository_id = %(repository_id)s)
  AND (%(extensions)s::text[] IS NULL OR f.extension = ANY(%(extensions)s))
  AND (%(languages)s::text[] IS NULL OR f.language = ANY(%(languages)s))
  AND (%(kinds)s::text[] IS NULL OR f.kind = ANY(%(kinds)s))
  AND (%(first)s::text IS NULL OR f.path >= %(first)s AND f.path < %(beyond)s)
  AND (%(piece)s::text IS NULL OR f.path LIKE %(piece)s)
  AND (%(directory)s::text IS NULL OR f.path ~ %(directory)s)
LIMIT %(most)s;

-- name: secondary_profile
-- The profile of the secondary model that searches use, if there is one.
SELECT p.id, p.fingerprint, p.model, p.dimension, p.provider, p.source, p.query_prefix,
       p.passage_prefix, p.slope, p.shift
FROM second_tier AS t
JOIN profile AS p ON p.id = t.profile_id
WHERE t.answers;

-- name: frequencies
-- In how many chunks each term of the query occurs; term -1 counts all chunks.
SELECT term, sum(chunks)::integer
FROM term_frequency
WHERE term = ANY(%(terms)s::integer[])
GROUP BY term
HAVING sum(chunks) > 0;

-- name: view_frequencies
-- The same in some snapshots. Of what is counted for one repository they hold most texts, or few. Most:
-- what is counted, without the texts that they do not hold. Few: these texts alone. OFFSET 0 prevents
-- reading all chunks, and terms are looked up in a hash table, whose cost does not depend on their number.
WITH held AS MATERIALIZED (
    SELECT id, counted_for, chunk_count
    FROM blob
    WHERE id IN (SELECT blob_id FROM view_file WHERE snapshot_id = ANY(%(ids)s::bigint[]))
), mostly_held AS MATERIALIZED (
    SELECT t.counted_for, h.chunks < t.chunks AS is_in_part
    FROM (SELECT counted_for, sum(chunk_count) AS chunks FROM held GROUP BY counted_for) AS h
    JOIN term_frequency AS t ON t.term = -1 AND t.counted_for = h.counted_for
    WHERE 2 * h.chunks > t.chunks
), differing AS MATERIALIZED (
    SELECT id, 1 AS sign
    FROM held
    WHERE NOT EXISTS (SELECT FROM mostly_held AS m WHERE m.counted_for = held.counted_for)
    UNION ALL
    SELECT id, -1
    FROM (
        SELECT b.id
        FROM mostly_held AS m
        JOIN blob AS b ON b.counted_for = m.counted_for
        WHERE m.is_in_part
        EXCEPT
        SELECT id
        FROM held
    ) AS not_held
), wanted AS MATERIALIZED (
    SELECT DISTINCT unnest(%(terms)s::integer[]) AS term
), counts AS (
    SELECT t.term, t.chunks
    FROM mostly_held AS m
    JOIN term_frequency AS t ON t.counted_for = m.counted_for
    WHERE t.term = ANY(%(terms)s::integer[])
    UNION ALL
    SELECT term, sign
    FROM (
        SELECT unnest(ARRAY[-1] || c.terms) AS term, d.sign
        FROM differing AS d
        CROSS JOIN LATERAL (SELECT terms FROM chunk WHERE blob_id = d.id OFFSET 0) AS c
    ) AS each_term
    WHERE term IN (SELECT term FROM wanted)
)
SELECT term, sum(chunks)::integer
FROM counts
GROUP BY term
HAVING sum(chunks) > 0;

-- name: words
-- Chunks with one of the rare terms, best first, with their distances by the query's own terms and
-- by its expansion terms. A distance is an inner product, negated. OFFSET 0 prevents computing it
-- again for the order; chunks at the same distance are always in the same order.
SELECT blob_id, ordinal, distance, expansion
FROM (
    SELECT c.blob_id, c.ordinal, c.lex <#> %(query)s::sparsevec AS distance,
           c.lex <#> %(expansion)s::sparsevec AS expansion
    FROM chunk AS c
    WHERE c.terms && %(rare)s::integer[]
      AND {in_scope}
    OFFSET 0
) AS found
ORDER BY distance + expansion, blob_id, ordinal
LIMIT %(limit)s;

-- name: text_words
-- The texts with some terms: the sum of the scores of their chunks by words, and how many chunks they
-- have.
SELECT c.blob_id, sum(-(c.lex <#> %(query)s::sparsevec)), b.chunk_count
FROM chunk AS c
JOIN blob AS b ON b.id = c.blob_id
WHERE c.terms && %(terms)s::integer[]
  AND c.blob_id NOT IN (SELECT unnest(%(hidden)s::bigint[]))
GROUP BY c.blob_id, b.chunk_count
ORDER BY 2 DESC, c.blob_id
LIMIT %(limit)s;

-- name: words_in_chunks
-- The same among some chunks.
SELECT blob_id, ordinal, distance, expansion
FROM (
    SELECT c.blob_id, c.ordinal, c.lex <#> %(query)s::sparsevec AS distance,
           c.lex <#> %(expansion)s::sparsevec AS expansion
    FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS wanted (blob_id, ordinal)
    JOIN chunk AS c ON c.blob_id = wanted.blob_id AND c.ordinal = wanted.ordinal
    WHERE c.terms && %(rare)s::integer[]
    OFFSET 0
) AS found
ORDER BY distance + expansion, blob_id, ordinal
LIMIT %(limit)s;

-- name: common_words
-- Where every term is common: chunks that hold the two rarest together, or a rare expansion term, at
-- most a given number, which is the same sample for the same chunks in whatever order they came.
-- Without OFFSET 0 all chunks of a large index would be read in the order of their texts.
SELECT blob_id, ordinal, distance, expansion
FROM (
    SELECT blob_id, ordinal, distance, expansion
    FROM (
        SELECT c.blob_id, c.ordinal, c.lex <#> %(query)s::sparsevec AS distance,
               c.lex <#> %(expansion)s::sparsevec AS expansion
        FROM chunk AS c
        WHERE (c.terms @> %(rare)s::integer[] OR c.terms && %(rare_expansion)s::integer[])
          AND {in_scope}
        OFFSET 0
    ) AS matching
    ORDER BY blob_id, ordinal
    LIMIT %(bound)s
) AS found
ORDER BY distance + expansion, blob_id, ordinal
LIMIT %(limit)s;

-- name: holding_count
-- How many chunks hold one of some terms, up to a number. Often one term alone is in as many.
SELECT CASE
    WHEN %(unfiltered)s::boolean AND EXISTS (
        SELECT
        FROM term_frequency
        WHERE term = ANY(%(terms)s::integer[])
        GROUP BY term
        HAVING sum(chunks) >= %(most)s
    )
    THEN %(most)s
    ELSE (
        SELECT count(*)
        FROM (
            SELECT
            FROM chunk AS c
            WHERE c.terms && %(terms)s::integer[]
              AND {in_scope}
            LIMIT %(most)s
        ) AS held
    )
END;

-- name: holding_count_in_chunks
-- The same among some chunks.
SELECT count(*)
FROM (
    SELECT
    FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS wanted (blob_id, ordinal)
    JOIN chunk AS c ON c.blob_id = wanted.blob_id AND c.ordinal = wanted.ordinal
    WHERE c.terms && %(terms)s::integer[]
    LIMIT %(most)s
) AS held;

-- name: held_terms
-- Which of some terms a chunk holds.
SELECT asked.term
FROM chunk AS c
JOIN unnest(%(terms)s::integer[]) AS asked (term) ON asked.term = ANY(c.terms)
WHERE c.blob_id = %(blob_id)s AND c.ordinal = %(ordinal)s;

-- name: holders
-- Which texts hold a rare term, two at most: enough to know whether there is only one. The WITH is
-- materialized because a plan that knew of the LIMIT would read all chunks in the order of texts.
WITH held AS MATERIALIZED (
    SELECT c.blob_id
    FROM chunk AS c
    WHERE c.terms @> ARRAY[%(term)s::integer]
      AND (
          SELECT true
          FROM view_file AS f
          WHERE f.blob_id = c.blob_id AND f.snapshot_id = ANY(%(all_snapshots)s::bigint[])
          LIMIT 1
      )
)
SELECT DISTINCT blob_id
FROM held
LIMIT 2;

-- name: prepare
-- Settings of this transaction: how far vector indexes are searched, and generic plans, which are
-- made once for all parameters. Results: the vector indexes that exist, and the texts that are stored
-- but not searched by default, up to a number (those to be deleted, those of a rebuild that is not
-- finished, those that only commits have).
SELECT set_config('hnsw.ef_search', %(searched)s, true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.max_scan_tuples', %(most)s, true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('max_parallel_workers_per_gather', '0', true),
       ARRAY(
           SELECT c.relname::text
           FROM pg_index AS i
           JOIN pg_class AS c ON c.oid = i.indexrelid
           WHERE i.indrelid = to_regclass('chunk_vector') AND i.indisvalid
       ),
       ARRAY(
           SELECT id
           FROM blob
           WHERE counted_for IS NULL
           LIMIT %(most_hidden)s
       );

-- name: meaning
-- The chunks nearest in meaning by one profile's model, which has no vector index: all are compared.
SELECT blob_id, ordinal, dense <#> %(vector)s::halfvec AS distance
FROM chunk_vector
WHERE profile_id = {profile_id} AND blob_id NOT IN (SELECT unnest(%(hidden)s::bigint[]))
ORDER BY distance, blob_id, ordinal
LIMIT %(limit)s;

-- name: meaning_filtered
-- The same where many chunks pass the filters.
SELECT v.blob_id, v.ordinal, v.dense <#> %(vector)s::halfvec AS distance
FROM chunk_vector AS v
WHERE v.profile_id = {profile_id}
  AND EXISTS (
      SELECT
      FROM view_file AS f
      WHERE f.blob_id = v.blob_id
        AND {passes_filters}
  )
ORDER BY distance, v.blob_id, v.ordinal
LIMIT %(limit)s;

-- name: meaning_sealed
-- Chunks nearest in meaning by one profile's model: by its vector index those that it covers, and
-- the newer ones compared one by one. With filters the index is read until enough chunks passed. The
-- dimension is written out because pgvector indexes only such expressions, the rest so that every plan
-- sees that a partial index will do.
SELECT blob_id, ordinal, distance
FROM (
    (
        SELECT c.blob_id, c.ordinal, c.dense::halfvec({dimension}) <#> %(vector)s::halfvec({dimension}) AS distance
        FROM chunk_vector AS c
        WHERE c.profile_id = {profile_id} AND c.added <= {sealed}
          AND {in_scope}
        ORDER BY distance
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT c.blob_id, c.ordinal, c.dense <#> %(vector)s::halfvec AS distance
        FROM chunk_vector AS c
        WHERE c.profile_id = {profile_id} AND c.added > {sealed}
          AND {in_scope}
        ORDER BY distance, c.blob_id, c.ordinal
        LIMIT %(limit)s
    )
) AS near
ORDER BY distance, blob_id, ordinal
LIMIT %(limit)s;

-- name: meaning_in_texts
-- The same among few texts, by comparing all: no vector index has this expression.
SELECT blob_id, ordinal, dense <#> %(vector)s::halfvec AS distance
FROM chunk_vector
WHERE profile_id = {profile_id} AND blob_id = ANY(%(texts)s::bigint[])
ORDER BY distance, blob_id, ordinal
LIMIT %(limit)s;

-- name: meaning_in_chunks
-- The same among some chunks.
SELECT v.blob_id, v.ordinal, v.dense <#> %(vector)s::halfvec AS distance
FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS wanted (blob_id, ordinal)
JOIN chunk_vector AS v ON v.profile_id = {profile_id} AND v.blob_id = wanted.blob_id
    AND v.ordinal = wanted.ordinal
ORDER BY distance, v.blob_id, v.ordinal
LIMIT %(limit)s;

-- name: cosines
-- The distances of given chunks by one profile's model; chunks without a vector are left out.
SELECT v.blob_id, v.ordinal, v.dense <#> %(vector)s::halfvec
FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS found (blob_id, ordinal)
JOIN chunk_vector AS v ON v.profile_id = {profile_id} AND v.blob_id = found.blob_id
    AND v.ordinal = found.ordinal;

-- name: names
-- The texts of files whose name holds a word of the query, or two neighbours; the first few for each.
SELECT DISTINCT named.blob_id
FROM unnest(%(groups)s::text[]) AS words
CROSS JOIN LATERAL (
    WITH holding AS MATERIALIZED (
        SELECT f.path, f.blob_id
        FROM view_file AS f
        WHERE f.name_terms @> words::integer[]
          AND {passes_filters}
    )
    SELECT blob_id
    FROM holding
    ORDER BY path, blob_id
    LIMIT %(limit)s
) AS named;

-- name: symbols
-- Definitions of what the query names: for each name and text the outermost one, with the chunk that
-- holds its first line and the number of texts that define the name. Some names are defined in
-- thousands of texts; one name at a time, sorted by numbers alone, takes half the time.
SELECT found.blob_id, asked.folded, found.name, found.kind, found.start_line, found.end_line,
       found.depth, found.definers, held.ordinal
FROM unnest(%(names)s::text[]) AS asked (folded)
CROSS JOIN LATERAL (
    SELECT blob_id, name, kind, start_line, end_line, depth, count(*) OVER () AS definers
    FROM (
        SELECT DISTINCT ON (s.blob_id)
               s.blob_id, s.name, s.kind, s.start_line, s.end_line, s.depth
        FROM symbol AS s
        WHERE s.folded = asked.folded
          AND {no_field}
          AND s.blob_id NOT IN (SELECT unnest(%(hidden)s::bigint[]))
          AND (
              NOT %(narrow)s::boolean
              OR EXISTS (
                  SELECT
                  FROM view_file AS f
                  WHERE f.blob_id = s.blob_id
                    AND {passes_filters}
              )
          )
        ORDER BY s.blob_id, s.depth, s.start_line, s.end_line
    ) AS outermost
    ORDER BY depth, blob_id
    LIMIT %(limit)s
) AS found
LEFT JOIN LATERAL (
    SELECT c.ordinal
    FROM chunk AS c
    WHERE c.blob_id = found.blob_id AND found.start_line BETWEEN c.start_line AND c.end_line
    ORDER BY c.ordinal
    LIMIT 1
) AS held ON true;

-- name: defined_names
-- The names of definitions in some texts that hold any of some stems.
SELECT DISTINCT s.blob_id, s.name
FROM symbol AS s
WHERE s.blob_id = ANY(%(blobs)s::bigint[])
  AND {no_field}
  AND EXISTS (
      SELECT
      FROM unnest(%(stems)s::text[]) AS expected (stem)
      WHERE position(expected.stem IN s.folded) > 0
  );

-- name: files
-- The files in scope that pass the filters and have these texts; comments are scored by the query.
SELECT f.snapshot_id, f.path, f.blob_id, f.language, f.kind, b.chunk_count,
       -(b.comments <#> %(query)s::sparsevec)
FROM view_file AS f
JOIN blob AS b ON b.id = f.blob_id
WHERE f.blob_id = ANY(%(blobs)s::bigint[])
  AND {passes_filters};

-- name: chunks
-- The lines and symbols of some chunks.
SELECT c.blob_id, c.ordinal, c.start_line, c.end_line, c.symbol, c.kind
FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS found (blob_id, ordinal)
JOIN chunk AS c ON c.blob_id = found.blob_id AND c.ordinal = found.ordinal;

-- name: enclosing
-- The definitions and items that share a line with one of some chunks, outer ones first.
SELECT DISTINCT s.blob_id, s.qualified, s.kind, s.start_line, s.end_line, s.depth
FROM unnest(%(blobs)s::bigint[], %(ordinals)s::integer[]) AS found (blob_id, ordinal)
JOIN chunk AS c ON c.blob_id = found.blob_id AND c.ordinal = found.ordinal
JOIN symbol AS s ON s.blob_id = c.blob_id
    AND s.start_line <= c.end_line AND s.end_line >= c.start_line
    AND ({no_field} OR s.kind = 'item')
ORDER BY s.blob_id, s.depth, s.start_line;

-- name: texts
-- The texts themselves.
SELECT id, text
FROM blob
WHERE id = ANY(%(blobs)s::bigint[]);
