-- name: record_counts
-- How many records of each kind and status or type there are.
SELECT 'task', status, count(*)
FROM task
GROUP BY status
UNION ALL
SELECT 'observation', type, count(*)
FROM observation
GROUP BY type
UNION ALL
SELECT 'session', '', count(*)
FROM session
UNION ALL
SELECT 'agent', '', count(*)
FROM agent
UNION ALL
SELECT 'entity', t.name, count(*)
FROM entity AS e
JOIN entity_type AS t ON t.id = e.type_id
WHERE e.deleted_at IS NULL
GROUP BY t.name
UNION ALL
SELECT 'work_item', status, count(*)
FROM work_item
GROUP BY status
ORDER BY 1, 3 DESC, 2
