-- name: enqueue
-- Add a job for an index run, or update the one that waits already: it gets the newest options and
-- keeps its operation. Job and run use the lock of the repository's runs.
INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
VALUES (%(queue)s, %(task)s, %(lock)s, %(lock)s, %(args)s::text::jsonb)
ON CONFLICT (queueing_lock) WHERE status = 'todo'::procrastinate_job_status
DO UPDATE
SET args = procrastinate_jobs.args || excluded.args || jsonb_build_object(
        'operation_id', procrastinate_jobs.args -> 'operation_id',
        'force', (procrastinate_jobs.args -> 'force')::boolean OR (excluded.args -> 'force')::boolean
    )
RETURNING id

-- name: enqueue_fetches
-- Add a job for each clone that has none and had none lately. The one before it is deleted: only
-- the last is of interest.
WITH due AS (
    SELECT clone.lock, clone.args
    FROM unnest(%(locks)s::text[], %(args)s::text[]) AS clone (lock, args)
    WHERE NOT EXISTS (
        SELECT
        FROM procrastinate_jobs AS j
        LEFT JOIN procrastinate_events AS e ON e.job_id = j.id
        WHERE j.queue_name = %(queue)s
          AND j.lock = clone.lock
          AND (
              j.status IN ('todo', 'doing')
              OR e.at > now() - make_interval(mins => %(minutes)s)
          )
    )
), former AS (
    DELETE FROM procrastinate_jobs AS j
    USING due
    WHERE j.queue_name = %(queue)s
      AND j.lock = due.lock
      AND j.args ? 'fetch'
)
INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
SELECT %(queue)s, %(task)s, due.lock, due.lock, due.args::jsonb
FROM due
ON CONFLICT (queueing_lock) WHERE status = 'todo'::procrastinate_job_status
DO NOTHING

-- name: jobs
-- Some jobs, or all of them: the newest last.
SELECT j.id, (j.args ->> 'operation_id')::uuid, j.args ->> 'project_id', j.args ->> 'schema_name',
       (j.args ->> 'repository_id')::uuid, j.args ->> 'root',
       CASE j.status
           WHEN 'todo' THEN 'waiting'
           WHEN 'doing' THEN 'running'
           WHEN 'succeeded' THEN 'done'
           WHEN 'failed' THEN 'failed'
           ELSE 'cancelled'
       END,
       j.abort_requested, (j.args -> 'error')::text,
       (SELECT min(e.at) FROM procrastinate_events AS e WHERE e.job_id = j.id),
       (SELECT max(e.at) FROM procrastinate_events AS e WHERE e.job_id = j.id AND e.type = 'started'),
       CASE WHEN j.status NOT IN ('todo', 'doing') THEN
           (SELECT max(e.at) FROM procrastinate_events AS e WHERE e.job_id = j.id)
       END
FROM procrastinate_jobs AS j
WHERE j.queue_name = %(queue)s
  AND (%(id)s::bigint IS NULL OR j.id = %(id)s)
  AND (%(schema_name)s::text IS NULL OR j.args ->> 'schema_name' = %(schema_name)s)
  AND (%(repository_id)s::text IS NULL OR j.args ->> 'repository_id' = %(repository_id)s)
ORDER BY j.id

-- name: cancel
-- Cancel waiting jobs, and request running ones to stop.
SELECT procrastinate_cancel_job_v1(j.id, true, false)
FROM procrastinate_jobs AS j
WHERE j.id = ANY(%(ids)s::bigint[])
  AND j.status IN ('todo', 'doing')

-- name: count_running
-- How many of some jobs run.
SELECT count(*)
FROM procrastinate_jobs
WHERE id = ANY(%(ids)s::bigint[])
  AND status = 'doing'

-- name: count_waiting
-- How many jobs wait, counted up to a number.
SELECT count(*)
FROM (
    SELECT
    FROM procrastinate_jobs
    WHERE queue_name = %(queue)s
      AND status = 'todo'
    LIMIT %(most)s
) AS waiting

-- name: forget
-- Delete jobs, except those that still run.
DELETE FROM procrastinate_jobs
WHERE id = ANY(%(ids)s::bigint[])
  AND status <> 'doing'

-- name: note_error
-- Store why a job failed, or has to be retried.
UPDATE procrastinate_jobs
SET args = args || jsonb_build_object('error', %(error)s::text::jsonb)
WHERE id = %(id)s

-- name: end_crashed
-- Jobs whose worker is dead: cancel those for which that was requested, and fail those that have
-- killed too many workers. A worker that resumes after a long pause has lost its job.
UPDATE procrastinate_jobs AS j
SET status = CASE WHEN j.abort_requested THEN 'aborted' ELSE 'failed' END::procrastinate_job_status,
    abort_requested = false,
    attempts = j.attempts + 1,
    worker_id = NULL,
    args = j.args || jsonb_build_object('error', %(error)s::text::jsonb)
WHERE j.queue_name = %(queue)s
  AND j.status = 'doing'
  AND (j.abort_requested OR coalesce((j.args -> 'crashes')::integer, 0) + 1 >= %(max_crashes)s)
  AND NOT EXISTS (
      SELECT
      FROM procrastinate_workers AS w
      WHERE w.id = j.worker_id
        AND w.last_heartbeat >= now() - make_interval(secs => %(dead_after_s)s)
  )
RETURNING j.id

-- name: return_crashed
-- Return the other jobs of dead workers to the queue, even if another of the same repository waits.
UPDATE procrastinate_jobs AS j
SET status = 'todo',
    attempts = j.attempts + 1,
    scheduled_at = NULL,
    worker_id = NULL,
    args = j.args || jsonb_build_object('crashes', coalesce((j.args -> 'crashes')::integer, 0) + 1),
    queueing_lock = CASE
        WHEN NOT EXISTS (
            SELECT
            FROM procrastinate_jobs AS other
            WHERE other.queueing_lock = j.queueing_lock AND other.status = 'todo'
        ) THEN j.queueing_lock
    END
WHERE j.queue_name = %(queue)s
  AND j.status = 'doing'
  AND NOT EXISTS (
      SELECT
      FROM procrastinate_workers AS w
      WHERE w.id = j.worker_id
        AND w.last_heartbeat >= now() - make_interval(secs => %(dead_after_s)s)
  )
RETURNING j.id

-- name: state
-- How many jobs are ready, waiting and running, and in how many seconds the next one is due.
SELECT count(*) FILTER (
           WHERE j.status = 'todo'
             AND coalesce(j.scheduled_at, now()) <= now()
             AND NOT EXISTS (
                 SELECT
                 FROM procrastinate_jobs AS other
                 WHERE other.lock = j.lock AND other.status = 'doing'
             )
       ),
       count(*) FILTER (WHERE j.status = 'todo'),
       count(*) FILTER (WHERE j.status = 'doing'),
       extract(
           epoch FROM min(j.scheduled_at) FILTER (WHERE j.status = 'todo' AND j.scheduled_at > now())
           - now()
       )::double precision
FROM procrastinate_jobs AS j
WHERE j.queue_name = %(queue)s
  AND j.status IN ('todo', 'doing')
