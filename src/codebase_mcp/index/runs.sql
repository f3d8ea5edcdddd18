-- name: begin
-- A run begins; what is known of the one before it goes.
INSERT INTO index_run (repository_id, operation_id, root, status, files_total, files_done)
VALUES (%(repository_id)s, %(operation_id)s, %(root)s, 'running', %(total)s, %(done)s)
ON CONFLICT (repository_id) DO UPDATE
SET operation_id = excluded.operation_id, root = excluded.root, status = 'running',
    files_total = excluded.files_total, files_done = excluded.files_done, files_indexed = 0,
    chunks_created = 0, current_file = NULL, errors = '[]', started_at = excluded.started_at, updated_at = excluded.updated_at,
    ended_at = NULL;

-- name: advance
-- One batch more is done.
UPDATE index_run
SET files_done = files_done + %(done)s, files_indexed = files_indexed + %(indexed)s,
    chunks_created = chunks_created + %(chunks)s, current_file = %(current_file)s,
    updated_at = now()
WHERE repository_id = %(repository_id)s;

-- name: end
-- How it ended. What could not be indexed is done too.
UPDATE index_run
SET status = %(status)s, errors = %(errors)s::text::jsonb, current_file = NULL,
    files_done = CASE WHEN %(status)s IN ('success', 'partial') THEN files_total ELSE files_done END,
    updated_at = now(), ended_at = now()
WHERE repository_id = %(repository_id)s;

-- name: cancel
-- It was wanted to end.
UPDATE index_run
SET status = 'cancelled', current_file = NULL, ended_at = coalesce(ended_at, now())
WHERE operation_id = %(operation_id)s AND status IN ('running', 'interrupted');

-- name: running
-- The runs that have not said that they ended.
SELECT repository_id, operation_id
FROM index_run
WHERE status = 'running';

-- name: runs
-- The newest run of each repository, or of one.
SELECT repository_id, operation_id, root, status, files_total, files_done, files_indexed,
       chunks_created, current_file, errors::text, started_at, updated_at, ended_at
FROM index_run
WHERE %(repository_id)s::uuid IS NULL OR repository_id = %(repository_id)s
ORDER BY root;

-- name: forget
-- A repository goes, and what is known of its runs.
DELETE FROM index_run
WHERE repository_id = %(repository_id)s;
