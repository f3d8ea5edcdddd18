-- The directories below which a key may index, of those that the server allows; NULL is all of them.
ALTER TABLE api_key ADD COLUMN roots text[];

-- Indexing has a scope of its own. Keys that exist may do what they could before.
UPDATE api_key
SET scopes = array_append(scopes, 'index')
WHERE 'write' = ANY (scopes);
