-- name: vector_index_lists
-- How many lists the index for vectors of this dimension has; no row if there is no index.
SELECT split_part(c.reloptions[1], '=', 2)::integer
FROM pg_class AS c
WHERE c.oid = to_regclass('observation_vector_near')
  AND pg_get_indexdef(c.oid) LIKE '%%halfvec(' || %(dimension)s::integer || ')%%';

-- name: work_memory
-- The memory that a build may use in this transaction.
SET LOCAL maintenance_work_mem = '128MB';

-- name: build
-- Lists of vectors near each other; a new vector is added to the list with the nearest centre. The
-- table also holds vectors of other models, until these are replaced. pgvector indexes only an
-- expression whose dimension is written out.
CREATE INDEX observation_vector_near_new
ON observation_vector USING ivfflat ((dense::halfvec({dimension})) halfvec_ip_ops)
WITH (lists = {lists})
WHERE vector_dims(dense) = {dimension};

-- name: drop
-- Drop the old index.
DROP INDEX IF EXISTS observation_vector_near;

-- name: name
-- Give the new index the name of the old one.
ALTER INDEX observation_vector_near_new RENAME TO observation_vector_near;
