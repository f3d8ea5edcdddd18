"""The table of all settings, and the list of toolsets.

Flags, help, checks and the reference are made from the table. The variable of a setting is its name
in capitals after ``CODEBASE_MCP_``, unless its row gives another.
"""

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

# The toolsets with their tools, the only list of them: settings and commands read it without a tool
# being loaded. The module `codebase_mcp.tools.NAME` declares the tools of the toolset NAME.
TOOLS = {
    "code": ("index_repository", "search_code"),
    "index": ("index_codebase", "get_indexing_status", "clear_index"),
    "projects": (
        "project", "create_project", "switch_project", "get_active_project", "list_projects",
    ),
    "tasks": ("create_task", "get_task", "list_tasks", "update_task"),
    "memory": ("memory", "session"),
    "vcs": ("vcs",),
    "find": ("find_text", "find_context"),
    "symbols": ("symbol",),
    "agents": ("agent",),
    "entities": (
        "register_entity_type", "create_entity", "query_entities", "update_entity",
        "delete_entity", "update_entity_type_schema",
    ),
    "work_items": (
        "create_work_item", "update_work_item", "query_work_items", "get_work_item_hierarchy",
    ),
}  # fmt: skip
TOOLSETS = tuple(TOOLS)
TOOLSET_OF = {tool: toolset for toolset, tools in TOOLS.items() for tool in tools}
DEFAULT_TOOLSETS = ("code",)
# Coding agents get more toolsets, as they use only the tools that they see.
PRESETS = {"agent": ("code", "find", "symbols")}

DEFAULT_REPLY_CHARS = 2_000
MAX_REPLY_CHARS = 4_000
DEFAULT_CALLS = 8


def _project_id(text: str) -> str:
    try:
        return validate_project_id(text)
    except InvalidInput as error:
        raise ValueError from error


PROJECT = Rule("lower case letters and digits, joined by single - or _", _project_id, "PROJECT")


def _row(section: str, default: Any, rule: Rule, text: str, /, **facts: Any) -> Any:
    make = default if callable(default) else lambda: default
    return field(metadata={"setting": Setting(make, rule, text, section=section, **facts)})


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
        lambda: user_data_path("codebase-mcp", appauthor=False),
        PATH,
        "Folder for all data, such as the embedded database and its log.",
        default_words="the user's data folder",
    )
    toolsets: tuple[str, ...] = _program(
        DEFAULT_TOOLSETS,
        some_of(TOOLSETS, PRESETS),
        "Toolsets to show, separated by commas; 'agent' is code,find,symbols, 'all' is every one.",
    )
    replies: str = _program(
        "auto",
        one_of("json", "text", "auto"),
        "Form of replies over MCP: json, text to read, or auto: text for known coding agents.",
    )
    reply_chars: int = _program(
        DEFAULT_REPLY_CHARS,
        whole_number(200, MAX_REPLY_CHARS),
        "Characters of a text reply of search_code, where the call names no max_chars.",
    )
    project_dir: Path | None = _program(
        None,
        PATH,
        "Directory that the client works in, if the server was started in another.",
        also="CLAUDE_PROJECT_DIR",
        default_words="the working directory",
    )
    workflow_url: str | None = _program(
        None,
        HTTP_URL,
        "Address of a workflow-mcp that is asked for the active project.",
        variable="WORKFLOW_MCP_URL",
    )
    log_level: str = _program(
        "WARNING",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        "Lowest level that is logged to standard error.",
    )
    log_format: str = _program(
        "text",
        one_of("text", "json"),
        "Format of the log: text for people, or json with one object per line.",
    )
    otlp_endpoint: str | None = _program(
        None,
        HTTP_URL,
        "OpenTelemetry collector that traces are sent to (OTLP over HTTP).",
        variable="OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    resident_minutes: int = _program(
        30,
        whole_number(0, 1440),
        "Minutes that a process with everything loaded waits for the next command; 0: none does.",
        has_flag=False,
    )
    database_url: str | None = _database(
        None,
        DATABASE_URL,
        "A PostgreSQL (15 or newer, pgvector 0.8 or newer) to use instead of the embedded one.",
        variable="DATABASE_URL",
        is_secret=True,
        default_words="the embedded one",
    )
    direct_database_url: str | None = _database(
        None,
        DATABASE_URL,
        "The same database without a pooler, for locks that need their own session.",
        variable="DIRECT_DATABASE_URL",
        is_secret=True,
    )
    database_read_url: str | None = _database(
        None,
        DATABASE_URL,
        "A streaming standby of that PostgreSQL, for searches while it is up to date.",
        variable="DATABASE_READ_URL",
        is_secret=True,
    )
    db_pool_size: int = _database(
        20,
        whole_number(1, 1000),
        "Connections kept to the PostgreSQL of DATABASE_URL.",
        variable="DB_POOL_SIZE",
    )
    db_max_overflow: int = _database(
        10,
        whole_number(0, 1000),
        "Further connections to it while all of those are in use.",
        variable="DB_MAX_OVERFLOW",
    )
    project_roles: str = _database(
        "auto",
        one_of("auto", "off"),
        "Give each project a database role of its own: auto (where it may be created) or off.",
    )
    search_timeout_s: float = _database(
        30.0,
        above_zero("seconds", 3600),
        "Seconds that a statement of a search may take.",
        variable="CODEBASE_MCP_SEARCH_TIMEOUT",
    )
    idle_minutes: float = _database(
        5.0,
        above_zero("minutes", 1440),
        "Minutes after its last use until the embedded database stops.",
    )
    embedding_provider: str | None = _embedding(
        None,
        one_of(*PROVIDERS),
        "Provider of embeddings: static alone, or another in addition to the built-in model.",
        default_words="ollama where OLLAMA_BASE_URL is set, onnx for a folder with a network,"
        " else static",
    )
    embedding_model: str | None = _embedding(
        None,
        TEXT,
        "Folder of a Model2Vec or an ONNX model, or the provider's name of a model.",
        also="EMBEDDING_MODEL",
        default_words="built in, "
        + " or ".join(f"{e.default_model} ({n})" for n, e in PROVIDERS.items() if e.is_service),
    )
    ollama_url: str | None = _embedding(
        None,
        HTTP_URL,
        "Address of an Ollama server.",
        variable="OLLAMA_BASE_URL",
        default_words=PROVIDERS["ollama"].default_url,
    )
    openai_url: str | None = _embedding(
        None,
        HTTP_URL,
        "Address of an OpenAI-compatible endpoint, up to and including /v1.",
        variable="CODEBASE_MCP_OPENAI_BASE_URL",
        also="OPENAI_BASE_URL",
        default_words=PROVIDERS["openai"].default_url,
    )
    openai_api_key: str | None = _embedding(
        None,
        TEXT,
        "API key for it. It has no flag, because other users of the machine can see flags.",
        also="OPENAI_API_KEY",
        is_secret=True,
        has_flag=False,
    )
    embedding_batch_size: int = _embedding(
        50,
        whole_number(1, 1000),
        "Texts in one request to Ollama or an OpenAI-compatible endpoint.",
        variable="EMBEDDING_BATCH_SIZE",
    )
    embedding_timeout_s: float = _embedding(
        60.0,
        above_zero("seconds", 3600),
        "Seconds that such a request may take.",
        variable="CODEBASE_MCP_EMBEDDING_TIMEOUT",
    )
    embedding_query_prefix: str | None = _embedding(
        None,
        PREFIX,
        "Text before each question, for models that want one; 'none' for none.",
        default_words="what the model wants, if it is a common one",
    )
    embedding_passage_prefix: str | None = _embedding(
        None,
        PREFIX,
        "Text before each passage of code; 'none' for none.",
        default_words="what the model wants, if it is a common one",
    )
    workers: int = _indexing(
        lambda: os.cpu_count() or 1,
        whole_number(1, 256),
        "Processes that read and embed while indexing.",
        default_words="number of processors",
    )
    jobs: int = _indexing(
        1,
        whole_number(0, 64),
        "Background jobs that a server runs at once; 0 leaves them to codebase-mcp worker.",
    )
    auto_index: str = _indexing(
        "always",
        one_of("always", "never"),
        "Whether the first question in a repository that is not indexed indexes it.",
    )
    check_ms: int = _indexing(
        150,
        whole_number(0, 60_000),
        "Milliseconds that a search may spend on updating the index first; 0 never checks.",
    )
    search_memory_mb: int = _indexing(
        512,
        whole_number(0, 1_048_576),
        "Megabytes of indexes that a server may keep in memory; 0 always asks the database.",
    )
    watch: bool = _indexing(
        False, YES_OR_NO, "Watch the files of all indexed repositories while the server runs."
    )
    refresh_minutes: int = _indexing(
        0,
        whole_number(0, 525_600),
        "Minutes after which servers and workers fetch and index a clone of a URL again; 0: never.",
        flag_name="--refresh",
    )
    github_token: str | None = _indexing(
        None,
        TEXT,
        "Token that lists and clones the repositories of an organisation on GitHub.",
        variable="GITHUB_TOKEN",
        is_secret=True,
        has_flag=False,
    )
    gitlab_token: str | None = _indexing(
        None,
        TEXT,
        "Token that lists and clones the repositories of a group on GitLab.",
        variable="GITLAB_TOKEN",
        is_secret=True,
        has_flag=False,
    )
    include_secrets: tuple[str, ...] = _indexing(
        (), PATTERNS, "Files to index with the secrets in them; a repository cannot set it."
    )
    transport: str = _server(
        "stdio",
        one_of("stdio", "http", "all"),
        "What is served: stdio, http, or all of them by one process.",
    )
    host: str = _server("127.0.0.1", HOST, "Address to bind to.")
    port: int = _server(3000, whole_number(0, 65535), "Port to bind to; 0 takes any free one.")
    audit: bool = _server(
        True, YES_OR_NO, "Keep an audit log of calls over HTTP: who, tool, project, when, outcome."
    )
    audit_days: int = _server(90, whole_number(1, 3650), "Days that its entries are kept.")
    sse: bool = _server(False, YES_OR_NO, "Serve the older SSE transport too, at /sse.")
    allowed_hosts: tuple[str, ...] = _server(
        (),
        LIST,
        "Further names that clients reach the server by (the Host header), separated by commas.",
    )
    allowed_origins: tuple[str, ...] = _server(
        (),
        LIST,
        "Further origins whose pages may call it (the Origin header), separated by commas.",
    )
    roots: tuple[str, ...] = _server(
        (),
        DIRECTORIES,
        "Directory below which callers other than the server's user may index; repeatable.",
        flag_name="--root",
    )
    http_workers: int = _server(1, whole_number(1, 64), "Processes that answer over HTTP.")
    http_connections: int = _server(
        1000,
        whole_number(1, 100_000),
        "Connections that each of them keeps open; at most half of its file descriptors.",
    )
    http_timeout_s: float = _server(
        30.0,
        above_zero("seconds", 3600),
        "Seconds that a client may take to send a request's headers or body, or to read.",
        variable="CODEBASE_MCP_HTTP_TIMEOUT",
    )
    no_auth: bool = _access(
        False,
        YES_OR_NO,
        "Ask for no key: everyone who reaches the port may read and change everything.",
    )
    require_keys: bool = _access(
        False,
        YES_OR_NO,
        "Ask the server's own user on this machine for a key too, as behind a proxy.",
    )
    read_only: bool = _access(
        False, YES_OR_NO, "Serve only what reads, to every caller and over stdio too."
    )
    allow_ip: tuple[str, ...] = _access(
        (),
        NETWORKS,
        "Networks that may call, such as 10.0.0.0/8; other addresses get 403. May be repeated.",
        default_words="every address",
    )
    public_url: str | None = _access(
        None,
        HTTP_URL,
        "Address that clients reach the server by, for OAuth's metadata and cookies of pages.",
        default_words="http:// with host and port",
    )
    jwt_issuer: str | None = _access(
        None, HTTP_URL, "Identity provider whose JWTs are accepted; the issuer that they name."
    )
    jwt_audience: str | None = _access(None, TEXT, "Audience that its JWTs must name.")
    jwt_jwks_url: str | None = _access(None, HTTP_URL, "Address of its public keys (JWKS).")
    jwt_algorithm: str = _access(
        "RS256",
        one_of("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "Ed25519"),
        "Algorithm that its JWTs are signed with.",
    )
    jwt_scope_prefix: str = _access(
        "",
        TEXT,
        "What stands before read, write, index and admin in the scopes of its JWTs.",
        default_words="nothing",
    )
    jwt_projects_claim: str | None = _access(
        None,
        TEXT,
        "Claim with the patterns of the projects that exist for its bearer.",
        default_words="none: all projects",
    )
    requests_per_minute: int | None = _server(
        None,
        whole_number(0, 1_000_000),
        "Requests over HTTP that a caller may make in a minute, if its key does not say it; 0 is"
        " any number.",
        default_words="600; any number for the user who runs the server",
    )
    calls: int = _server(
        DEFAULT_CALLS,
        whole_number(1, 1000),
        "Calls that run at once in a process; 16 times as many wait, further ones are refused.",
    )
    project: str | None = _repository(
        None,
        PROJECT,
        "Project of calls that name none; takes precedence over a .mcp-context.toml.",
        keys=("project", "project_id", "collection", "project.id"),
        default_words="as docs/projects.md says",
    )
    ignore_patterns: tuple[str, ...] = _repository(
        (),
        PATTERNS,
        "Files and directories to exclude, in addition to ignore files and the other list.",
        variable="CODEBASE_MCP_IGNORE",
        keys=("git.ignore_patterns", "ignore_patterns"),
        joined=lambda ours, theirs: (*theirs, *ours),
    )
    include_submodules: bool = _repository(
        True,
        YES_OR_NO,
        "Index the files of checked-out submodules too; they are not part of branches and commits.",
        keys=("git.include_submodules", "include_submodules"),
    )
    max_file_bytes: int = _repository(
        1 << 20,
        whole_number(1, 1 << 30),
        "Larger files are not indexed; a .mcp-context.toml can only lower it.",
        keys=("max_file_bytes",),
        joined=min,
    )
    git_depth: int = _repository(
        0,
        whole_number(1, 10_000),
        "Commits of history to keep, unless index --history or index_codebase sets it.",
        keys=("git.depth",),
        default_words="as many as the run before; the first keeps none",
    )
    git_branches: tuple[str, ...] = _repository(
        (),
        BRANCHES,
        "Branches that index runs keep searchable; others are indexed when a search asks.",
        keys=("git.branches",),
        default_words="none",
    )


def _named(setting: Setting, name: str) -> Setting:
    """A setting with its name, from which its variable is made unless the table gives another."""
    return replace(setting, name=name, variable=setting.variable or f"CODEBASE_MCP_{name.upper()}")


SETTINGS: tuple[Setting, ...] = tuple(
    _named(row.metadata["setting"], row.name) for row in fields(SettingValues)
)
