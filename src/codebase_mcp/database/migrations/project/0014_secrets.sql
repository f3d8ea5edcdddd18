-- How many secrets are masked in a text; null where an earlier version read it, which did not count.
ALTER TABLE blob ADD COLUMN secrets integer;
CREATE INDEX blob_secrets ON blob (id) WHERE secrets > 0;
