-- name: start
-- Start a session, or open it again; it belongs to the last caller that started it, if known.
INSERT INTO session AS s (id, owner, directory, start_branch, start_commit)
VALUES (%(id)s, %(owner)s, %(directory)s, %(branch)s, %(commit)s)
ON CONFLICT (id) DO UPDATE
SET owner = coalesce(excluded.owner, s.owner),
    directory = coalesce(excluded.directory, s.directory),
    ended_at = NULL,
    end_branch = NULL,
    end_commit = NULL
RETURNING s.id, s.started_at, s.ended_at, s.directory, s.start_branch, s.start_commit,
          s.end_branch, s.end_commit;

-- name: end
-- End a session; one that has already ended keeps its time.
UPDATE session
SET ended_at = coalesce(ended_at, statement_timestamp()),
    end_branch = CASE WHEN ended_at IS NULL THEN %(branch)s ELSE end_branch END,
    end_commit = CASE WHEN ended_at IS NULL THEN %(commit)s ELSE end_commit END
WHERE id = %(id)s
RETURNING id, started_at, ended_at, directory, start_branch, start_commit, end_branch, end_commit;

-- name: find
-- One session.
SELECT id, started_at, ended_at, directory, start_branch, start_commit, end_branch, end_commit
FROM session
WHERE id = %(id)s;

-- name: open_session
-- The session that a caller works in.
SELECT id
FROM session
WHERE owner = %(owner)s AND ended_at IS NULL
ORDER BY started_at DESC
LIMIT 1;

-- name: touched_tasks
-- Tasks that were created or changed in a session, the last changed first.
SELECT t.id, t.title, t.status, max(e.at) AS at
FROM task_event AS e
JOIN task AS t ON t.id = e.task_id
WHERE e.session_id = %(id)s
GROUP BY t.id
ORDER BY at DESC, t.id
LIMIT %(limit)s;

-- name: active_agents
-- Agents bound to a session, and agents with executions in it; with the counts of these.
SELECT a.id, a.name, count(e.id), count(e.id) FILTER (WHERE e.success IS FALSE),
       coalesce(max(e.at), a.session_start) AS at
FROM agent AS a
LEFT JOIN agent_execution AS e ON e.agent_id = a.id AND e.session_id = %(id)s
WHERE a.session_id = %(id)s
   OR a.id IN (SELECT agent_id FROM agent_execution WHERE session_id = %(id)s)
GROUP BY a.id
ORDER BY at DESC, a.name
LIMIT %(limit)s;

-- name: newest
-- The sessions that began last, with the number of observations in each.
SELECT s.id, s.started_at, s.ended_at, s.start_branch,
       (SELECT count(*) FROM observation AS o WHERE o.session_id = s.id)
FROM session AS s
ORDER BY s.started_at DESC, s.id
LIMIT %(limit)s;

-- name: open_agent
-- Add an agent or find it by its name; bind it to a session, or to none.
INSERT INTO agent AS a (id, name, session_id, session_start)
VALUES (%(id)s, %(name)s, %(session_id)s, statement_timestamp())
ON CONFLICT (name) DO UPDATE
SET session_id = excluded.session_id,
    session_start = excluded.session_start,
    last_active_at = excluded.last_active_at
RETURNING a.id;

-- name: track
-- Record an execution of an agent, in its own session if that is open, else in its caller's.
INSERT INTO agent_execution (id, agent_id, session_id, tool_name, success, duration_ms, summary,
                             error)
SELECT %(id)s, doing.id, coalesce(s.id, %(open_session)s::text), %(tool_name)s::text,
       %(success)s::boolean, %(duration_ms)s::double precision, %(summary)s::text, %(error)s::text
FROM agent AS doing
LEFT JOIN session AS s ON s.id = doing.session_id AND s.ended_at IS NULL
WHERE doing.name = %(name)s
RETURNING id;

-- name: touch_agent
-- An agent does something now.
UPDATE agent
SET last_active_at = statement_timestamp()
WHERE name = %(name)s;

-- name: find_agent
-- An agent with its counts. A bound agent is active until its session ends, an unbound one for a
-- while after its last execution.
SELECT a.id, a.name, a.session_id, a.last_active_at,
       CASE WHEN a.session_id IS NULL THEN lately.is ELSE s.id IS NOT NULL END,
       lately.is,
       done.executions, done.successes, done.failures
FROM agent AS a
LEFT JOIN session AS s ON s.id = a.session_id AND s.ended_at IS NULL
CROSS JOIN LATERAL (
    SELECT a.last_active_at > statement_timestamp() - make_interval(mins => %(minutes)s) AS is
) AS lately
CROSS JOIN LATERAL (
    SELECT count(*) AS executions, count(*) FILTER (WHERE e.success) AS successes,
           count(*) FILTER (WHERE NOT e.success) AS failures
    FROM agent_execution AS e
    WHERE e.agent_id = a.id
) AS done
WHERE a.name = %(name)s;

-- name: recent
-- The executions of an agent, newest first.
SELECT e.id, e.at, e.session_id, e.tool_name, e.success, e.duration_ms, e.summary, e.error
FROM agent AS a
JOIN agent_execution AS e ON e.agent_id = a.id
WHERE a.name = %(name)s
ORDER BY e.at DESC, e.id DESC
LIMIT %(limit)s;
