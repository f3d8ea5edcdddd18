-- How the newest index run of each repository goes, or went. Whether it still goes on, the lock of
-- the repository says: a run whose process was killed holds none. The repository itself may not be
-- there yet, or not any more.
CREATE TABLE index_run (
    repository_id  uuid        PRIMARY KEY,
    operation_id   uuid        NOT NULL,
    root           text        NOT NULL,
    status         text        NOT NULL,   -- running, interrupted, success, partial, failed, cancelled
    files_total    integer     NOT NULL DEFAULT 0,
    files_done     integer     NOT NULL DEFAULT 0,
    files_indexed  integer     NOT NULL DEFAULT 0,
    chunks_created integer     NOT NULL DEFAULT 0,
    current_file   text,
    errors         jsonb       NOT NULL DEFAULT '[]',
    started_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    ended_at       timestamptz
);

-- What the settings of the program that indexed the repository last say about what of it is listed:
-- one with other settings leaves it alone unless somebody asks.
ALTER TABLE repository
    ADD COLUMN selected_by text NOT NULL DEFAULT '';
