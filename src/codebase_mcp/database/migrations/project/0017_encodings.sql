-- In which encoding a text was; null for UTF-8, and where an earlier version read it.
ALTER TABLE blob ADD COLUMN encoding text;
CREATE INDEX blob_encoding ON blob (id) WHERE encoding IS NOT NULL;
