-- name: export_session
-- Sessions as lines, without their callers, which mean nothing elsewhere.
SELECT to_json(started_at) #>> '{}', id, json_build_object(
    'kind', 'session', 'id', id, 'started_at', started_at, 'ended_at', ended_at,
    'directory', directory, 'start_branch', start_branch, 'start_commit', start_commit,
    'end_branch', end_branch, 'end_commit', end_commit)::text
FROM session
WHERE (started_at, id) > (%(after)s::timestamptz, %(after_id)s::text)
  AND (%(ids)s::text[] IS NULL OR id = ANY(%(ids)s::text[]))
ORDER BY started_at, id
LIMIT %(limit)s;

-- name: export_agent
-- Agents as lines.
SELECT to_json(created_at) #>> '{}', id::text, json_build_object(
    'kind', 'agent', 'id', id, 'name', name, 'created_at', created_at, 'session_id', session_id,
    'session_start', session_start, 'last_active_at', last_active_at)::text
FROM agent
WHERE (created_at, id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (%(ids)s::text[] IS NULL OR id = ANY(%(ids)s::uuid[]))
ORDER BY created_at, id
LIMIT %(limit)s;

-- name: export_agent_execution
-- Executions of agents as lines.
SELECT to_json(at) #>> '{}', id::text, json_build_object(
    'kind', 'agent_execution', 'id', id, 'agent_id', agent_id, 'session_id', session_id, 'at', at,
    'tool_name', tool_name, 'success', success, 'duration_ms', duration_ms, 'summary', summary,
    'error', error)::text
FROM agent_execution
WHERE (at, id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (%(ids)s::text[] IS NULL OR id = ANY(%(ids)s::uuid[]))
ORDER BY at, id
LIMIT %(limit)s;

-- name: export_task
-- Tasks as lines, with links and history.
SELECT to_json(t.created_at) #>> '{}', t.id::text, json_build_object(
    'kind', 'task', 'id', t.id, 'title', t.title, 'description', t.description, 'notes', t.notes,
    'status', t.status, 'planning_references', t.planning_references, 'created_at', t.created_at,
    'updated_at', t.updated_at,
    'links', (
        SELECT coalesce(json_agg(json_build_object(
            'kind', l.kind, 'value', l.value, 'linked_at', l.linked_at)
            ORDER BY l.linked_at, l.kind, l.value), '[]')
        FROM task_link AS l
        WHERE l.task_id = t.id),
    'events', (
        SELECT coalesce(json_agg(json_build_object(
            'at', e.at, 'field', e.field, 'old', e.old, 'new', e.new, 'session_id', e.session_id)
            ORDER BY e.ordinal), '[]')
        FROM task_event AS e
        WHERE e.task_id = t.id))::text
FROM task AS t
WHERE (t.created_at, t.id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (%(ids)s::text[] IS NULL OR t.id = ANY(%(ids)s::uuid[]))
ORDER BY t.created_at, t.id
LIMIT %(limit)s;

-- name: export_observation
-- Observations as lines, without vectors and terms, which the import creates.
SELECT to_json(o.created_at) #>> '{}', o.id::text, json_build_object(
    'kind', 'observation', 'id', o.id, 'content', o.content, 'type', o.type, 'tags', o.tags,
    'session_id', o.session_id, 'created_at', o.created_at, 'stored_at', o.stored_at,
    'times_stored', o.times_stored)::text
FROM observation AS o
WHERE (o.created_at, o.id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (%(ids)s::text[] IS NULL OR o.id = ANY(%(ids)s::uuid[]))
ORDER BY o.created_at, o.id
LIMIT %(limit)s;

-- name: export_entity_type
-- Entity types as lines, with every version of their schemas.
SELECT to_json(t.created_at) #>> '{}', t.id::text, json_build_object(
    'kind', 'entity_type', 'id', t.id, 'name', t.name, 'description', t.description,
    'version', t.version, 'created_at', t.created_at, 'updated_at', t.updated_at,
    'versions', (
        SELECT json_agg(json_build_object(
            'version', v.version, 'schema', v.schema, 'created_at', v.created_at)
            ORDER BY v.version)
        FROM entity_type_version AS v
        WHERE v.type_id = t.id))::text
FROM entity_type AS t
WHERE (t.created_at, t.id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (%(ids)s::text[] IS NULL OR t.id = ANY(%(ids)s::uuid[]))
ORDER BY t.created_at, t.id
LIMIT %(limit)s;

-- name: export_entity
-- Entities as lines, deleted ones too.
SELECT to_json(e.created_at) #>> '{}', e.id::text, json_build_object(
    'kind', 'entity', 'id', e.id, 'type_id', e.type_id, 'name', e.name, 'data', e.data,
    'tags', e.tags, 'version', e.version, 'schema_version', e.schema_version,
    'created_at', e.created_at, 'updated_at', e.updated_at, 'deleted_at', e.deleted_at)::text
FROM entity AS e
WHERE (e.created_at, e.id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (%(ids)s::text[] IS NULL OR e.id = ANY(%(ids)s::uuid[]))
ORDER BY e.created_at, e.id
LIMIT %(limit)s;

-- name: export_work_item
-- Work items as lines; the path follows from the parents.
SELECT to_json(w.created_at) #>> '{}', w.id::text, json_build_object(
    'kind', 'work_item', 'id', w.id, 'item_type', w.item_type, 'title', w.title,
    'description', w.description, 'status', w.status, 'parent_id', w.parent_id,
    'created_at', w.created_at, 'updated_at', w.updated_at, 'completed_at', w.completed_at)::text
FROM work_item AS w
WHERE (w.created_at, w.id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (%(ids)s::text[] IS NULL OR w.id = ANY(%(ids)s::uuid[]))
ORDER BY w.created_at, w.id
LIMIT %(limit)s;

-- name: export_anchor
-- Anchors as lines.
SELECT to_json(a.created_at) #>> '{}', a.id::text, json_build_object(
    'kind', 'anchor', 'id', a.id, 'record_kind', a.record_kind, 'record_id', a.record_id,
    'ordinal', a.ordinal, 'repository', a.root, 'file', a.file, 'symbol', a.symbol,
    'commit', a.commit, 'start_line', a.start_line, 'end_line', a.end_line,
    'hash', encode(a.hash, 'hex'), 'state', a.state, 'reason', a.reason,
    'moved_from', a.moved_from, 'created_at', a.created_at)::text
FROM anchor AS a
WHERE (a.created_at, a.id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  AND (%(ids)s::text[] IS NULL OR a.id = ANY(%(ids)s::uuid[]))
ORDER BY a.created_at, a.id
LIMIT %(limit)s;

-- name: import_session
-- Import sessions that do not exist yet; returns their ids, as the following statements do.
INSERT INTO session (id, started_at, ended_at, directory, start_branch, start_commit, end_branch,
                     end_commit)
SELECT id, started_at, ended_at, directory, start_branch, start_commit, end_branch, end_commit
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id text, started_at timestamptz, ended_at timestamptz, directory text, start_branch text,
    start_commit text, end_branch text, end_commit text)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: import_agent
-- Import agents whose id and name do not exist yet.
INSERT INTO agent (id, name, created_at, session_id, session_start, last_active_at)
SELECT id, name, created_at, session_id, session_start, last_active_at
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, name text, created_at timestamptz, session_id text, session_start timestamptz,
    last_active_at timestamptz)
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: find_agent_execution
-- The executions of existing agents.
SELECT line.id::text, NULL
FROM agent
JOIN jsonb_to_recordset(%(lines)s::text::jsonb) AS line (id uuid, agent_id uuid)
    ON agent.id = line.agent_id;

-- name: import_agent_execution
-- Import them.
INSERT INTO agent_execution (id, agent_id, session_id, at, tool_name, success, duration_ms,
                             summary, error)
SELECT line.id, line.agent_id, line.session_id, line.at, line.tool_name, line.success,
       line.duration_ms, line.summary, line.error
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, agent_id uuid, session_id text, at timestamptz, tool_name text, success boolean,
    duration_ms double precision, summary text, error text)
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: import_task
-- Import tasks that do not exist yet.
INSERT INTO task (id, title, description, notes, status, planning_references, created_at, updated_at)
SELECT id, title, description, notes, status,
       ARRAY(SELECT jsonb_array_elements_text(line.planning_references)), created_at, updated_at
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, title text, description text, notes text, status text,
    planning_references jsonb, created_at timestamptz, updated_at timestamptz)
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: import_links
-- The links of tasks that were imported.
INSERT INTO task_link (task_id, kind, value, linked_at)
SELECT line.id, link.kind, link.value, link.linked_at
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (id uuid, links jsonb)
CROSS JOIN jsonb_to_recordset(line.links) AS link (kind text, value text, linked_at timestamptz)
ON CONFLICT DO NOTHING;

-- name: import_events
-- The history of tasks that were imported.
INSERT INTO task_event (task_id, ordinal, at, field, old, new, session_id)
SELECT line.id, event.ordinal, (event.event ->> 'at')::timestamptz, event.event ->> 'field',
       event.event ->> 'old', event.event ->> 'new', event.event ->> 'session_id'
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (id uuid, events jsonb)
CROSS JOIN jsonb_array_elements(line.events) WITH ORDINALITY AS event (event, ordinal);

-- name: import_entity_type
-- Import entity types whose id and name do not exist yet.
INSERT INTO entity_type (id, name, folded, description, version, created_at, updated_at)
SELECT id, name, folded, description, version, created_at, updated_at
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, name text, folded text, description text, version integer,
    created_at timestamptz, updated_at timestamptz)
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: import_versions
-- The versions of the schemas of types that were imported.
INSERT INTO entity_type_version (type_id, version, schema, created_at)
SELECT line.id, (item.part ->> 'version')::integer, (item.part ->> 'schema_text')::json,
       (item.part ->> 'created_at')::timestamptz
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (id uuid, versions jsonb)
CROSS JOIN jsonb_array_elements(line.versions) AS item (part);

-- name: schemas_of
-- The schemas that the data of entities must match.
SELECT v.type_id, v.version, t.name, v.schema::text
FROM entity_type_version AS v
JOIN entity_type AS t ON t.id = v.type_id
WHERE v.type_id = ANY(%(types)s);

-- name: find_entity
-- The entities whose type exists.
SELECT line.id::text, NULL
FROM entity_type AS t
JOIN jsonb_to_recordset(%(lines)s::text::jsonb) AS line (id uuid, type_id uuid)
    ON t.id = line.type_id;

-- name: import_entity
-- Import those whose id and name do not exist yet.
INSERT INTO entity (id, type_id, name, data, tags, version, schema_version, created_at, updated_at,
                    deleted_at)
SELECT line.id, line.type_id, line.name, line.data,
       ARRAY(SELECT jsonb_array_elements_text(line.tags)), line.version, line.schema_version,
       line.created_at, line.updated_at, line.deleted_at
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, type_id uuid, name text, data jsonb, tags jsonb, version integer,
    schema_version integer, created_at timestamptz, updated_at timestamptz,
    deleted_at timestamptz)
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: find_work_item
-- The work items of one level without a parent, or with one of a higher level; and their paths.
SELECT line.id::text, coalesce(parent.path, '') || line.id || '/'
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (id uuid, parent_id uuid)
LEFT JOIN work_item AS parent
    ON parent.id = line.parent_id AND parent.item_type = ANY(%(above)s::text[])
WHERE line.parent_id IS NULL OR parent.id IS NOT NULL;

-- name: import_work_item
-- Import those that do not exist yet.
INSERT INTO work_item (id, item_type, title, description, status, parent_id, path, created_at,
                       updated_at, completed_at)
SELECT line.id, line.item_type, line.title, line.description, line.status, line.parent_id,
       line.found, line.created_at, line.updated_at, line.completed_at
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, item_type text, title text, description text, status text, parent_id uuid,
    found text, created_at timestamptz, updated_at timestamptz, completed_at timestamptz)
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: find_anchor
-- The anchors of existing records, and the repository with the same root, if it is indexed here.
SELECT line.id::text, r.id::text
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, record_kind text, record_id uuid, repository text)
LEFT JOIN repository AS r ON r.root = line.repository
WHERE EXISTS (SELECT FROM task AS t WHERE t.id = line.record_id AND line.record_kind = 'task')
   OR EXISTS (
       SELECT FROM observation AS o
       WHERE o.id = line.record_id AND line.record_kind = 'observation')
   OR EXISTS (SELECT FROM entity AS e WHERE e.id = line.record_id AND line.record_kind = 'entity')
   OR EXISTS (
       SELECT FROM work_item AS w
       WHERE w.id = line.record_id AND line.record_kind = 'work_item');

-- name: import_anchor
-- Import those that do not exist yet.
INSERT INTO anchor (id, record_kind, record_id, ordinal, repository_id, root, file, symbol, commit,
                    start_line, end_line, hash, state, reason, moved_from, created_at)
SELECT line.id, line.record_kind, line.record_id, line.ordinal, line.found, line.repository, line.file,
       line.symbol, line.commit, line.start_line, line.end_line, decode(line.hash, 'hex'),
       line.state, line.reason, line.moved_from, line.created_at
FROM jsonb_to_recordset(%(lines)s::text::jsonb) AS line (
    id uuid, record_kind text, record_id uuid, ordinal integer, repository text, file text,
    symbol text, commit text, start_line integer, end_line integer, hash text, state text,
    reason text, moved_from text, created_at timestamptz, found uuid)
ON CONFLICT DO NOTHING
RETURNING id::text;
