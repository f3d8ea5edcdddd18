-- For which repository the terms of a text are counted; null where no file that is searched by default
-- holds it. A text that several hold is counted once. The id is a label that blob and term_frequency
-- share, no more: it stays when the repository is removed or restored under another id. What was counted
-- before has a label of its own.
ALTER TABLE blob ADD COLUMN counted_for uuid DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE blob ALTER COLUMN counted_for DROP DEFAULT;
UPDATE blob
SET counted_for = NULL
WHERE NOT searchable;
DROP INDEX blob_hidden;
ALTER TABLE blob DROP COLUMN searchable;
CREATE INDEX blob_counted ON blob (counted_for, id);

-- In how many of the chunks that are counted for a repository a term occurs.
ALTER TABLE term_frequency
    ADD COLUMN counted_for uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE term_frequency ALTER COLUMN counted_for DROP DEFAULT;
ALTER TABLE term_frequency DROP CONSTRAINT term_frequency_pkey;
ALTER TABLE term_frequency ADD PRIMARY KEY (term, counted_for);

-- Where there are several repositories all is counted again, for the one that held a text first.
UPDATE blob
SET counted_for = (
    SELECT s.repository_id
    FROM file AS f
    JOIN snapshot AS s ON s.id = f.snapshot_id
    WHERE f.blob_id = blob.id AND s.active
    ORDER BY s.id
    LIMIT 1
)
WHERE counted_for IS NOT NULL AND (SELECT count(*) FROM repository) > 1;
DELETE FROM term_frequency
WHERE (SELECT count(*) FROM repository) > 1;
INSERT INTO term_frequency (term, counted_for, chunks)
SELECT term, b.counted_for, count(*)
FROM blob AS b
JOIN chunk AS c ON c.blob_id = b.id, unnest(ARRAY[-1] || c.terms) AS term
WHERE b.counted_for IS NOT NULL AND (SELECT count(*) FROM repository) > 1
GROUP BY term, b.counted_for;
