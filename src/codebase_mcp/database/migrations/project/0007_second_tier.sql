-- Vectors of a stronger model, which come after a text is searchable. They lie among the others, under
-- a profile of their own; which chunks still lack one is not written down, their rows are missing.
-- answers is true of the model that searches use: another one takes its place when it is complete.
CREATE TABLE second_tier (
    profile_id integer PRIMARY KEY REFERENCES profile,
    answers    boolean NOT NULL
);

-- A stronger model that did not embed when it was last asked, and why.
CREATE TABLE second_tier_away (
    model text        PRIMARY KEY,
    error text        NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);
