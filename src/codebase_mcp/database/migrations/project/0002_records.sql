-- What agents and people keep beside the code. Records outlive any index, so nothing here refers to
-- its tables; and nothing refers outside this schema.

-- A stretch of work of one caller. At most one session of an owner is open for what it stores.
CREATE TABLE session (
    id            text        PRIMARY KEY,
    owner         text,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    directory     text,
    start_branch  text,
    start_commit  text,
    end_branch    text,
    end_commit    text
);
CREATE INDEX session_open ON session (owner, started_at DESC) WHERE ended_at IS NULL;

CREATE TABLE agent (
    id             uuid        PRIMARY KEY,
    name           text        NOT NULL UNIQUE,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    session_id     text,
    session_start  timestamptz,
    last_active_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE agent_execution (
    id          uuid        PRIMARY KEY,
    agent_id    uuid        NOT NULL REFERENCES agent ON DELETE CASCADE,
    session_id  text,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    tool_name   text,
    success     boolean,
    duration_ms double precision,
    summary     text,
    error       text
);
CREATE INDEX agent_execution_agent ON agent_execution (agent_id, at DESC);
CREATE INDEX agent_execution_session ON agent_execution (session_id, at DESC)
    WHERE session_id IS NOT NULL;

CREATE TABLE task (
    id                  uuid        PRIMARY KEY,
    title               text        NOT NULL,
    description         text,
    notes               text,
    status              text        NOT NULL,
    planning_references text[]      NOT NULL DEFAULT '{}',
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX task_newest ON task (created_at DESC, id DESC);
CREATE INDEX task_status ON task (status, created_at DESC, id DESC);
-- For counting: few distinct values make a small index, which is read a third faster.
CREATE INDEX task_counted ON task (status);

-- The branches and commits of a task; the latest linked of each kind is the one that is shown.
CREATE TABLE task_link (
    task_id   uuid             NOT NULL REFERENCES task ON DELETE CASCADE,
    kind      text             NOT NULL,
    value     text COLLATE "C" NOT NULL,
    linked_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (task_id, kind, value)
);
CREATE INDEX task_link_value ON task_link (kind, value, task_id);

-- Each change of a task's status, branch or commit; the first row of a task is its creation.
CREATE TABLE task_event (
    task_id    uuid        NOT NULL REFERENCES task ON DELETE CASCADE,
    ordinal    integer     NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    field      text        NOT NULL,
    old        text,
    new        text,
    session_id text,
    PRIMARY KEY (task_id, ordinal)
);
CREATE INDEX task_event_session ON task_event (session_id) WHERE session_id IS NOT NULL;

-- terms picks observations, lex scores them, dense is their meaning; made with one model.
CREATE TABLE observation (
    id           uuid        PRIMARY KEY,
    content      text        NOT NULL,
    content_hash bytea       NOT NULL UNIQUE,
    type         text        NOT NULL,
    tags         text[]      NOT NULL DEFAULT '{}',
    session_id   text,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    stored_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    times_stored integer     NOT NULL DEFAULT 1,
    model        text        NOT NULL,
    terms        integer[]   NOT NULL,
    lex          sparsevec(1000000000) NOT NULL
);
CREATE INDEX observation_newest ON observation (created_at DESC, id DESC);
CREATE INDEX observation_session ON observation (session_id, created_at DESC)
    WHERE session_id IS NOT NULL;
CREATE INDEX observation_tags ON observation USING gin (tags) WITH (fastupdate = off);
CREATE INDEX observation_terms ON observation USING gin (terms) WITH (fastupdate = off);
CREATE INDEX observation_model ON observation (model);

-- Apart from observation, so that an exact scan reads little but vectors. Number 0 is the vector of
-- the whole, the others are those of its passages, if it has several.
CREATE TABLE observation_vector (
    observation_id uuid    NOT NULL REFERENCES observation ON DELETE CASCADE,
    ordinal        integer NOT NULL,
    dense          halfvec NOT NULL,
    PRIMARY KEY (observation_id, ordinal)
);

-- folded is the name without regard to case, by which a type is found.
CREATE TABLE entity_type (
    id          uuid        PRIMARY KEY,
    name        text        NOT NULL,
    folded      text        NOT NULL UNIQUE,
    description text,
    version     integer     NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE entity_type_version (
    type_id    uuid        NOT NULL REFERENCES entity_type ON DELETE CASCADE,
    version    integer     NOT NULL,
    schema     json        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (type_id, version)
);

-- schema_version is the version of its type's schema that the data was last held against.
CREATE TABLE entity (
    id             uuid        PRIMARY KEY,
    type_id        uuid        NOT NULL REFERENCES entity_type,
    name           text        NOT NULL,
    data           jsonb       NOT NULL,
    tags           text[]      NOT NULL DEFAULT '{}',
    version        integer     NOT NULL DEFAULT 1,
    schema_version integer     NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at     timestamptz
);
CREATE UNIQUE INDEX entity_name ON entity (type_id, name) WHERE deleted_at IS NULL;
CREATE INDEX entity_newest ON entity (type_id, updated_at DESC, id DESC);
CREATE INDEX entity_counted ON entity (type_id) WHERE deleted_at IS NULL;
CREATE INDEX entity_data ON entity USING gin (data jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX entity_tags ON entity USING gin (tags) WITH (fastupdate = off);

-- path holds the ids from the root to the item itself, each followed by a slash.
CREATE TABLE work_item (
    id           uuid             PRIMARY KEY,
    item_type    text             NOT NULL,
    title        text             NOT NULL,
    description  text,
    status       text             NOT NULL,
    parent_id    uuid             REFERENCES work_item,
    path         text COLLATE "C" NOT NULL UNIQUE,
    created_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    completed_at timestamptz
);
CREATE INDEX work_item_newest ON work_item (created_at DESC, id DESC);
CREATE INDEX work_item_parent ON work_item (parent_id, created_at DESC, id DESC);
CREATE INDEX work_item_status ON work_item (status, created_at DESC, id DESC);
CREATE INDEX work_item_type ON work_item (item_type, created_at DESC, id DESC);

-- A place in the code that a record is about. hash is what stood there when the place was named or
-- last confirmed: of the whole file, or of the lines of the symbol. blob_id is the text in which it
-- was last seen; a place that is missing is not there now.
CREATE TABLE anchor (
    id            uuid        PRIMARY KEY,
    record_kind   text        NOT NULL,
    record_id     uuid        NOT NULL,
    ordinal       integer     NOT NULL,
    repository_id uuid,
    file          text,
    symbol        text,
    commit        text,
    start_line    integer,
    end_line      integer,
    hash          bytea,
    blob_id       bigint,
    is_missing    boolean     NOT NULL DEFAULT false,
    state         text        NOT NULL,
    reason        text,
    moved_from    text,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    checked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (record_id, ordinal)
);
CREATE INDEX anchor_place ON anchor (repository_id, file);
