-- fragment: shown
-- The columns of the tasks that a statement has selected as ``selected``.
SELECT id, title, description, notes, status, created_at, updated_at, planning_references,
       ARRAY(
           SELECT link.value
           FROM task_link AS link
           WHERE link.task_id = selected.id AND link.kind = 'branch'
           ORDER BY link.linked_at, link.value) AS branches,
       ARRAY(
           SELECT link.value
           FROM task_link AS link
           WHERE link.task_id = selected.id AND link.kind = 'commit'
           ORDER BY link.linked_at, link.value) AS commits,
       ARRAY(
           SELECT jsonb_build_array(
               anchor.repository_id, anchor.file, anchor.symbol, anchor.commit, anchor.start_line,
               anchor.end_line, anchor.state, anchor.reason, anchor.moved_from)
           FROM anchor
           WHERE anchor.record_id = selected.id
           ORDER BY anchor.ordinal) AS anchors
FROM selected
ORDER BY created_at DESC, id DESC

-- fragment: of_branch
-- Whether a task has a branch of this prefix; no code point sorts after chr(1114111).
EXISTS (
    SELECT FROM task_link AS link
    WHERE link.task_id = task.id
      AND link.kind = 'branch'
      AND link.value >= %(branch)s
      AND link.value < %(branch)s || chr(1114111))

-- name: task
-- A task by its id.
WITH selected AS (
    SELECT id, title, description, notes, status, created_at, updated_at, planning_references
    FROM task
    WHERE id = %(id)s
)
{shown};

-- name: plan_for_values
-- Plan the statements of this transaction for their actual parameters: absent filters are then
-- optimized away, each given one can use its index, and the plan depends on how many branches have
-- the prefix.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: newest_tasks
-- A page of the tasks, with a status if given.
WITH selected AS (
    SELECT id, title, description, notes, status, created_at, updated_at, planning_references
    FROM task
    WHERE (%(status)s::text IS NULL OR status = %(status)s)
      AND (created_at, id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
    ORDER BY created_at DESC, id DESC
    OFFSET %(offset)s
    LIMIT %(limit)s
)
{shown};

-- name: newest_tasks_of_branch
-- The same for the tasks with a branch of a prefix.
WITH selected AS (
    SELECT id, title, description, notes, status, created_at, updated_at, planning_references
    FROM task
    WHERE {of_branch}
      AND (%(status)s::text IS NULL OR status = %(status)s)
      AND (created_at, id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
    ORDER BY created_at DESC, id DESC
    OFFSET %(offset)s
    LIMIT %(limit)s
)
{shown};

-- name: count_tasks
-- The number of tasks, with a status if given.
SELECT count(*)
FROM task
WHERE (%(status)s::text IS NULL OR status = %(status)s);

-- name: count_tasks_of_branch
-- The number of those with a branch of this prefix.
SELECT count(*)
FROM task
WHERE {of_branch}
  AND (%(status)s::text IS NULL OR status = %(status)s);

-- name: history
-- The changes of a task's status, branch and commit, oldest first.
SELECT at, field, old, new
FROM task_event
WHERE task_id = %(id)s AND field <> 'text'
ORDER BY ordinal;

-- name: create_task
-- Add a task.
INSERT INTO task (id, title, description, notes, status, planning_references, created_at, updated_at)
SELECT %(id)s, %(title)s, %(description)s, %(notes)s, %(status)s, %(planning_references)s::text[],
       now, now
FROM statement_timestamp() AS now;

-- name: begin_history
-- The first event of a new task.
INSERT INTO task_event (task_id, ordinal, at, field, new, session_id)
SELECT t.id, 1, t.created_at, 'status', t.status,
       (SELECT id
        FROM session
        WHERE owner = %(owner)s AND ended_at IS NULL
        ORDER BY started_at DESC
        LIMIT 1)
FROM task AS t
WHERE t.id = %(id)s;

-- name: lock_task
-- Lock a task against changes until the transaction ends. Later statements see earlier changes of
-- others.
SELECT id
FROM task
WHERE id = %(id)s
FOR NO KEY UPDATE;

-- name: before_update
-- Of a locked task: its status, branch and commit, whether the ``given`` columns change it otherwise,
-- the number of its last event, the caller's session, the time, and the time of new links. That is later
-- than those of the existing ones, even if these were made by a clock that is ahead.
SELECT status,
       (SELECT link.value
        FROM task_link AS link
        WHERE link.task_id = task.id AND link.kind = 'branch'
        ORDER BY link.linked_at DESC, link.value DESC
        LIMIT 1),
       (SELECT link.value
        FROM task_link AS link
        WHERE link.task_id = task.id AND link.kind = 'commit'
        ORDER BY link.linked_at DESC, link.value DESC
        LIMIT 1),
       'anchors' = ANY(%(given)s::text[])
           OR ('title' = ANY(%(given)s::text[]) AND title <> %(title)s)
           OR ('description' = ANY(%(given)s::text[])
               AND description IS DISTINCT FROM %(description)s)
           OR ('notes' = ANY(%(given)s::text[]) AND notes IS DISTINCT FROM %(notes)s)
           OR ('planning_references' = ANY(%(given)s::text[])
               AND planning_references <> %(planning_references)s::text[]),
       (SELECT coalesce(max(ordinal), 0) FROM task_event WHERE task_id = task.id),
       (SELECT id
        FROM session
        WHERE owner = %(owner)s AND ended_at IS NULL
        ORDER BY started_at DESC
        LIMIT 1),
       statement_timestamp(),
       greatest(
           statement_timestamp(),
           (SELECT max(link.linked_at) + interval '1 microsecond'
            FROM task_link AS link
            WHERE link.task_id = task.id))
FROM task
WHERE id = %(id)s;

-- name: unlink
-- Forget all branches or commits of a task.
DELETE FROM task_link
WHERE task_id = %(id)s AND kind = ANY(%(unlinked)s);

-- name: link
-- Link a branch or a commit.
INSERT INTO task_link (task_id, kind, value, linked_at)
SELECT %(id)s, made.kind, made.value, %(linked_at)s
FROM unnest(%(linked)s::text[], %(values)s::text[]) AS made (kind, value)
ON CONFLICT (task_id, kind, value) DO UPDATE
SET linked_at = excluded.linked_at;

-- name: add_events
-- Add to the history of a task.
INSERT INTO task_event (task_id, ordinal, at, field, old, new, session_id)
SELECT %(id)s, %(last)s + made.place, %(now)s, made.field, made.old, made.new, %(session_id)s
FROM unnest(%(fields)s::text[], %(olds)s::text[], %(news)s::text[])
    WITH ORDINALITY AS made (field, old, new, place);

-- name: update_task
-- Change the ``given`` columns of a task.
UPDATE task
SET title = CASE WHEN 'title' = ANY(%(given)s::text[]) THEN %(title)s ELSE title END,
    description = CASE
        WHEN 'description' = ANY(%(given)s::text[]) THEN %(description)s ELSE description END,
    notes = CASE WHEN 'notes' = ANY(%(given)s::text[]) THEN %(notes)s ELSE notes END,
    status = CASE WHEN 'status' = ANY(%(given)s::text[]) THEN %(status)s ELSE status END,
    planning_references = CASE
        WHEN 'planning_references' = ANY(%(given)s::text[]) THEN %(planning_references)s::text[]
        ELSE planning_references END,
    updated_at = %(now)s
WHERE id = %(id)s;
