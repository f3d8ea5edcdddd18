-- Who has signed in with a browser. Of the cookie only the SHA-256 is stored, as of a key. A session
-- that a key began ends with it: key_hash says with which of its texts. One that a token of an
-- identity provider began has no key, and what the token allowed instead.
CREATE TABLE browser_session (
    cookie_hash bytea       PRIMARY KEY,
    owner       text        NOT NULL,
    key_id      text,
    key_hash    bytea,
    scopes      text[],
    projects    text[],
    expires_at  timestamptz NOT NULL
);
