-- The indexed branches that reach a commit where HEAD does not; empty for what HEAD reaches, which all
-- commits are that were read before.
ALTER TABLE commit_entry ADD COLUMN branches text[] NOT NULL DEFAULT '{}';
