-- name: share_anchors
-- No index run updates anchors while they are being set. So a new anchor is either based on the
-- result of a run, or checked by that run.
SELECT pg_advisory_xact_lock_shared(hashtextextended('anchors ' || current_schema(), 0));

-- name: lock_record
-- Make other callers that set the anchors of this record wait.
SELECT pg_advisory_xact_lock(hashtextextended('anchors ' || %(record_id)s::uuid, 0));

-- name: repositories
-- The roots of the repositories.
SELECT id, root
FROM repository
ORDER BY root;

-- name: delete_anchors
-- Delete all anchors of a record.
DELETE FROM anchor
WHERE id IN (
    SELECT id
    FROM anchor
    WHERE record_id = %(record_id)s
    ORDER BY id
    FOR UPDATE
);

-- name: insert_anchors
-- Add the anchors of a record, in their order.
INSERT INTO anchor (id, record_kind, record_id, ordinal, repository_id, root, file, symbol, commit,
                    start_line, end_line, hash, blob_id, is_missing, state, reason)
SELECT n.id, %(kind)s, %(record_id)s, n.ordinal - 1, n.repository_id, r.root, n.file, n.symbol,
       n.commit, n.start_line, n.end_line, n.hash, n.blob_id, n.is_missing, n.state, n.reason
FROM unnest(%(ids)s::uuid[], %(repositories)s::uuid[], %(files)s::text[], %(symbols)s::text[],
            %(commits)s::text[], %(starts)s::integer[], %(ends)s::integer[], %(hashes)s::bytea[],
            %(blobs)s::bigint[], %(missing)s::boolean[], %(states)s::text[], %(reasons)s::text[])
    WITH ORDINALITY
    AS n (id, repository_id, file, symbol, commit, start_line, end_line, hash, blob_id, is_missing,
          state, reason, ordinal)
LEFT JOIN repository AS r ON r.id = n.repository_id;

-- name: anchors_of
-- The anchors of some records.
SELECT record_id, repository_id, file, symbol, commit, start_line, end_line, state, reason,
       moved_from
FROM anchor
WHERE record_id = ANY(%(ids)s)
ORDER BY record_id, ordinal;
