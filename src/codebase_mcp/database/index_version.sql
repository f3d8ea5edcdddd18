-- name: renew
-- What searches look at has changed: copies of it in memory are out of date.
INSERT INTO index_version
DEFAULT VALUES
ON CONFLICT (single) DO UPDATE SET version = excluded.version;
