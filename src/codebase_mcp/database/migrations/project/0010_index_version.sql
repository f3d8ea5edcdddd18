-- Another value with each change of what searches look at, so that a copy in memory knows whether it
-- is still true.
CREATE TABLE index_version (
    version uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO index_version DEFAULT VALUES;
