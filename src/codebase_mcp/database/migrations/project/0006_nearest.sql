-- The index of vectors covers what was there when it was built, and is built beside searches and
-- runs. What came later is told by its time, in microseconds since 1970: it is compared one by one.
ALTER TABLE chunk_vector ADD COLUMN added bigint NOT NULL DEFAULT 0;
ALTER TABLE chunk_vector
    ALTER COLUMN added SET DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
CREATE INDEX chunk_vector_added ON chunk_vector (profile_id, added);

-- Indexes of another kind that earlier programs built. No line inside ends with a semicolon: that is
-- where a statement ends for a tenant.
DO $$ DECLARE index_name text; BEGIN
    FOR index_name IN
        SELECT c.relname
        FROM pg_catalog.pg_index AS i
        JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
        WHERE i.indrelid = to_regclass('chunk_vector') AND c.relname LIKE 'chunk\_vector\_near%'
    LOOP EXECUTE format('DROP INDEX %I', index_name); END LOOP; END
$$;

-- What filters ask for. Paths are compared by their bytes, so that those below a directory lie
-- together, whatever the database's collation.
ALTER TABLE file ALTER COLUMN path TYPE text COLLATE "C";
CREATE INDEX file_language ON file (snapshot_id, language);
CREATE INDEX file_extension ON file (snapshot_id, extension);
