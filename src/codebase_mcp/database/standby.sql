-- name: position
-- Of the primary: which database it is, and how far its log is written. Whatever a session can see has been
-- flushed to the log, unless commits are asynchronous: then it has at least been inserted into it.
SELECT
    (pg_catalog.pg_control_system()).system_identifier,
    current_database()::text,
    log.lsn::text,
    ('x' || left(pg_catalog.pg_walfile_name(log.lsn), 8))::bit(32)::integer,
    EXISTS (
        SELECT
        FROM pg_catalog.pg_extension
        WHERE extname = 'citus'
    )
FROM (
    SELECT CASE current_setting('synchronous_commit')
        WHEN 'off' THEN pg_catalog.pg_current_wal_insert_lsn()
        ELSE pg_catalog.pg_current_wal_flush_lsn()
    END AS lsn
) AS log;

-- name: state
-- Of the standby: which database it is a copy of, and how many bytes of the log it lacks up to a position.
SELECT
    pg_catalog.pg_is_in_recovery(),
    (pg_catalog.pg_control_system()).system_identifier,
    current_database()::text,
    (pg_catalog.pg_control_recovery()).min_recovery_end_timeline,
    pg_catalog.pg_wal_lsn_diff(%(lsn)s::pg_lsn, pg_catalog.pg_last_wal_replay_lsn())::bigint;
