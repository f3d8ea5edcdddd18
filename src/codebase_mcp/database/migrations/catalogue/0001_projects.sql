-- The catalogue: which projects there are, and in which schema each of them lives. It is the only
-- schema that knows of others, by name alone: no foreign key crosses schemas, so that a cluster may
-- place each of them on another machine.

CREATE TABLE project (
    schema_name text PRIMARY KEY,
    project_id text UNIQUE,                        -- NULL is the default workspace
    name text,
    description text,
    created_at timestamptz NOT NULL DEFAULT now()
);
