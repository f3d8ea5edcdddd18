-- A commit can be searched too. Its snapshot is named by the commit and is not active: a search
-- without a ref does not look at it. A snapshot may differ from a base: it stores the files that are
-- not the same there, and names those that it does not take over. A base has no base of its own. Most
-- are commits, which never change; before a working tree changes, it hands its files down.
ALTER TABLE snapshot ADD COLUMN base_id bigint;
ALTER TABLE snapshot ADD CONSTRAINT snapshot_base FOREIGN KEY (base_id) REFERENCES snapshot;
CREATE INDEX snapshot_base ON snapshot (base_id) WHERE base_id IS NOT NULL;
CREATE UNIQUE INDEX snapshot_commit ON snapshot (repository_id, view) WHERE view <> 'worktree';

-- Another value with each change of the snapshot's files, so that a copy in memory knows whether it
-- is still true.
ALTER TABLE snapshot ADD COLUMN version uuid NOT NULL DEFAULT gen_random_uuid();
DROP TABLE index_version;

-- What is left out of the repository beside what its files and the settings say.
ALTER TABLE repository ADD COLUMN ignore_patterns text[] NOT NULL DEFAULT '{}';

CREATE TABLE replaced_file (
    snapshot_id bigint           NOT NULL REFERENCES snapshot ON DELETE CASCADE,
    path        text COLLATE "C" NOT NULL,
    PRIMARY KEY (snapshot_id, path)
);

-- The files of each snapshot: its own, and those of its base that it does not replace.
CREATE VIEW view_file AS
SELECT snapshot_id, path, blob_id, size, mtime_ns, ctime_ns, language, extension, kind, name_terms
FROM file
UNION ALL
SELECT s.id, f.path, f.blob_id, f.size, f.mtime_ns, f.ctime_ns, f.language, f.extension, f.kind,
       f.name_terms
FROM file AS f
JOIN snapshot AS s ON s.base_id = f.snapshot_id
WHERE NOT EXISTS (
    SELECT
    FROM replaced_file AS r
    WHERE r.snapshot_id = s.id AND r.path = f.path
);

-- The names under which commits were asked for. A snapshot that no name leads to is forgotten. is_kept
-- is true of branches that are always searchable; of the others the last used are kept.
CREATE TABLE git_ref (
    repository_id uuid        NOT NULL REFERENCES repository ON DELETE CASCADE,
    name          text        NOT NULL,
    commit_hash   text        NOT NULL,
    is_kept       boolean     NOT NULL DEFAULT false,
    used_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (repository_id, name)
);
