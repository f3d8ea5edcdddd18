-- name: renew
-- The searched content has changed, so in-memory copies of the index are outdated.
INSERT INTO index_version
DEFAULT VALUES
ON CONFLICT (single) DO UPDATE SET version = excluded.version;
