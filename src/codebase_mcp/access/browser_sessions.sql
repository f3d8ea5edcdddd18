-- name: add_session
-- Begin a session; it ends after some seconds, or with the token that began it.
INSERT INTO browser_session (cookie_hash, owner, key_id, key_hash, scopes, projects, expires_at)
VALUES (
    %(cookie_hash)s,
    %(owner)s,
    %(key_id)s,
    %(key_hash)s,
    %(scopes)s,
    %(projects)s,
    least(now() + make_interval(secs => %(longest_s)s), to_timestamp(%(ends_at)s))
)

-- name: find_session
-- A session that has not ended by itself; whether its key is valid is not looked at.
SELECT owner, key_id, key_hash, scopes, projects
FROM browser_session
WHERE cookie_hash = %(cookie_hash)s
    AND expires_at > now()

-- name: end_session
-- End a session.
DELETE FROM browser_session
WHERE cookie_hash = %(cookie_hash)s

-- name: delete_ended_sessions
-- Forget the sessions that have ended.
DELETE FROM browser_session
WHERE expires_at <= now()
