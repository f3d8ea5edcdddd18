-- name: vector_index_lists
-- How many lists an index for vectors of this dimension has; no row where there is none.
SELECT split_part(c.reloptions[1], '=', 2)::integer
FROM pg_class AS c
WHERE c.oid = to_regclass('observation_vector_near')
  AND pg_get_indexdef(c.oid) LIKE '%%halfvec(' || %(dimension)s::integer || ')%%';

-- name: work_memory
-- What building an index may use, in this transaction.
SET LOCAL maintenance_work_mem = '128MB';

-- name: build
-- Lists of vectors near each other; a new vector joins the list of the nearest centre. Beside them
-- lie vectors of other models until they are made anew. pgvector indexes only an expression whose
-- dimension is written out.
CREATE INDEX observation_vector_near_new
ON observation_vector USING ivfflat ((dense::halfvec({dimension})) halfvec_ip_ops)
WITH (lists = {lists})
WHERE vector_dims(dense) = {dimension};

-- name: drop
-- The one that a finer one replaces.
DROP INDEX IF EXISTS observation_vector_near;

-- name: name
-- The new one takes its place.
ALTER INDEX observation_vector_near_new RENAME TO observation_vector_near;
