-- name: vector_index_lists
-- How many lists the vector index has; no row where there is none.
SELECT split_part(c.reloptions[1], '=', 2)::integer
FROM pg_class AS c
WHERE c.oid = to_regclass('chunk_vector_near');

-- name: work_memory
-- What building an index may use, in this transaction.
SET LOCAL maintenance_work_mem = '128MB';

-- name: build_vector_index
-- Lists of vectors near each other; a new vector joins the list of the nearest centre.
CREATE INDEX chunk_vector_near_new
ON chunk_vector USING ivfflat ((dense::halfvec(0)) halfvec_ip_ops)
WITH (lists = 0);

-- name: drop_vector_index
-- The one that a finer one replaces.
DROP INDEX IF EXISTS chunk_vector_near;

-- name: name_vector_index
-- The new one takes its place.
ALTER INDEX chunk_vector_near_new RENAME TO chunk_vector_near;
