-- name: keep_session
-- A session that only listens must outlive pauses, and end soon when its client's machine does.
SELECT
    pg_catalog.set_config('idle_session_timeout', '0', false),
    pg_catalog.set_config('tcp_keepalives_idle', '30', false),
    pg_catalog.set_config('tcp_keepalives_interval', '10', false),
    pg_catalog.set_config('tcp_keepalives_count', '3', false)

-- name: be_present
-- Share the lock that says: I am here. It falls with the session.
SELECT pg_catalog.pg_advisory_lock_shared(%(key)s)

-- name: be_absent
-- Give the lock back.
SELECT pg_catalog.pg_advisory_unlock_shared(%(key)s)

-- name: count_present
-- How many share it; a lock of 64 bits is shown in two halves.
SELECT count(*)
FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND d.datname = current_database()
  AND l.classid::bigint = (%(key)s::bigint >> 32) & 4294967295
  AND l.objid::bigint = %(key)s::bigint & 4294967295
