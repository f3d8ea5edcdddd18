-- name: finish_job
-- A job ends, if the worker that says so still has it.
UPDATE procrastinate_jobs
SET status = %(status)s::procrastinate_job_status, abort_requested = false, attempts = attempts + 1
WHERE id = %(job_id)s
  AND worker_id = %(worker_id)s
  AND status = 'doing'

-- name: return_job
-- A job goes back to the queue, if the worker that says so still has it; one that was to be cancelled
-- is. Where another one waits in its place, both do. A try counts unless the worker has to end.
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
