"""The table of all settings. Flags, help, checks and the reference are made from it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from codebase_mcp.database.naming import validate_project_id
from codebase_mcp.embedding.providers import PROVIDERS
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.rules import (
    BRANCHES,
    DATABASE_URL,
    DIRECTORIES,
    HOST,
    HTTP_URL,
    LIST,
    NETWORKS,
    PATH,
    PATTERNS,
    PREFIX,
    TEXT,
    YES_OR_NO,
    Rule,
    Setting,
    above_zero,
    one_of,
    some_of,
    whole_number,
)
from codebase_mcp.settings.toolsets import DEFAULT_TOOLSETS, PRESETS, TOOLSETS

DEFAULT_REPLY_CHARS = 2_000
MAX_REPLY_CHARS = 4_000
DEFAULT_CALLS = 8


def _project_id(text: str) -> str:
    try:
        return validate_project_id(text)
    except InvalidInput as error:
        raise ValueError from error


PROJECT = Rule("lower case letters and digits, joined by single - or _", _project_id, "PROJECT")


def _row(section: str, variable: str, default: Any, rule: Rule, text: str, /, **facts: Any) -> Any:
    make = default if callable(default) else lambda: default
    setting = Setting(variable, make, rule, text, section=section, **facts)
    return field(metadata={"setting": setting})


_program = partial(_row, "Program")
_database = partial(_row, "Database")
_embedding = partial(_row, "Embedding")
_indexing = partial(_row, "Indexing")
_server = partial(_row, "Server")
_access = partial(_row, "Access")
_repository = partial(_row, "Repository")


@dataclass(frozen=True, slots=True, repr=False)
class SettingValues:
    """A value for each setting: its variable, its default, its rule and its help."""

    data_dir: Path = _program(
        "CODEBASE_MCP_DATA_DIR",
        lambda: user_data_path("codebase-mcp", appauthor=False),
        PATH,
        "Folder for all data, such as the embedded database and its log.",
        default_words="the user's data folder",
    )
    toolsets: tuple[str, ...] = _program(
        "CODEBASE_MCP_TOOLSETS",
        DEFAULT_TOOLSETS,
        some_of(TOOLSETS, PRESETS),
        "Toolsets to show, separated by commas; 'agent' is code,find,symbols, 'all' is every one.",
    )
    replies: str = _program(
        "CODEBASE_MCP_REPLIES",
        "auto",
        one_of("json", "text", "auto"),
        "Form of replies over MCP: json, text to read, or auto: text for known coding agents.",
    )
    reply_chars: int = _program(
        "CODEBASE_MCP_REPLY_CHARS",
        DEFAULT_REPLY_CHARS,
        whole_number(200, MAX_REPLY_CHARS),
        "Characters of a text reply of search_code, where the call names no max_chars.",
    )
    project_dir: Path | None = _program(
        "CODEBASE_MCP_PROJECT_DIR",
        None,
        PATH,
        "Directory that the client works in, if the server was started in another.",
        also="CLAUDE_PROJECT_DIR",
        default_words="the working directory",
    )
    workflow_url: str | None = _program(
        "WORKFLOW_MCP_URL",
        None,
        HTTP_URL,
        "Address of a workflow-mcp that is asked for the active project.",
    )
    log_level: str = _program(
        "CODEBASE_MCP_LOG_LEVEL",
        "WARNING",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        "Lowest level that is logged to standard error.",
    )
    log_format: str = _program(
        "CODEBASE_MCP_LOG_FORMAT",
        "text",
        one_of("text", "json"),
        "Format of the log: text for people, or json with one object per line.",
    )
    otlp_endpoint: str | None = _program(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        None,
        HTTP_URL,
        "OpenTelemetry collector that traces are sent to (OTLP over HTTP).",
    )
    database_url: str | None = _database(
        "DATABASE_URL",
        None,
        DATABASE_URL,
        "A PostgreSQL (15 or newer, pgvector 0.8 or newer) to use instead of the embedded one.",
        is_secret=True,
        default_words="the embedded one",
    )
    direct_database_url: str | None = _database(
        "DIRECT_DATABASE_URL",
        None,
        DATABASE_URL,
        "The same database without a pooler, for locks that need their own session.",
        is_secret=True,
    )
    db_pool_size: int = _database(
        "DB_POOL_SIZE",
        20,
        whole_number(1, 1000),
        "Connections kept to the PostgreSQL of DATABASE_URL.",
    )
    db_max_overflow: int = _database(
        "DB_MAX_OVERFLOW",
        10,
        whole_number(0, 1000),
        "Further connections to it while all of those are in use.",
    )
    project_roles: str = _database(
        "CODEBASE_MCP_PROJECT_ROLES",
        "auto",
        one_of("auto", "off"),
        "Give each project a database role of its own: auto (where it may be created) or off.",
    )
    search_timeout_s: float = _database(
        "CODEBASE_MCP_SEARCH_TIMEOUT",
        30.0,
        above_zero("seconds", 3600),
        "Seconds that a statement of a search may take.",
    )
    idle_minutes: float = _database(
        "CODEBASE_MCP_IDLE_MINUTES",
        5.0,
        above_zero("minutes", 1440),
        "Minutes after its last use until the embedded database stops.",
    )
    embedding_provider: str | None = _embedding(
        "CODEBASE_MCP_EMBEDDING_PROVIDER",
        None,
        one_of(*PROVIDERS),
        "Provider of embeddings: static alone, or another in addition to the built-in model.",
        default_words="ollama where OLLAMA_BASE_URL is set, onnx for a folder with a network,"
        " else static",
    )
    embedding_model: str | None = _embedding(
        "CODEBASE_MCP_EMBEDDING_MODEL",
        None,
        TEXT,
        "Folder of a Model2Vec or an ONNX model, or the provider's name of a model.",
        also="EMBEDDING_MODEL",
        default_words="built in, "
        + " or ".join(f"{e.default_model} ({n})" for n, e in PROVIDERS.items() if e.is_service),
    )
    ollama_url: str | None = _embedding(
        "OLLAMA_BASE_URL",
        None,
        HTTP_URL,
        "Address of an Ollama server.",
        default_words=PROVIDERS["ollama"].default_url,
    )
    openai_url: str | None = _embedding(
        "CODEBASE_MCP_OPENAI_BASE_URL",
        None,
        HTTP_URL,
        "Address of an OpenAI-compatible endpoint, up to and including /v1.",
        also="OPENAI_BASE_URL",
        default_words=PROVIDERS["openai"].default_url,
    )
    openai_api_key: str | None = _embedding(
        "CODEBASE_MCP_OPENAI_API_KEY",
        None,
        TEXT,
        "API key for it. It has no flag, because other users of the machine can see flags.",
        also="OPENAI_API_KEY",
        is_secret=True,
        has_flag=False,
    )
    embedding_batch_size: int = _embedding(
        "EMBEDDING_BATCH_SIZE",
        50,
        whole_number(1, 1000),
        "Texts in one request to Ollama or an OpenAI-compatible endpoint.",
    )
    embedding_timeout_s: float = _embedding(
        "CODEBASE_MCP_EMBEDDING_TIMEOUT",
        60.0,
        above_zero("seconds", 3600),
        "Seconds that such a request may take.",
    )
    embedding_query_prefix: str | None = _embedding(
        "CODEBASE_MCP_EMBEDDING_QUERY_PREFIX",
        None,
        PREFIX,
        "Text before each question, for models that want one; 'none' for none.",
        default_words="what the model wants, if it is a common one",
    )
    embedding_passage_prefix: str | None = _embedding(
        "CODEBASE_MCP_EMBEDDING_PASSAGE_PREFIX",
        None,
        PREFIX,
        "Text before each passage of code; 'none' for none.",
        default_words="what the model wants, if it is a common one",
    )
    workers: int = _indexing(
        "CODEBASE_MCP_WORKERS",
        lambda: os.cpu_count() or 1,
        whole_number(1, 256),
        "Processes that read and embed while indexing.",
        default_words="number of processors",
    )
    jobs: int = _indexing(
        "CODEBASE_MCP_JOBS",
        1,
        whole_number(0, 64),
        "Background jobs that a server runs at once; 0 leaves them to codebase-mcp worker.",
    )
    auto_index: str = _indexing(
        "CODEBASE_MCP_AUTO_INDEX",
        "always",
        one_of("always", "never"),
        "Whether the first question in a repository that is not indexed indexes it.",
    )
    check_ms: int = _indexing(
        "CODEBASE_MCP_CHECK_MS",
        150,
        whole_number(0, 60_000),
        "Milliseconds that a search may spend on updating the index first; 0 never checks.",
    )
    search_memory_mb: int = _indexing(
        "CODEBASE_MCP_SEARCH_MEMORY_MB",
        512,
        whole_number(0, 1_048_576),
        "Megabytes of indexes that a server may keep in memory; 0 always asks the database.",
    )
    watch: bool = _indexing(
        "CODEBASE_MCP_WATCH",
        False,
        YES_OR_NO,
        "Watch the files of all indexed repositories while the server runs.",
    )
    include_secrets: tuple[str, ...] = _indexing(
        "CODEBASE_MCP_INCLUDE_SECRETS",
        (),
        PATTERNS,
        "Files to index with the secrets in them; a repository cannot set it.",
    )
    transport: str = _server(
        "CODEBASE_MCP_TRANSPORT",
        "stdio",
        one_of("stdio", "http", "all"),
        "What is served: stdio, http, or all of them by one process.",
    )
    host: str = _server("CODEBASE_MCP_HOST", "127.0.0.1", HOST, "Address to bind to.")
    port: int = _server(
        "CODEBASE_MCP_PORT", 3000, whole_number(0, 65535), "Port to bind to; 0 takes any free one."
    )
    audit: bool = _server(
        "CODEBASE_MCP_AUDIT",
        True,
        YES_OR_NO,
        "Keep an audit log of calls over HTTP: who, tool, project, when, outcome.",
    )
    audit_days: int = _server(
        "CODEBASE_MCP_AUDIT_DAYS", 90, whole_number(1, 3650), "Days that its entries are kept."
    )
    sse: bool = _server(
        "CODEBASE_MCP_SSE", False, YES_OR_NO, "Serve the older SSE transport too, at /sse."
    )
    allowed_hosts: tuple[str, ...] = _server(
        "CODEBASE_MCP_ALLOWED_HOSTS",
        (),
        LIST,
        "Further names that clients reach the server by (the Host header), separated by commas.",
    )
    allowed_origins: tuple[str, ...] = _server(
        "CODEBASE_MCP_ALLOWED_ORIGINS",
        (),
        LIST,
        "Further origins whose pages may call it (the Origin header), separated by commas.",
    )
    roots: tuple[str, ...] = _server(
        "CODEBASE_MCP_ROOTS",
        (),
        DIRECTORIES,
        "Directory below which callers other than the server's user may index; repeatable.",
        flag_name="--root",
    )
    http_workers: int = _server(
        "CODEBASE_MCP_HTTP_WORKERS", 1, whole_number(1, 64), "Processes that answer over HTTP."
    )
    http_connections: int = _server(
        "CODEBASE_MCP_HTTP_CONNECTIONS",
        1000,
        whole_number(1, 100_000),
        "Connections that each of them keeps open; at most half of its file descriptors.",
    )
    http_timeout_s: float = _server(
        "CODEBASE_MCP_HTTP_TIMEOUT",
        30.0,
        above_zero("seconds", 3600),
        "Seconds that a client may take to send a request's headers or body, or to read.",
    )
    no_auth: bool = _access(
        "CODEBASE_MCP_NO_AUTH",
        False,
        YES_OR_NO,
        "Ask for no key: everyone who reaches the port may read and change everything.",
    )
    require_keys: bool = _access(
        "CODEBASE_MCP_REQUIRE_KEYS",
        False,
        YES_OR_NO,
        "Ask the server's own user on this machine for a key too, as behind a proxy.",
    )
    read_only: bool = _access(
        "CODEBASE_MCP_READ_ONLY",
        False,
        YES_OR_NO,
        "Serve only what reads, to every caller and over stdio too.",
    )
    allow_ip: tuple[str, ...] = _access(
        "CODEBASE_MCP_ALLOW_IP",
        (),
        NETWORKS,
        "Networks that may call, such as 10.0.0.0/8; other addresses get 403. May be repeated.",
        default_words="every address",
    )
    public_url: str | None = _access(
        "CODEBASE_MCP_PUBLIC_URL",
        None,
        HTTP_URL,
        "Address that clients reach the server by, for OAuth's metadata and cookies of pages.",
        default_words="http:// with host and port",
    )
    jwt_issuer: str | None = _access(
        "CODEBASE_MCP_JWT_ISSUER",
        None,
        HTTP_URL,
        "Identity provider whose JWTs are accepted; the issuer that they name.",
    )
    jwt_audience: str | None = _access(
        "CODEBASE_MCP_JWT_AUDIENCE", None, TEXT, "Audience that its JWTs must name."
    )
    jwt_jwks_url: str | None = _access(
        "CODEBASE_MCP_JWT_JWKS_URL", None, HTTP_URL, "Address of its public keys (JWKS)."
    )
    jwt_algorithm: str = _access(
        "CODEBASE_MCP_JWT_ALGORITHM",
        "RS256",
        one_of("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "Ed25519"),
        "Algorithm that its JWTs are signed with.",
    )
    jwt_scope_prefix: str = _access(
        "CODEBASE_MCP_JWT_SCOPE_PREFIX",
        "",
        TEXT,
        "What stands before read, write, index and admin in the scopes of its JWTs.",
        default_words="nothing",
    )
    jwt_projects_claim: str | None = _access(
        "CODEBASE_MCP_JWT_PROJECTS_CLAIM",
        None,
        TEXT,
        "Claim with the patterns of the projects that exist for its bearer.",
        default_words="none: all projects",
    )
    requests_per_minute: int | None = _server(
        "CODEBASE_MCP_REQUESTS_PER_MINUTE",
        None,
        whole_number(0, 1_000_000),
        "Requests over HTTP that a caller may make in a minute, if its key does not say it; 0 is"
        " any number.",
        default_words="600; any number for the user who runs the server",
    )
    calls: int = _server(
        "CODEBASE_MCP_CALLS",
        DEFAULT_CALLS,
        whole_number(1, 1000),
        "Calls that run at once in a process; 16 times as many wait, further ones are refused.",
    )
    project: str | None = _repository(
        "CODEBASE_MCP_PROJECT",
        None,
        PROJECT,
        "Project of calls that name none; takes precedence over a .mcp-context.toml.",
        keys=("project", "project_id", "collection", "project.id"),
        default_words="as docs/projects.md says",
    )
    ignore_patterns: tuple[str, ...] = _repository(
        "CODEBASE_MCP_IGNORE",
        (),
        PATTERNS,
        "Files and directories to exclude, in addition to ignore files and the other list.",
        keys=("git.ignore_patterns", "ignore_patterns"),
        joined=lambda ours, theirs: (*theirs, *ours),
    )
    include_submodules: bool = _repository(
        "CODEBASE_MCP_INCLUDE_SUBMODULES",
        True,
        YES_OR_NO,
        "Index the files of checked-out submodules too; they are not part of branches and commits.",
        keys=("git.include_submodules", "include_submodules"),
    )
    max_file_bytes: int = _repository(
        "CODEBASE_MCP_MAX_FILE_BYTES",
        1 << 20,
        whole_number(1, 1 << 30),
        "Larger files are not indexed; a .mcp-context.toml can only lower it.",
        keys=("max_file_bytes",),
        joined=min,
    )
    git_depth: int = _repository(
        "CODEBASE_MCP_GIT_DEPTH",
        0,
        whole_number(1, 10_000),
        "Commits of history to keep, unless index --history or index_codebase sets it.",
        keys=("git.depth",),
        default_words="as many as the run before; the first keeps none",
    )
    git_branches: tuple[str, ...] = _repository(
        "CODEBASE_MCP_GIT_BRANCHES",
        (),
        BRANCHES,
        "Branches that index runs keep searchable; others are indexed when a search asks.",
        keys=("git.branches",),
        default_words="none",
    )


SETTINGS: tuple[Setting, ...] = tuple(
    replace(row.metadata["setting"], name=row.name) for row in fields(SettingValues)
)
