-- Another value with each change of what searches look at, so that a copy in memory knows whether it
-- is still true. No row until the first change.
CREATE TABLE index_version (
    single  boolean PRIMARY KEY DEFAULT true CHECK (single),
    version uuid    NOT NULL DEFAULT gen_random_uuid()
);
