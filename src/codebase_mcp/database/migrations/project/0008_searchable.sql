-- Whether a file of a snapshot that answers searches holds a text. Only such texts count in
-- term_frequency; those of a rebuild do not yet, and those that wait for the sweep do no longer.
ALTER TABLE blob ADD COLUMN searchable boolean NOT NULL DEFAULT true;
CREATE INDEX blob_hidden ON blob (id) WHERE NOT searchable;
UPDATE blob
SET searchable = false
WHERE NOT EXISTS (
    SELECT
    FROM file AS f
    JOIN snapshot AS s ON s.id = f.snapshot_id
    WHERE f.blob_id = blob.id AND s.active
);
UPDATE term_frequency AS t
SET chunks = t.chunks - hidden.chunks
FROM (
    SELECT term, count(*) AS chunks
    FROM chunk AS c
    JOIN blob AS b ON b.id = c.blob_id AND NOT b.searchable,
    LATERAL (SELECT unnest(c.terms) AS term UNION ALL SELECT -1) AS each_term
    GROUP BY term
) AS hidden
WHERE t.term = hidden.term;
DELETE FROM term_frequency
WHERE chunks <= 0 AND term <> -1;
