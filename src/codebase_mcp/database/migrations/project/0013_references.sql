-- Where a text uses names that may be defined elsewhere: the names, each once, and for each in the same
-- place how and on which lines (text/references.py). One row per text that uses any: a row per use
-- would take ten times the space.
CREATE TABLE blob_reference (
    blob_id bigint             NOT NULL PRIMARY KEY,
    names   text[] COLLATE "C" NOT NULL,
    uses    text[] COLLATE "C" NOT NULL
);
CREATE INDEX blob_reference_names ON blob_reference USING gin (names);
