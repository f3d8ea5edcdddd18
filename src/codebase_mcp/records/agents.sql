-- name: open
-- Add an agent or find it by its name; bind it to a session, or to none.
INSERT INTO agent AS a (id, name, session_id, session_start)
VALUES (%(id)s, %(name)s, %(session_id)s, clock_timestamp())
ON CONFLICT (name) DO UPDATE
SET session_id = excluded.session_id,
    session_start = excluded.session_start,
    last_active_at = clock_timestamp()
RETURNING a.id;

-- name: track
-- Record an execution of an agent, in its own session if that is open, else in its caller's.
WITH doing AS (
    UPDATE agent
    SET last_active_at = clock_timestamp()
    WHERE name = %(name)s
    RETURNING id, session_id
)
INSERT INTO agent_execution (id, agent_id, session_id, tool_name, success, duration_ms, summary,
                             error)
SELECT %(id)s, doing.id, coalesce(s.id, %(open_session)s::text), %(tool_name)s::text,
       %(success)s::boolean, %(duration_ms)s::double precision, %(summary)s::text, %(error)s::text
FROM doing
LEFT JOIN session AS s ON s.id = doing.session_id AND s.ended_at IS NULL
RETURNING id;

-- name: find
-- An agent with its counts. A bound agent is active until its session ends, an unbound one for a
-- while after its last execution.
SELECT a.id, a.name, a.session_id, a.last_active_at,
       CASE WHEN a.session_id IS NULL THEN lately.is ELSE s.id IS NOT NULL END,
       lately.is,
       done.executions, done.successes, done.failures
FROM agent AS a
LEFT JOIN session AS s ON s.id = a.session_id AND s.ended_at IS NULL
CROSS JOIN LATERAL (
    SELECT a.last_active_at > clock_timestamp() - make_interval(mins => %(minutes)s) AS is
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
