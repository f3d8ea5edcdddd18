-- name: keep_session
-- A session that only holds a lock must outlive pauses, and end soon when its client's machine does.
SELECT
    pg_catalog.set_config('idle_session_timeout', '0', false),
    pg_catalog.set_config('tcp_keepalives_idle', '30', false),
    pg_catalog.set_config('tcp_keepalives_interval', '10', false),
    pg_catalog.set_config('tcp_keepalives_count', '3', false)

-- name: session_lock
-- Wait for a lock that lasts as long as the session.
SELECT pg_catalog.pg_advisory_lock(%(key)s)

-- name: try_session_lock
-- The same lock, if it is free now.
SELECT pg_catalog.pg_try_advisory_lock(%(key)s)

-- name: release_session_lock
-- Let such a lock go.
SELECT pg_catalog.pg_advisory_unlock(%(key)s)

-- name: release_all_session_locks
-- Let all of the session's locks go.
SELECT pg_catalog.pg_advisory_unlock_all()

-- name: still_there
-- Nothing but an answer.
SELECT true
