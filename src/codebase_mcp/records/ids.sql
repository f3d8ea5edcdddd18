-- name: task_ids
-- Tasks whose ids lie in a range.
SELECT id
FROM task
WHERE id BETWEEN %(first)s::uuid AND %(last)s::uuid
LIMIT 2;

-- name: observation_ids
-- Observations whose ids lie in a range.
SELECT id
FROM observation
WHERE id BETWEEN %(first)s::uuid AND %(last)s::uuid
LIMIT 2;

-- name: work_item_ids
-- Work items whose ids lie in a range.
SELECT id
FROM work_item
WHERE id BETWEEN %(first)s::uuid AND %(last)s::uuid
LIMIT 2;
