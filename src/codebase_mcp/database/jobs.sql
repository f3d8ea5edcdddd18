-- name: finish_job
-- Finish a job, if this worker still owns it.
UPDATE procrastinate_jobs
SET status = %(status)s::procrastinate_job_status, abort_requested = false, attempts = attempts + 1
WHERE id = %(job_id)s
  AND worker_id = %(worker_id)s
  AND status = 'doing'

-- name: return_job
-- Return a job to the queue, if this worker still owns it; a job to be cancelled is cancelled. If
-- another job for the same repository waits, both do. A stopped worker's attempt does not count.
WITH returned AS (
    UPDATE procrastinate_jobs AS j
    SET status = CASE WHEN j.abort_requested THEN 'aborted' ELSE 'todo' END::procrastinate_job_status,
        abort_requested = false,
        attempts = j.attempts + CASE WHEN %(retry_at)s::timestamptz IS NULL THEN 0 ELSE 1 END,
        scheduled_at = %(retry_at)s::timestamptz,
        worker_id = NULL,
        queueing_lock = CASE
            WHEN NOT EXISTS (
                SELECT
                FROM procrastinate_jobs AS other
                WHERE other.queueing_lock = j.queueing_lock AND other.status = 'todo'
            ) THEN j.queueing_lock
        END
    WHERE j.id = %(job_id)s
      AND j.worker_id = %(worker_id)s
      AND j.status = 'doing'
    RETURNING j.id, j.queue_name
)
SELECT pg_catalog.pg_notify(
    'procrastinate_queue_v1#' || queue_name,
    json_build_object('type', 'job_inserted', 'job_id', id)::text
)
FROM returned
