-- name: vector_index_lists
-- How many lists an index for vectors of this dimension has; no row where there is none.
SELECT split_part(c.reloptions[1], '=', 2)::integer
FROM pg_class AS c
WHERE c.oid = to_regclass(%(index)s)
  AND pg_get_indexdef(c.oid) LIKE '%%halfvec(' || %(dimension)s::integer || ')%%';

-- name: work_memory
-- What building an index may use, in this transaction.
SET LOCAL maintenance_work_mem = '128MB';

-- name: build_chunk_vector
-- Lists of vectors near each other, of one profile; a new vector joins the list of the nearest
-- centre.
CREATE INDEX chunk_vector_near_new
ON chunk_vector USING ivfflat ((dense::halfvec(0)) halfvec_ip_ops)
WITH (lists = 0)
WHERE profile_id = 0;

-- name: build_observation_vector
-- The same of observations; beside them lie vectors of other models until they are made anew.
CREATE INDEX observation_vector_near_new
ON observation_vector USING ivfflat ((dense::halfvec(0)) halfvec_ip_ops)
WITH (lists = 0)
WHERE vector_dims(dense) = 0;

-- name: drop_chunk_vector
-- The one that a finer one replaces.
DROP INDEX IF EXISTS chunk_vector_near_0;

-- name: drop_observation_vector
-- The same of observations.
DROP INDEX IF EXISTS observation_vector_near;

-- name: name_chunk_vector
-- The new one takes its place.
ALTER INDEX chunk_vector_near_new RENAME TO chunk_vector_near_0;

-- name: name_observation_vector
-- The same of observations.
ALTER INDEX observation_vector_near_new RENAME TO observation_vector_near;
