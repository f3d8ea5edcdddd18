-- name: missing
-- Some commits without what they are found by, or with what another model made.
SELECT e.repository_id, e.hash, e.message, e.paths
FROM commit_entry AS e
LEFT JOIN commit_text AS t ON t.repository_id = e.repository_id AND t.hash = e.hash
WHERE t.model IS DISTINCT FROM %(model)s
ORDER BY e.repository_id, e.hash
LIMIT %(limit)s;

-- name: mask
-- Messages whose secrets are masked now.
UPDATE commit_entry AS e
SET message = masked.message
FROM unnest(%(repository_ids)s::uuid[], %(hashes)s::bytea[], %(messages)s::text[])
    AS masked (repository_id, hash, message)
WHERE e.repository_id = masked.repository_id AND e.hash = masked.hash
    AND e.message <> masked.message;

-- name: store
-- What commits are found by; of those that are still there.
INSERT INTO commit_text (repository_id, hash, model, terms, lex, subject, dense)
SELECT e.repository_id, e.hash, %(model)s, made.terms::integer[], made.lex::sparsevec,
       made.subject::halfvec, made.dense::halfvec
FROM unnest(%(repository_ids)s::uuid[], %(hashes)s::bytea[], %(terms)s::text[], %(lex)s::text[],
            %(subjects)s::text[], %(dense)s::text[])
    AS made (repository_id, hash, terms, lex, subject, dense)
JOIN commit_entry AS e ON e.repository_id = made.repository_id AND e.hash = made.hash
ORDER BY e.repository_id, e.hash
ON CONFLICT (repository_id, hash) DO UPDATE
SET model = excluded.model, terms = excluded.terms, lex = excluded.lex,
    subject = excluded.subject, dense = excluded.dense;
