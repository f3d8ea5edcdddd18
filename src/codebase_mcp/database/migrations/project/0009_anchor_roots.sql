-- Where the repository of an anchor lies, for as long as that is not indexed here: it was removed,
-- or the anchor was imported from a project that has it.
ALTER TABLE anchor ADD COLUMN root text;

UPDATE anchor AS a
SET root = r.root
FROM repository AS r
WHERE r.id = a.repository_id;
