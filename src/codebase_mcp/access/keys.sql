-- name: add_key
-- Store a new key.
INSERT INTO api_key (
    id, owner, secret_hash, scopes, projects, roots, requests_per_minute, expires_at
)
VALUES (
    %(id)s,
    %(owner)s,
    %(secret_hash)s,
    %(scopes)s,
    %(projects)s,
    %(roots)s,
    %(requests_per_minute)s,
    now() + make_interval(secs => %(expires_s)s)
)
RETURNING id, owner, scopes, projects, roots, requests_per_minute,
    created_at, expires_at, revoked_at, last_used_at, 'valid'

-- name: list_keys
-- All keys, the newest first, with the state of each.
SELECT id, owner, scopes, projects, roots, requests_per_minute,
    created_at, expires_at, revoked_at, last_used_at,
    CASE
        WHEN revoked_at IS NOT NULL THEN 'revoked'
        WHEN expires_at <= now() THEN 'expired'
        ELSE 'valid'
    END
FROM api_key
ORDER BY created_at DESC, id

-- name: has_valid_key
-- Whether there is a key that is neither revoked nor expired.
SELECT 1
FROM api_key
WHERE revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > now())
LIMIT 1

-- name: find_valid_key
-- A key that may be used, what its secrets hash to, and whether its last use is to be noted.
SELECT id, owner, scopes, projects, roots, requests_per_minute,
    created_at, expires_at, revoked_at, last_used_at, 'valid',
    secret_hash,
    CASE WHEN former_until > now() THEN former_hash END,
    last_used_at IS NULL OR last_used_at < now() - interval '1 minute'
FROM api_key
WHERE id = %(id)s
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > now())

-- name: note_use
-- A key was used now.
UPDATE api_key
SET last_used_at = now()
WHERE id = %(id)s

-- name: revoke_key
-- A key is not valid any more.
UPDATE api_key
SET revoked_at = now()
WHERE id = %(id)s
    AND revoked_at IS NULL
RETURNING id, owner, scopes, projects, roots, requests_per_minute,
    created_at, expires_at, revoked_at, last_used_at, 'revoked'

-- name: rotate_key
-- Give a valid key a new secret; the former one is valid for some more seconds.
UPDATE api_key
SET former_hash = secret_hash,
    former_until = now() + make_interval(secs => %(grace_s)s),
    secret_hash = %(secret_hash)s
WHERE id = %(id)s
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > now())
RETURNING id, owner, scopes, projects, roots, requests_per_minute,
    created_at, expires_at, revoked_at, last_used_at, 'valid'
