-- name: try_lock
-- Take the lock for building these indexes in this schema, until the session ends.
SELECT pg_catalog.pg_try_advisory_lock(%(key)s);

-- name: unlock
-- Release that lock.
SELECT pg_catalog.pg_advisory_unlock(%(key)s);

-- name: session
-- The search path, and what a build may use in this session: one core, as searches need the others.
SELECT pg_catalog.set_config('search_path', %(search_path)s, false),
       pg_catalog.set_config('maintenance_work_mem', %(memory)s, false),
       pg_catalog.set_config('max_parallel_maintenance_workers', '0', false),
       pg_catalog.set_config('statement_timeout', '0', false),
       pg_catalog.set_config('lock_timeout', '0', false);

-- name: table
-- One row if the table exists.
SELECT
WHERE to_regclass('chunk_vector') IS NOT NULL;

-- name: profiles
-- The profiles of snapshots and of the secondary model, with the time of the newest vector of each.
SELECT p.id, p.dimension, (
    SELECT v.added
    FROM chunk_vector AS v
    WHERE v.profile_id = p.id
    ORDER BY v.added DESC
    LIMIT 1
)
FROM profile AS p
WHERE EXISTS (SELECT FROM snapshot AS s WHERE s.profile_id = p.id)
   OR EXISTS (SELECT FROM second_tier AS t WHERE t.profile_id = p.id);

-- name: vectors
-- How many vectors of a profile are newer than a time.
SELECT count(*)
FROM chunk_vector
WHERE profile_id = %(profile_id)s AND added > %(time)s;

-- name: indexes
-- The indexes that exist, and whether they were built completely.
SELECT c.relname, i.indisvalid
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass('chunk_vector') AND c.relname LIKE 'chunk\_vector\_near\_%%';

-- name: build
-- Index the vectors of one profile up to a time; searches and other writers continue meanwhile.
CREATE INDEX CONCURRENTLY chunk_vector_near_{profile_id}_{sealed}
ON chunk_vector USING hnsw ((dense::halfvec({dimension})) halfvec_ip_ops)
WITH (m = 24, ef_construction = 100)
WHERE profile_id = {profile_id} AND added <= {sealed};

-- name: drop
-- Drop an index that is no longer needed, once no search uses it.
DROP INDEX CONCURRENTLY IF EXISTS chunk_vector_near_{profile_id}_{sealed};

-- name: drop_at_once
-- The same inside a transaction; searches wait until it ends.
DROP INDEX IF EXISTS chunk_vector_near_{profile_id}_{sealed};
