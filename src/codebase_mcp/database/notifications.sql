-- name: keep_session
-- A listening session must survive long pauses, and end soon after its client's machine is gone.
SELECT
    pg_catalog.set_config('idle_session_timeout', '0', false),
    pg_catalog.set_config('tcp_keepalives_idle', '30', false),
    pg_catalog.set_config('tcp_keepalives_interval', '10', false),
    pg_catalog.set_config('tcp_keepalives_count', '3', false)

-- name: share_presence_lock
-- Take the shared lock that counts as one listener. It is released with the session.
SELECT pg_catalog.pg_advisory_lock_shared(%(key)s)

-- name: release_presence_lock
-- Release the lock.
SELECT pg_catalog.pg_advisory_unlock_shared(%(key)s)

-- name: count_listeners
-- How many sessions hold it; pg_locks shows a 64-bit key in two halves.
SELECT count(*)
FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_database AS d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND d.datname = current_database()
  AND l.classid::bigint = (%(key)s::bigint >> 32) & 4294967295
  AND l.objid::bigint = %(key)s::bigint & 4294967295
