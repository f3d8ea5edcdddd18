-- The index of vectors covers what was there when it was built, and is built beside searches and
-- runs. What came later is told by its time, in microseconds since 1970: it is compared one by one.
ALTER TABLE chunk_vector ADD COLUMN added bigint NOT NULL DEFAULT 0;
ALTER TABLE chunk_vector
    ALTER COLUMN added SET DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
CREATE INDEX chunk_vector_added ON chunk_vector (profile_id, added);

-- What filters ask for. Paths are compared by their bytes, so that those below a directory lie
-- together, whatever the database's collation.
ALTER TABLE file ALTER COLUMN path TYPE text COLLATE "C";
CREATE INDEX file_language ON file (snapshot_id, language);
CREATE INDEX file_extension ON file (snapshot_id, extension);
