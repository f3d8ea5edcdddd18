-- Vectors of several models side by side. A text is cut and counted the same way for all of them, so
-- only its vectors belong to a model: switching leaves texts, chunks and words as they are.

-- How to open the model again, and by which line its cosines come to the built-in model's scale.
-- source is a folder or a provider's name, NULL the built-in one; never an address or a key.
ALTER TABLE profile
    ADD COLUMN provider       text             NOT NULL DEFAULT 'static',
    ADD COLUMN source         text,
    ADD COLUMN query_prefix   text,
    ADD COLUMN passage_prefix text,
    ADD COLUMN slope          double precision NOT NULL DEFAULT 1,
    ADD COLUMN shift          double precision NOT NULL DEFAULT 0;
UPDATE profile
SET source = model
WHERE model <> 'builtin';

-- One index for vectors of all models refused those of another dimension; each model has its own.
DROP INDEX IF EXISTS chunk_vector_near;
ALTER TABLE chunk_vector
    ADD COLUMN profile_id integer;
UPDATE chunk_vector AS v
SET profile_id = b.profile_id
FROM blob AS b
WHERE b.id = v.blob_id;
DELETE FROM chunk_vector
WHERE profile_id IS NULL;
-- One change a statement where constraints are among them: Citus takes no more.
ALTER TABLE chunk_vector
    DROP CONSTRAINT chunk_vector_pkey;
ALTER TABLE chunk_vector
    ADD PRIMARY KEY (profile_id, blob_id, ordinal);

ALTER TABLE blob
    DROP COLUMN profile_id;
