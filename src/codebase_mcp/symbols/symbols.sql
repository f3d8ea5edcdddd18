-- fragment: its_files
-- The files of the states that hold text t. OFFSET 0 makes the planner look them up by the text: it
-- would read all files of a view.
CROSS JOIN LATERAL (
    SELECT v.snapshot_id, v.path, v.blob_id, v.language, v.kind
    FROM view_file AS v
    WHERE v.blob_id = t.blob_id AND v.snapshot_id = ANY(%(snapshots)s::bigint[])
    OFFSET 0
) AS f

-- fragment: no_field
-- Of definition s: it names its lines, as a field does not (model.FIELD_KINDS).
s.kind <> ALL ('{attribute,entry,enumerator,field,item}'::text[])

-- name: definitions
-- The definitions of some names, without regard to case, and without some kinds.
SELECT f.snapshot_id, f.path, f.blob_id, f.language, f.kind, t.name, t.qualified, t.kind,
       t.start_line, t.end_line, t.depth
FROM symbol AS t
{its_files}
WHERE t.folded = ANY(%(folded)s::text[]) AND t.kind <> ALL (%(without)s::text[])
LIMIT %(most)s;

-- name: common_names
-- Which of some names have more definitions than a limit, in any state and without some kinds.
SELECT asked.folded
FROM unnest(%(folded)s::text[]) AS asked (folded)
WHERE (
    SELECT count(*)
    FROM (
        SELECT
        FROM symbol AS s
        WHERE s.folded = asked.folded AND s.kind <> ALL (%(without)s::text[])
        LIMIT %(most)s + 1
    ) AS same
) > %(most)s;

-- name: uses
-- Where some names are used.
SELECT f.snapshot_id, f.path, f.blob_id, f.language, f.kind, asked.name, found.uses
FROM unnest(%(names)s::text[]) AS asked (name)
JOIN blob_reference AS t ON t.names @> ARRAY[asked.name]
CROSS JOIN LATERAL (SELECT t.uses[array_position(t.names, asked.name)] AS uses OFFSET 0) AS found
{its_files}
WHERE (%(blobs)s::bigint[] IS NULL OR t.blob_id = ANY(%(blobs)s))
  AND (NOT %(only_imports)s OR found.uses LIKE 'i%%' OR found.uses LIKE E'%%\ni%%')
LIMIT %(most)s;

-- name: surroundings
-- What some texts inherit from, and what they import under some names, or all of it. The letters of
-- the ways and the tabs in them are those of text/references.py. Names are looked up in one hash
-- table, made of a subquery that is no condition: "&&", or "= ANY" in a plan for any parameters,
-- compares each with each, and a join would make the table again for each row.
SELECT r.blob_id, used.name, used.ways
FROM blob_reference AS r, unnest(r.names, r.uses) AS used (name, ways)
WHERE r.blob_id = ANY(%(blobs)s::bigint[])
  AND (
      ways LIKE 'b%%' OR ways LIKE E'%%\nb%%'
      OR (ways LIKE 'i%%' OR ways LIKE E'%%\ni%%')
      AND (
          r.blob_id = ANY(%(whole)s::bigint[])
          OR (
              SELECT bool_or(word IN (SELECT unnest(%(names)s::text[])))
              FROM unnest(
                  used.name || string_to_array(translate(ways, E'\n', E'\t'), E'\t')
              ) AS word
          )
      )
  );

-- name: declared
-- What some texts declare to have some types, or of which type they declare some names, and where
-- they read these. The letters are those of text/references.py; each list is one hash table, as for
-- "surroundings".
SELECT r.blob_id, used.name, used.ways
FROM blob_reference AS r, unnest(r.names, r.uses) AS used (name, ways)
WHERE r.blob_id = ANY(%(blobs)s::bigint[])
  AND (
      (ways LIKE E'd\t%%' OR ways LIKE E'%%\nd\t%%')
      AND (
          used.name IN (SELECT unnest(%(types)s::text[]))
          OR (
              SELECT bool_or(trim('.()=' FROM word) IN (SELECT unnest(%(receivers)s::text[])))
              FROM unnest(string_to_array(translate(ways, E'\n', E'\t'), E'\t')) AS word
          )
      )
      OR used.name IN (SELECT unnest(%(receivers)s::text[]))
  );

-- name: around
-- The definitions around some lines, or the items, each once, the outermost first. The buckets are the numbers of
-- lines up to a definition's end, and before it.
SELECT s.blob_id, s.name, s.qualified, s.kind, s.start_line, s.end_line, s.depth
FROM (
    SELECT places.blob_id, array_agg(places.line ORDER BY places.line) AS lines
    FROM unnest(%(blobs)s::bigint[], %(lines)s::integer[]) AS places (blob_id, line)
    GROUP BY places.blob_id
) AS asked
JOIN symbol AS s ON s.blob_id = asked.blob_id
WHERE width_bucket(s.end_line, asked.lines) > width_bucket(s.start_line - 1, asked.lines)
  AND CASE WHEN %(items)s THEN s.kind = 'item' ELSE {no_field} END
ORDER BY s.depth, s.start_line, s.qualified COLLATE "C", s.end_line;

-- name: files
-- The files at a path or below it; those that end in it where there are none.
SELECT snapshot_id, path, blob_id, language, kind
FROM view_file
WHERE snapshot_id = ANY(%(snapshots)s::bigint[])
  AND (path = %(path)s OR starts_with(path, %(path)s || '/') OR %(path)s = ''
       OR %(anywhere)s AND right(path, length(%(path)s) + 1) = '/' || %(path)s)
ORDER BY path, snapshot_id
LIMIT %(most)s;

-- name: build_files
-- The directories of the repositories of some snapshots, each with the texts of its files at some
-- paths, or once without a text.
SELECT s.id, r.root, file.path, file.text
FROM snapshot AS s
JOIN repository AS r ON r.id = s.repository_id
LEFT JOIN (
    SELECT f.snapshot_id, f.path, b.text
    FROM view_file AS f
    JOIN blob AS b ON b.id = f.blob_id
    WHERE f.snapshot_id = ANY(%(snapshots)s::bigint[]) AND f.path = ANY(%(paths)s::text[])
) AS file ON file.snapshot_id = s.id
WHERE s.id = ANY(%(snapshots)s::bigint[]);

-- name: outline
-- The definitions of some texts; with fields only if asked.
SELECT s.blob_id, s.name, s.qualified, s.kind, s.start_line, s.end_line, s.depth
FROM symbol AS s
WHERE s.blob_id = ANY(%(blobs)s::bigint[])
  AND (%(fields)s AND s.kind <> 'item' OR {no_field})
  AND s.depth <= %(deepest)s
ORDER BY s.blob_id, s.start_line, s.depth;

-- name: nearest_names
-- Names that may be another one with a typing error, or contain it.
SELECT DISTINCT s.name
FROM symbol AS s
JOIN view_file AS f ON f.blob_id = s.blob_id
WHERE f.snapshot_id = ANY(%(snapshots)s::bigint[])
  AND s.kind <> ALL ('{item,section,key,selector}'::text[])
  AND (
      left(s.folded, 1) = left(%(folded)s, 1) AND abs(length(s.folded) - length(%(folded)s)) <= 2
      OR strpos(s.folded, %(folded)s) > 0
  )
LIMIT %(most)s;

-- name: used_in
-- The names that some texts use, each with its uses.
SELECT r.blob_id, each_name.name, each_name.uses
FROM blob_reference AS r, unnest(r.names, r.uses) AS each_name (name, uses)
WHERE r.blob_id = ANY(%(blobs)s::bigint[]);
