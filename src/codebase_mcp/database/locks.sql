-- name: keep_session
-- A session that only holds a lock must survive long pauses, and end soon after its client's
-- machine is gone.
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
-- Release such a lock.
SELECT pg_catalog.pg_advisory_unlock(%(key)s)

-- name: release_all_session_locks
-- Release all locks of the session.
SELECT pg_catalog.pg_advisory_unlock_all()

-- name: still_there
-- Check that the session is alive.
SELECT true
