-- name: find_roles
-- The role of each of these schemas of projects: its name, whether it exists, whether this session may set it,
-- whether its grants are complete, whether it reaches pgvector, and by a grant of its own; whether
-- we may make and drop roles, whether this is a Citus cluster, and our own role. Roles belong to
-- the whole server, so the name holds the number of the database. The tables of a schema are those
-- that depend on it: pg_class has no index for that, and 100 rows for each project.
WITH wanted AS (
    SELECT
        s.schema,
        format('cbm_%%s_%%s', lpad(to_hex(d.oid::bigint), 8, '0'), substr(s.schema, 9)) AS name,
        current_setting('server_version_num')::integer >= 160000 AS has_set_option
    FROM pg_catalog.pg_database AS d
    CROSS JOIN unnest(%(schemas)s::text[]) AS s (schema)
    WHERE d.datname = current_database()
)
SELECT
    wanted.name,
    r.oid IS NOT NULL,
    coalesce(pg_has_role(
        session_user, r.oid, CASE WHEN wanted.has_set_option THEN 'SET' ELSE 'MEMBER' END
    ), false),
    coalesce(
        has_schema_privilege(r.oid, n.oid, 'USAGE')
        AND NOT EXISTS (
            SELECT
            FROM pg_catalog.pg_depend AS e
            JOIN pg_catalog.pg_class AS c ON c.oid = e.objid
            WHERE e.refclassid = 'pg_catalog.pg_namespace'::regclass
                AND e.refobjid = n.oid
                AND e.classid = 'pg_catalog.pg_class'::regclass
                AND c.relkind IN ('r', 'p', 'v')
                AND NOT has_table_privilege(r.oid, c.oid, 'INSERT')
        ),
        false
    ),
    coalesce(has_schema_privilege(r.oid, v.oid, 'USAGE'), false),
    EXISTS (SELECT FROM aclexplode(v.nspacl) AS a WHERE a.grantee = r.oid),
    me.rolsuper OR me.rolcreaterole,
    me.rolsuper
        OR (me.rolcreaterole AND NOT wanted.has_set_option)
        OR coalesce(pg_has_role(me.oid, r.oid, 'MEMBER WITH ADMIN OPTION'), false),
    to_regproc('pg_catalog.citus_schema_distribute') IS NOT NULL,
    me.rolname,
    wanted.schema,
    %(vector_schema)s::text
FROM wanted
JOIN pg_catalog.pg_roles AS me ON me.rolname = current_user
LEFT JOIN pg_catalog.pg_roles AS r ON r.rolname = wanted.name
LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = wanted.schema
LEFT JOIN pg_catalog.pg_namespace AS v ON v.nspname = %(vector_schema)s

-- name: create
CREATE ROLE {role} NOLOGIN

-- name: join
GRANT {role} TO SESSION_USER

-- name: grant
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}

-- name: grant_vectors
-- Seldom needed: every role may use the schema public, unless an administrator has changed that.
GRANT USAGE ON SCHEMA {vector_schema} TO {role}

-- name: revoke_vectors
REVOKE USAGE ON SCHEMA {vector_schema} FROM {role}

-- name: drop
DROP ROLE {role}
