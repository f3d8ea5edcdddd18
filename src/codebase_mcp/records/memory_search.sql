-- fragment: passes
-- Whether an observation passes the filters.
(%(tags)s::text[] IS NULL OR tags @> %(tags)s::text[])
AND (%(type)s::text IS NULL OR type = %(type)s)
AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)

-- name: facts
-- The number of observations, counted up to a limit; whether some have vectors of another model; and
-- with filters, how many observations pass them, counted up to the same limit.
SELECT (SELECT count(*) FROM (SELECT id FROM observation LIMIT %(most)s) AS counted),
       coalesce((SELECT min(model) FROM observation) <> %(model)s
                OR (SELECT max(model) FROM observation) <> %(model)s, false),
       CASE
           WHEN %(narrow)s THEN (
               SELECT count(*)
               FROM (
                   SELECT id
                   FROM observation
                   WHERE {passes}
                   LIMIT %(most)s
               ) AS passing
           )
       END;

-- name: estimates
-- The planner's estimates of the number of observations and of vectors.
SELECT (SELECT reltuples::bigint FROM pg_class WHERE oid = 'observation'::regclass),
       (SELECT reltuples::bigint FROM pg_class WHERE oid = 'observation_vector'::regclass);

-- name: frequencies
-- In how many observations each term occurs, counted up to a limit.
SELECT term, (
    SELECT count(*)
    FROM (SELECT id FROM observation WHERE terms @> ARRAY[term] LIMIT %(most)s) AS counted
)
FROM unnest(%(terms)s::integer[]) AS asked (term);

-- name: words
-- Observations with one of these terms, best first; the operator is the negative inner product.
SELECT id
FROM observation
WHERE terms && %(picking)s::integer[]
  AND {passes}
ORDER BY lex <#> %(query)s::sparsevec
LIMIT %(limit)s;

-- name: common_words
-- The same for common terms only: observations with all of the rarest ones, up to a limit.
SELECT id
FROM (
    SELECT id, lex
    FROM observation
    WHERE terms @> %(picking)s::integer[]
      AND {passes}
    LIMIT %(bound)s
) AS bounded
ORDER BY lex <#> %(query)s::sparsevec
LIMIT %(limit)s;

-- name: meaning
-- Observations with the nearest vectors; all vectors are compared.
SELECT observation_id
FROM observation_vector
ORDER BY dense <#> %(vector)s::halfvec
LIMIT %(limit)s;

-- name: meaning_filtered
-- The same among observations that pass the filters and have vectors of the current model.
SELECT o.id
FROM observation AS o
JOIN observation_vector AS v ON v.observation_id = o.id
WHERE o.model = %(model)s
  AND {passes}
ORDER BY v.dense <#> %(vector)s::halfvec
LIMIT %(limit)s;

-- name: meaning_indexed
-- The same for many observations, by the vector index if there is one.
SELECT observation_id
FROM observation_vector
WHERE vector_dims(dense) = {dimension}
ORDER BY dense::halfvec({dimension}) <#> %(vector)s::halfvec({dimension})
LIMIT %(limit)s;

-- name: meaning_indexed_filtered
-- The same among observations that pass the filters and have vectors of the current model. The
-- index is scanned until enough are found.
SELECT v.observation_id
FROM observation_vector AS v
WHERE vector_dims(dense) = {dimension}
  AND EXISTS (
      SELECT
      FROM observation AS o
      WHERE o.id = v.observation_id
        AND o.model = %(model)s
        AND {passes}
  )
ORDER BY v.dense::halfvec({dimension}) <#> %(vector)s::halfvec({dimension})
LIMIT %(limit)s;

-- name: evidence
-- The scores of observations: by words, and if they have vectors of the current model, the cosines
-- of the whole text and of its nearest passage.
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
-- Plan statements for their actual parameters in this transaction; generic plans scan whole tables.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: probe
-- Set for this transaction how many lists of the vector index are searched first; the search
-- continues in further lists if necessary.
SELECT set_config('ivfflat.probes', %(probes)s::text, true),
       set_config('ivfflat.iterative_scan', 'relaxed_order', true);
