-- Who may call over HTTP. Of a key only the SHA-256 is stored: it has 256 random bits, so nothing
-- slower is needed. The former secret is valid for a while after a rotation.
CREATE TABLE api_key (
    id                  text        PRIMARY KEY,
    owner               text        NOT NULL,
    secret_hash         bytea       NOT NULL,
    former_hash         bytea,
    former_until        timestamptz,
    scopes              text[]      NOT NULL,
    projects            text[]      NOT NULL,
    requests_per_minute integer,
    created_at          timestamptz NOT NULL DEFAULT now(),
    expires_at          timestamptz,
    revoked_at          timestamptz,
    last_used_at        timestamptz
);
