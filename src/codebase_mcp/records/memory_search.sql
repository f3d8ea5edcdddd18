-- name: facts
-- How many observations there are, no further than a bound; the planner's estimates for beyond it,
-- of observations and of vectors; whether some were made by another model; and, where there are
-- filters, how many pass them, no further than the bound either.
SELECT (SELECT count(*) FROM (SELECT FROM observation LIMIT %(most)s) AS counted),
       (SELECT reltuples::bigint FROM pg_class WHERE oid = 'observation'::regclass),
       (SELECT reltuples::bigint FROM pg_class WHERE oid = 'observation_vector'::regclass),
       coalesce((SELECT min(model) FROM observation) <> %(model)s
                OR (SELECT max(model) FROM observation) <> %(model)s, false),
       CASE
           WHEN %(narrow)s THEN (
               SELECT count(*)
               FROM (
                   SELECT
                   FROM observation
                   WHERE (%(tags)s::text[] IS NULL OR tags @> %(tags)s::text[])
                     AND (%(type)s::text IS NULL OR type = %(type)s)
                     AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
                   LIMIT %(most)s
               ) AS passing
           )
       END;

-- name: frequencies
-- In how many observations each term occurs, no further than a bound.
SELECT term, (
    SELECT count(*)
    FROM (SELECT FROM observation WHERE terms @> ARRAY[term] LIMIT %(most)s) AS counted
)
FROM unnest(%(terms)s::integer[]) AS asked (term);

-- name: words
-- Observations with one of these terms, best first; a distance is an inner product, negated.
SELECT id
FROM observation
WHERE terms && %(picking)s::integer[]
  AND (%(tags)s::text[] IS NULL OR tags @> %(tags)s::text[])
  AND (%(type)s::text IS NULL OR type = %(type)s)
  AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
ORDER BY lex <#> %(query)s::sparsevec
LIMIT %(limit)s;

-- name: common_words
-- Where every term is common: those that hold the rarest of them together, no more than a bound.
SELECT id
FROM (
    SELECT id, lex
    FROM observation
    WHERE terms @> %(picking)s::integer[]
      AND (%(tags)s::text[] IS NULL OR tags @> %(tags)s::text[])
      AND (%(type)s::text IS NULL OR type = %(type)s)
      AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
    LIMIT %(bound)s
) AS bounded
ORDER BY lex <#> %(query)s::sparsevec
LIMIT %(limit)s;

-- name: meaning
-- Observations with the vectors nearest in meaning, all compared.
SELECT observation_id
FROM observation_vector
ORDER BY dense <#> %(vector)s::halfvec
LIMIT %(limit)s;

-- name: meaning_filtered
-- The same of those that pass the filters and whose vectors can be compared.
SELECT o.id
FROM observation AS o
JOIN observation_vector AS v ON v.observation_id = o.id
WHERE o.model = %(model)s
  AND (%(tags)s::text[] IS NULL OR o.tags @> %(tags)s::text[])
  AND (%(type)s::text IS NULL OR o.type = %(type)s)
  AND (%(session_id)s::text IS NULL OR o.session_id = %(session_id)s)
ORDER BY v.dense <#> %(vector)s::halfvec
LIMIT %(limit)s;

-- name: meaning_indexed
-- The same of very many, by the vector index where there is one.
SELECT observation_id
FROM observation_vector
WHERE vector_dims(dense) = {dimension}
ORDER BY dense::halfvec({dimension}) <#> %(vector)s::halfvec({dimension})
LIMIT %(limit)s;

-- name: meaning_indexed_filtered
-- The same of those that pass the filters and whose vectors can be compared: the index goes on until
-- there are enough.
SELECT v.observation_id
FROM observation_vector AS v
WHERE vector_dims(dense) = {dimension}
  AND EXISTS (
      SELECT
      FROM observation AS o
      WHERE o.id = v.observation_id
        AND o.model = %(model)s
        AND (%(tags)s::text[] IS NULL OR o.tags @> %(tags)s::text[])
        AND (%(type)s::text IS NULL OR o.type = %(type)s)
        AND (%(session_id)s::text IS NULL OR o.session_id = %(session_id)s)
  )
ORDER BY v.dense::halfvec({dimension}) <#> %(vector)s::halfvec({dimension})
LIMIT %(limit)s;

-- name: evidence
-- What speaks for each of these: its score by words, and where it can be told how near in meaning
-- are the whole of it and the nearest of its passages.
SELECT o.id, -(o.lex <#> %(query)s::sparsevec), near.whole, near.passage
FROM observation AS o
CROSS JOIN LATERAL (
    SELECT max(-(v.dense <#> %(vector)s::halfvec)) FILTER (WHERE v.ordinal = 0) AS whole,
           max(-(v.dense <#> %(vector)s::halfvec)) FILTER (WHERE v.ordinal > 0) AS passage
    FROM observation_vector AS v
    WHERE v.observation_id = o.id AND o.model = %(model)s
) AS near
WHERE o.id = ANY(%(ids)s::uuid[]);

-- name: prepare
-- For this transaction: plans that know their parameters; one made for any reads whole tables.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: probe
-- For this transaction: how many lists of the vector index to look into, and to go on beyond them.
SELECT set_config('ivfflat.probes', %(probes)s::text, true),
       set_config('ivfflat.iterative_scan', 'relaxed_order', true);
