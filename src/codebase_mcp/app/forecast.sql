-- name: has_index
-- Whether a schema holds what indexes are kept in.
SELECT to_regclass(quote_ident(%(schema)s) || '.snapshot') IS NOT NULL;

-- name: active_snapshot
-- What answers searches in a repository, and what it was made with.
SELECT s.id, s.generation, s.classifier, p.fingerprint
FROM snapshot AS s
JOIN profile AS p ON p.id = s.profile_id
WHERE s.repository_id = %(repository_id)s AND s.view = %(view)s AND s.active;
