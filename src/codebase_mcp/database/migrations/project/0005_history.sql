-- The newest commits of a repository's history, as many as were asked for; 0 is none.
ALTER TABLE repository ADD COLUMN history_depth integer NOT NULL DEFAULT 0;

-- What HEAD was when they were read, and where a shallow clone ended; null before the first time.
ALTER TABLE repository ADD COLUMN history_tip text;

-- hash is git's own, 20 or 32 bytes. position grows towards the newest commit, with gaps, so that
-- new commits leave the rows of old ones alone. paths are those that the commit touched, relative to
-- the repository's root, of very many only the first; paths_total counts all. A merge touches none.
-- It is null where a shallow clone ends: what that commit changed cannot be known.
CREATE TABLE commit_entry (
    repository_id uuid        NOT NULL REFERENCES repository ON DELETE CASCADE,
    hash          bytea       NOT NULL,
    position      integer     NOT NULL,
    author_name   text        NOT NULL,
    author_email  text        NOT NULL,
    authored_at   timestamptz NOT NULL,
    message       text        NOT NULL,
    paths         text[]      NOT NULL,
    paths_total   integer,
    PRIMARY KEY (repository_id, hash)
);
CREATE INDEX commit_entry_paths ON commit_entry USING gin (paths);
