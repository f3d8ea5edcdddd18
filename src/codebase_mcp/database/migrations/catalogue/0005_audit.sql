-- Who called what, when, and how it ended; no arguments, no content. A caller without a key or a
-- session has no owner. project_id is the one that the call meant, whether or not it exists.
CREATE TABLE audit_entry (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL,
    owner       text,
    key_id      text,
    peer        text,
    tool        text        NOT NULL,
    operation   text,
    project_id  text,
    outcome     text        NOT NULL,
    duration_ms real        NOT NULL
);
CREATE INDEX audit_entry_at ON audit_entry (at);
