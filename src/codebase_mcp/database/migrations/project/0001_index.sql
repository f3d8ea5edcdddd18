-- The index of one project. Nothing here refers outside this schema.

-- What an index was made with: chunker, splitter and embedding model together.
CREATE TABLE profile (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text    NOT NULL UNIQUE,
    model       text    NOT NULL,
    dimension   integer NOT NULL
);

CREATE TABLE repository (
    id         uuid        PRIMARY KEY,
    root       text        NOT NULL UNIQUE,
    name       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A repository in one view. A generation that is being rebuilt is not active until it is whole.
CREATE TABLE snapshot (
    id            bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_id uuid    NOT NULL REFERENCES repository ON DELETE CASCADE,
    view          text    NOT NULL,
    generation    integer NOT NULL,
    profile_id    integer NOT NULL REFERENCES profile,
    active        boolean NOT NULL,
    classifier    integer NOT NULL,
    files_pending integer NOT NULL DEFAULT 0,
    skipped       jsonb   NOT NULL DEFAULT '{}',
    failures      jsonb   NOT NULL DEFAULT '[]',
    median_depth  real    NOT NULL DEFAULT 0,
    indexed_at    timestamptz
);
CREATE UNIQUE INDEX snapshot_active ON snapshot (repository_id, view) WHERE active;

-- One version of one text. The id is a hash of (hash, language, profile, generation), so that
-- processes which prepare rows need not ask for it. Nothing derived from a path is stored here.
CREATE TABLE blob (
    id          bigint  PRIMARY KEY,
    hash        bytea   NOT NULL,
    language    text    NOT NULL,
    profile_id  integer NOT NULL REFERENCES profile,
    generation  integer NOT NULL,
    chunk_count integer NOT NULL,
    text        text    NOT NULL,
    comments    sparsevec(1000000000) NOT NULL,
    released_at timestamptz
);
-- Compressing would cost more time, at both ends, than the space is worth.
ALTER TABLE blob ALTER COLUMN text SET STORAGE EXTERNAL;
CREATE INDEX blob_released ON blob (released_at) WHERE released_at IS NOT NULL;

CREATE TABLE file (
    snapshot_id bigint   NOT NULL REFERENCES snapshot ON DELETE CASCADE,
    path        text     NOT NULL,
    blob_id     bigint   NOT NULL REFERENCES blob,
    size        bigint   NOT NULL,
    mtime_ns    bigint   NOT NULL,
    ctime_ns    bigint   NOT NULL,
    language    text     NOT NULL,
    extension   text     NOT NULL,
    kind        text     NOT NULL,
    name_terms  integer[] NOT NULL,
    PRIMARY KEY (snapshot_id, path)
);
CREATE INDEX file_blob ON file (blob_id);
CREATE INDEX file_name_terms ON file USING gin (name_terms) WITH (fastupdate = off);

-- terms picks candidates, lex scores them: saturated term weights at 0-based positions term_id.
CREATE TABLE chunk (
    blob_id    bigint    NOT NULL,
    ordinal    integer   NOT NULL,
    start_line integer   NOT NULL,
    end_line   integer   NOT NULL,
    symbol     text,
    kind       text      NOT NULL,
    terms      integer[] NOT NULL,
    lex        sparsevec(1000000000) NOT NULL,
    PRIMARY KEY (blob_id, ordinal)
);
-- Rows stay whole in their page: fetching thousands of weights from elsewhere is what makes a
-- search slow, and they hardly compress.
ALTER TABLE chunk SET (toast_tuple_target = 8160);
ALTER TABLE chunk ALTER COLUMN lex SET STORAGE EXTERNAL, ALTER COLUMN terms SET STORAGE EXTERNAL;
CREATE INDEX chunk_terms ON chunk USING gin (terms);

-- Apart from chunk, so that an exact scan reads little but vectors.
CREATE TABLE chunk_vector (
    blob_id bigint  NOT NULL,
    ordinal integer NOT NULL,
    dense   halfvec NOT NULL,
    PRIMARY KEY (blob_id, ordinal)
);

CREATE TABLE symbol (
    blob_id    bigint   NOT NULL,
    name       text     NOT NULL,
    folded     text     NOT NULL,
    qualified  text     NOT NULL,
    kind       text     NOT NULL,
    start_line integer  NOT NULL,
    end_line   integer  NOT NULL,
    depth      smallint NOT NULL
);
CREATE INDEX symbol_blob ON symbol (blob_id);
CREATE INDEX symbol_folded ON symbol (folded);

-- In how many chunks of the project a term occurs; row -1 counts the chunks themselves.
CREATE TABLE term_frequency (
    term   integer PRIMARY KEY,
    chunks integer NOT NULL
) WITH (fillfactor = 70);
