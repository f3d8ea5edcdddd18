-- fragment: columns
-- The columns of an observation, the last with its anchors.
id, content, type, tags, session_id, created_at, stored_at,
ARRAY(
    SELECT ROW(anchor.repository_id, anchor.file, anchor.symbol, anchor.commit, anchor.start_line,
               anchor.end_line, anchor.state, anchor.reason, anchor.moved_from)
    FROM anchor
    WHERE anchor.record_id = observation.id
    ORDER BY anchor.ordinal)

-- name: prepare
-- Plan statements for their actual parameters in this transaction; generic plans scan whole tables.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: store
-- Store an observation. If one with the same content exists, count it once more and add the tags.
WITH stored AS (
    INSERT INTO observation AS o (id, content, content_hash, type, tags, session_id, model, terms,
                                  lex)
    VALUES (%(id)s, %(content)s, %(hash)s, %(type)s, %(tags)s::text[], %(session_id)s, %(model)s,
            %(terms)s::integer[], %(lex)s::sparsevec)
    ON CONFLICT (content_hash) DO UPDATE
    SET tags = (o.tags || ARRAY(
            SELECT added.tag
            FROM unnest(excluded.tags) WITH ORDINALITY AS added (tag, place)
            WHERE added.tag <> ALL(o.tags)
            ORDER BY added.place))[:%(most_tags)s],
        session_id = coalesce(o.session_id, excluded.session_id),
        times_stored = o.times_stored + 1,
        stored_at = clock_timestamp()
    RETURNING o.id, o.tags
), meant AS (
    INSERT INTO observation_vector (observation_id, ordinal, dense)
    SELECT stored.id, made.place - 1, made.dense::halfvec
    FROM stored
    CROSS JOIN unnest(%(dense)s::text[]) WITH ORDINALITY AS made (dense, place)
    WHERE stored.id = %(id)s
)
SELECT id, tags
FROM stored;

-- name: renew
-- Replace the terms and vectors of observations: of those made by another model, or of all with
-- ``anyway``. Rows that another transaction has locked are skipped.
WITH due AS (
    SELECT id
    FROM observation
    WHERE id = ANY(%(ids)s::uuid[]) AND (%(anyway)s OR model <> %(model)s)
    FOR UPDATE SKIP LOCKED
), words AS (
    UPDATE observation AS o
    SET model = %(model)s, terms = made.terms::integer[], lex = made.lex::sparsevec
    FROM unnest(%(ids)s::uuid[], %(terms)s::text[], %(lex)s::text[]) AS made (id, terms, lex)
    JOIN due ON due.id = made.id
    WHERE o.id = made.id
), vectors AS (
    SELECT made.id, made.ordinal, made.dense::halfvec AS dense
    FROM unnest(%(owners)s::uuid[], %(ordinals)s::integer[], %(dense)s::text[])
        AS made (id, ordinal, dense)
    JOIN due ON due.id = made.id
), spent AS (
    DELETE FROM observation_vector AS v
    USING due
    WHERE v.observation_id = due.id
      AND NOT EXISTS (
          SELECT
          FROM vectors
          WHERE vectors.id = v.observation_id AND vectors.ordinal = v.ordinal)
)
INSERT INTO observation_vector (observation_id, ordinal, dense)
SELECT id, ordinal, dense
FROM vectors
ON CONFLICT (observation_id, ordinal) DO UPDATE
SET dense = excluded.dense;

-- name: import
-- Import observations whose id and content do not exist yet.
WITH line AS (
    SELECT id, content, decode(hash, 'hex') AS content_hash, type,
           ARRAY(SELECT jsonb_array_elements_text(tags)) AS tags, session_id, created_at,
           stored_at, times_stored, model, terms::integer[] AS terms, lex::sparsevec AS lex, dense
    FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
        id uuid, content text, hash text, type text, tags jsonb, session_id text,
        created_at timestamptz, stored_at timestamptz, times_stored integer, model text,
        terms text, lex text, dense jsonb)
), new AS (
    INSERT INTO observation (id, content, content_hash, type, tags, session_id, created_at,
                             stored_at, times_stored, model, terms, lex)
    SELECT id, content, content_hash, type, tags, session_id, created_at, stored_at, times_stored,
           model, terms, lex
    FROM line
    ON CONFLICT DO NOTHING
    RETURNING id
), meant AS (
    INSERT INTO observation_vector (observation_id, ordinal, dense)
    SELECT line.id, made.place - 1, made.dense::halfvec
    FROM line
    JOIN new ON new.id = line.id
    CROSS JOIN jsonb_array_elements_text(line.dense) WITH ORDINALITY AS made (dense, place)
)
SELECT id::text
FROM new;

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
-- Whether some observations have vectors of another model, and an estimate of the number of
-- vectors.
SELECT coalesce((SELECT min(model) FROM observation) <> %(model)s
                OR (SELECT max(model) FROM observation) <> %(model)s, false),
       (SELECT reltuples::bigint FROM pg_class WHERE oid = 'observation_vector'::regclass);

-- name: outdated
-- Some observations with vectors of another model.
SELECT id, content, tags
FROM observation
WHERE model < %(model)s OR model > %(model)s
LIMIT %(limit)s;
