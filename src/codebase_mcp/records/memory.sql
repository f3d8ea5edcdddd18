-- fragment: columns
-- The columns of an observation, the last with its anchors.
id, content, type, tags, session_id, created_at, stored_at,
ARRAY(
    SELECT jsonb_build_array(
        anchor.repository_id, anchor.file, anchor.symbol, anchor.commit, anchor.start_line,
        anchor.end_line, anchor.state, anchor.reason, anchor.moved_from)
    FROM anchor
    WHERE anchor.record_id = observation.id
    ORDER BY anchor.ordinal)

-- name: prepare
-- Plan statements for their actual parameters in this transaction; generic plans scan whole tables.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: store
-- Store an observation, or count the one with the same content once more.
INSERT INTO observation AS o (id, content, content_hash, type, tags, session_id, model, terms, lex)
VALUES (%(id)s, %(content)s, %(hash)s, %(type)s, %(tags)s::text[], %(session_id)s, %(model)s,
        %(terms)s::integer[], %(lex)s::sparsevec)
ON CONFLICT (content_hash) DO UPDATE
SET session_id = coalesce(o.session_id, excluded.session_id),
    times_stored = o.times_stored + 1,
    stored_at = excluded.stored_at
RETURNING o.id, o.tags;

-- name: store_vectors
-- The vectors of a new observation.
INSERT INTO observation_vector (observation_id, ordinal, dense)
SELECT o.id, made.place - 1, made.dense::halfvec
FROM observation AS o
CROSS JOIN unnest(%(dense)s::text[]) WITH ORDINALITY AS made (dense, place)
WHERE o.id = %(id)s;

-- name: set_tags
-- Replace the tags of an observation.
UPDATE observation
SET tags = %(tags)s::text[]
WHERE id = %(id)s;

-- name: lock_due
-- Lock the observations to renew: those made by another model, or all with ``anyway``. Rows that
-- another transaction has locked are skipped.
SELECT id
FROM observation
WHERE id = ANY(%(ids)s::uuid[]) AND (%(anyway)s OR model <> %(model)s)
FOR UPDATE SKIP LOCKED;

-- name: renew_words
-- Replace the terms of a locked observation.
UPDATE observation
SET model = %(model)s, terms = %(terms)s::integer[], lex = %(lex)s::sparsevec
WHERE id = %(id)s;

-- name: delete_vectors
-- Delete the vectors of locked observations.
DELETE FROM observation_vector
WHERE observation_id = ANY(%(ids)s::uuid[]);

-- name: renew_vectors
-- The new vectors of locked observations.
INSERT INTO observation_vector (observation_id, ordinal, dense)
SELECT made.id, made.ordinal, made.dense::halfvec
FROM unnest(%(owners)s::uuid[], %(ordinals)s::integer[], %(dense)s::text[])
    AS made (id, ordinal, dense);

-- name: import
-- Import observations whose id and content do not exist yet.
INSERT INTO observation (id, content, content_hash, type, tags, session_id, created_at, stored_at,
                         times_stored, model, terms, lex)
SELECT id, content, decode(hash, 'hex'), type, ARRAY(SELECT jsonb_array_elements_text(line.tags)),
       session_id, created_at, stored_at, times_stored, model, terms::integer[], lex::sparsevec
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, content text, hash text, type text, tags jsonb, session_id text,
    created_at timestamptz, stored_at timestamptz, times_stored integer, model text,
    terms text, lex text)
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: import_vectors
-- The vectors of observations that were imported.
INSERT INTO observation_vector (observation_id, ordinal, dense)
SELECT line.id, made.place - 1, made.dense::halfvec
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (id uuid, dense jsonb)
CROSS JOIN jsonb_array_elements_text(line.dense) WITH ORDINALITY AS made (dense, place);

-- name: get
-- Observations by their ids.
SELECT {columns}
FROM observation
WHERE id = ANY(%(ids)s::uuid[]);

-- name: timeline
-- An observation with its neighbours in time, oldest first; no row if it does not exist.
WITH middle AS (
    SELECT id, created_at
    FROM observation
    WHERE id = %(anchor_id)s
), before AS (
    SELECT o.id
    FROM observation AS o
    WHERE (o.created_at, o.id) < ((SELECT created_at FROM middle), (SELECT id FROM middle))
      AND (%(session_id)s::text IS NULL OR o.session_id = %(session_id)s)
    ORDER BY o.created_at DESC, o.id DESC
    LIMIT %(before)s
), after AS (
    SELECT o.id
    FROM observation AS o
    WHERE (o.created_at, o.id) > ((SELECT created_at FROM middle), (SELECT id FROM middle))
      AND (%(session_id)s::text IS NULL OR o.session_id = %(session_id)s)
    ORDER BY o.created_at, o.id
    LIMIT %(after)s
)
SELECT {columns}
FROM observation
WHERE id = ANY(ARRAY(
    SELECT id FROM before
    UNION ALL
    SELECT id FROM middle
    UNION ALL
    SELECT id FROM after))
ORDER BY created_at, id;

-- name: newest
-- The newest observations, newest first.
SELECT {columns}
FROM observation
WHERE (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
  AND (%(tags)s::text[] IS NULL OR tags @> %(tags)s::text[])
ORDER BY created_at DESC, id DESC
LIMIT %(limit)s;

-- name: page
-- A page of the observations, newest first.
SELECT {columns}
FROM observation
WHERE (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
  AND (%(type)s::text IS NULL OR type = %(type)s)
  AND (created_at, id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
ORDER BY created_at DESC, id DESC
OFFSET %(offset)s
LIMIT %(limit)s;

-- name: total
-- How many observations there are of a session and type.
SELECT count(*)
FROM observation
WHERE (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
  AND (%(type)s::text IS NULL OR type = %(type)s);

-- name: newest_of_each_type
-- The newest observations of every type.
SELECT o.*
FROM unnest(%(types)s::text[]) AS wanted (type)
CROSS JOIN LATERAL (
    SELECT {columns}
    FROM observation
    WHERE observation.type = wanted.type
      AND (%(tags)s::text[] IS NULL OR tags @> %(tags)s::text[])
    ORDER BY created_at DESC, id DESC
    LIMIT %(limit)s
) AS o;

-- name: upkeep
-- Whether some observations have vectors of another model.
SELECT coalesce((SELECT min(model) FROM observation) <> %(model)s
                OR (SELECT max(model) FROM observation) <> %(model)s, false);

-- name: vectors
-- An estimate of the number of vectors.
SELECT reltuples::bigint
FROM pg_class
WHERE oid = 'observation_vector'::regclass;

-- name: outdated
-- Some observations with vectors of another model.
SELECT id, content, tags
FROM observation
WHERE model < %(model)s OR model > %(model)s
LIMIT %(limit)s;
