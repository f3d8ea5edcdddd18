-- Which project a caller works in, for callers that more than one process may serve. NULL is the
-- default workspace. The row outlives its project: its owner is told, and not moved to another one.
CREATE TABLE active_project (
    owner       text        PRIMARY KEY,
    project_id  text,
    switched_at timestamptz NOT NULL DEFAULT now()
);

-- Whose .mcp-context.toml may name which project: the directory that made it, and those confirmed.
CREATE TABLE trusted_context (
    directory   text        NOT NULL,
    schema_name text        NOT NULL,
    trusted_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (directory, schema_name)
);
