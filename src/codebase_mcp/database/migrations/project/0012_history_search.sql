-- Of each of the paths, in their order: the lines added and removed, null where they are unknown, and
-- the path that a renamed file had before. lines_added and lines_removed are of all paths. A merge
-- touches what it changed for its first parent.
ALTER TABLE commit_entry
    ADD COLUMN path_added    integer[],
    ADD COLUMN path_removed  integer[],
    ADD COLUMN path_former   text[],
    ADD COLUMN lines_added   integer,
    ADD COLUMN lines_removed integer,
    ADD COLUMN is_merge      boolean NOT NULL DEFAULT false;

-- Commits that were read before have no path_added: the next run reads them again.
UPDATE repository SET history_tip = NULL;

-- What a commit is found by: terms picks commits, lex scores them; subject and dense are the meaning
-- of the message's first line, and of all of it with the words of its paths. Made with one model,
-- from the row of commit_entry alone, so what is missing here can always be made.
CREATE TABLE commit_text (
    repository_id uuid      NOT NULL,
    hash          bytea     NOT NULL,
    model         text      NOT NULL,
    terms         integer[] NOT NULL,
    lex           sparsevec(1000000000) NOT NULL,
    subject       halfvec   NOT NULL,
    dense         halfvec   NOT NULL,
    PRIMARY KEY (repository_id, hash),
    FOREIGN KEY (repository_id, hash) REFERENCES commit_entry ON DELETE CASCADE
);
CREATE INDEX commit_text_terms ON commit_text USING gin (terms) WITH (fastupdate = off);
