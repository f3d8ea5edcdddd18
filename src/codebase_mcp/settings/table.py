"""Which settings are there? One table.

Flags, help, checks and the reference are made from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from platformdirs import user_data_path

from codebase_mcp.database.naming import validate_project_id
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.rules import (
    BRANCHES,
    DATABASE_URL,
    HOST,
    HTTP_URL,
    LIST,
    PATH,
    PATTERNS,
    PREFIX,
    TEXT,
    YES_OR_NO,
    Rule,
    above_zero,
    one_of,
    some_of,
    whole_number,
)

DEFAULT_TOOLSETS = ("code",)
TOOLSETS = (
    "code",
    "index",
    "projects",
    "tasks",
    "memory",
    "vcs",
    "symbols",
    "agents",
    "entities",
    "work_items",
)

DEFAULT_REPLY_CHARS = 2_000
MAX_REPLY_CHARS = 4_000
DEFAULT_CALLS = 8

_PREFIX = "CODEBASE_MCP_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    variable: str
    default: Callable[[], Any]
    rule: Rule
    help: str
    also: str = ""
    """Another program's variable with the same meaning, used where ours is not set."""
    section: str = "Program"
    is_secret: bool = False
    """Never shown: it may hold a password or a key."""
    has_flag: bool = True
    keys: tuple[str, ...] = ()
    """What a `.mcp-context.toml` calls it, if it concerns a repository; the first is preferred."""
    joined: Callable[[Any, Any], Any] | None = None
    """Combines our value and the file's; without it, the file counts where ours is the default."""
    default_words: str = ""
    """The default, where it depends on the machine."""

    @property
    def flag(self) -> str:
        """The variable's name as a flag."""
        return "--" + self.variable.removeprefix(_PREFIX).lower().replace("_", "-")

    @property
    def file_variable(self) -> str:
        """The variable that names a file with the value: how containers are given secrets."""
        return f"{self.variable}_FILE" if self.is_secret else ""


def _project_id(text: str) -> str:
    try:
        return validate_project_id(text)
    except InvalidInput as error:
        raise ValueError from error


PROJECT = Rule("lower case letters and digits, joined by single - or _", _project_id, "PROJECT")

SETTINGS = (
    Setting(
        "data_dir",
        "CODEBASE_MCP_DATA_DIR",
        lambda: user_data_path("codebase-mcp", appauthor=False),
        PATH,
        "Folder for all data, such as the embedded database and its log.",
        default_words="the user's data folder",
    ),
    Setting(
        "toolsets",
        "CODEBASE_MCP_TOOLSETS",
        lambda: DEFAULT_TOOLSETS,
        some_of(TOOLSETS),
        "Toolsets to show, separated by commas, or 'all'.",
    ),
    Setting(
        "replies",
        "CODEBASE_MCP_REPLIES",
        lambda: "auto",
        one_of("json", "text", "auto"),
        "Form of replies over MCP: json, text to read, or auto: text for known coding agents.",
    ),
    Setting(
        "reply_chars",
        "CODEBASE_MCP_REPLY_CHARS",
        lambda: DEFAULT_REPLY_CHARS,
        whole_number(200, MAX_REPLY_CHARS),
        "Characters of a text reply of search_code, where the call names no max_chars.",
    ),
    Setting(
        "project_dir",
        "CODEBASE_MCP_PROJECT_DIR",
        lambda: None,
        PATH,
        "Directory that the client works in, if the server was started in another.",
        also="CLAUDE_PROJECT_DIR",
        default_words="the working directory",
    ),
    Setting(
        "workflow_url",
        "WORKFLOW_MCP_URL",
        lambda: None,
        HTTP_URL,
        "Address of a workflow-mcp that is asked for the active project.",
    ),
    Setting(
        "log_level",
        "CODEBASE_MCP_LOG_LEVEL",
        lambda: "WARNING",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        "Lowest level that is logged to standard error.",
    ),
    Setting(
        "log_format",
        "CODEBASE_MCP_LOG_FORMAT",
        lambda: "text",
        one_of("text", "json"),
        "Format of the log: text for people, or json with one object per line.",
    ),
    Setting(
        "otlp_endpoint",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        lambda: None,
        HTTP_URL,
        "OpenTelemetry collector that traces are sent to (OTLP over HTTP).",
    ),
    Setting(
        "database_url",
        "DATABASE_URL",
        lambda: None,
        DATABASE_URL,
        "A PostgreSQL (15 or newer, pgvector 0.8 or newer) to use instead of the embedded one.",
        section="Database",
        is_secret=True,
        default_words="the embedded one",
    ),
    Setting(
        "direct_database_url",
        "DIRECT_DATABASE_URL",
        lambda: None,
        DATABASE_URL,
        "The same database without a pooler, for locks that need their own session.",
        section="Database",
        is_secret=True,
    ),
    Setting(
        "db_pool_size",
        "DB_POOL_SIZE",
        lambda: 20,
        whole_number(1, 1000),
        "Connections kept to the PostgreSQL of DATABASE_URL.",
        section="Database",
    ),
    Setting(
        "db_max_overflow",
        "DB_MAX_OVERFLOW",
        lambda: 10,
        whole_number(0, 1000),
        "Further connections to it while all of those are in use.",
        section="Database",
    ),
    Setting(
        "search_timeout_s",
        "CODEBASE_MCP_SEARCH_TIMEOUT",
        lambda: 30.0,
        above_zero("seconds", 3600),
        "Seconds that a statement of a search may take.",
        section="Database",
    ),
    Setting(
        "idle_minutes",
        "CODEBASE_MCP_IDLE_MINUTES",
        lambda: 5.0,
        above_zero("minutes", 1440),
        "Minutes after its last use until the embedded database stops.",
        section="Database",
    ),
    Setting(
        "embedding_provider",
        "CODEBASE_MCP_EMBEDDING_PROVIDER",
        lambda: None,
        one_of("static", "onnx", "ollama", "openai"),
        "Provider of embeddings: static alone, or another in addition to the built-in model.",
        section="Embedding",
        default_words="ollama where OLLAMA_BASE_URL is set, onnx for a folder with a network,"
        " else static",
    ),
    Setting(
        "embedding_model",
        "CODEBASE_MCP_EMBEDDING_MODEL",
        lambda: None,
        TEXT,
        "Folder of a Model2Vec or an ONNX model, or the provider's name of a model.",
        also="EMBEDDING_MODEL",
        section="Embedding",
        default_words="built in, nomic-embed-text (ollama) or text-embedding-3-small (openai)",
    ),
    Setting(
        "ollama_url",
        "OLLAMA_BASE_URL",
        lambda: None,
        HTTP_URL,
        "Address of an Ollama server.",
        section="Embedding",
        default_words="http://127.0.0.1:11434",
    ),
    Setting(
        "openai_url",
        "CODEBASE_MCP_OPENAI_BASE_URL",
        lambda: None,
        HTTP_URL,
        "Address of an OpenAI-compatible endpoint, up to and including /v1.",
        also="OPENAI_BASE_URL",
        section="Embedding",
        default_words="https://api.openai.com/v1",
    ),
    Setting(
        "openai_api_key",
        "CODEBASE_MCP_OPENAI_API_KEY",
        lambda: None,
        TEXT,
        "API key for it. It has no flag, because other users of the machine can see flags.",
        also="OPENAI_API_KEY",
        section="Embedding",
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "embedding_batch_size",
        "EMBEDDING_BATCH_SIZE",
        lambda: 50,
        whole_number(1, 1000),
        "Texts in one request to Ollama or an OpenAI-compatible endpoint.",
        section="Embedding",
    ),
    Setting(
        "embedding_timeout_s",
        "CODEBASE_MCP_EMBEDDING_TIMEOUT",
        lambda: 60.0,
        above_zero("seconds", 3600),
        "Seconds that such a request may take.",
        section="Embedding",
    ),
    Setting(
        "embedding_query_prefix",
        "CODEBASE_MCP_EMBEDDING_QUERY_PREFIX",
        lambda: None,
        PREFIX,
        "Text before each question, for models that want one; 'none' for none.",
        section="Embedding",
        default_words="what the model wants, if it is a common one",
    ),
    Setting(
        "embedding_passage_prefix",
        "CODEBASE_MCP_EMBEDDING_PASSAGE_PREFIX",
        lambda: None,
        PREFIX,
        "Text before each passage of code; 'none' for none.",
        section="Embedding",
        default_words="what the model wants, if it is a common one",
    ),
    Setting(
        "workers",
        "CODEBASE_MCP_WORKERS",
        lambda: os.cpu_count() or 1,
        whole_number(1, 256),
        "Processes that read and embed while indexing.",
        section="Indexing",
        default_words="number of processors",
    ),
    Setting(
        "jobs",
        "CODEBASE_MCP_JOBS",
        lambda: 1,
        whole_number(0, 64),
        "Background jobs that a server runs at once; 0 leaves them to codebase-mcp worker.",
        section="Indexing",
    ),
    Setting(
        "check_ms",
        "CODEBASE_MCP_CHECK_MS",
        lambda: 150,
        whole_number(0, 60_000),
        "Milliseconds that a search may spend on updating the index first; 0 never checks.",
        section="Indexing",
    ),
    Setting(
        "search_memory_mb",
        "CODEBASE_MCP_SEARCH_MEMORY_MB",
        lambda: 512,
        whole_number(0, 1_048_576),
        "Megabytes of indexes that a server may keep in memory; 0 always asks the database.",
        section="Indexing",
    ),
    Setting(
        "watch",
        "CODEBASE_MCP_WATCH",
        lambda: False,
        YES_OR_NO,
        "Watch the files of all indexed repositories while the server runs.",
        section="Indexing",
    ),
    Setting(
        "include_secrets",
        "CODEBASE_MCP_INCLUDE_SECRETS",
        lambda: (),
        PATTERNS,
        "Files to index with the secrets in them; a repository cannot set it.",
        section="Indexing",
    ),
    Setting(
        "transport",
        "CODEBASE_MCP_TRANSPORT",
        lambda: "stdio",
        one_of("stdio", "http", "all"),
        "What is served: stdio, http, or all of them by one process.",
        section="Server",
    ),
    Setting(
        "host",
        "CODEBASE_MCP_HOST",
        lambda: "127.0.0.1",
        HOST,
        "Address to bind to.",
        section="Server",
    ),
    Setting(
        "port",
        "CODEBASE_MCP_PORT",
        lambda: 3000,
        whole_number(0, 65535),
        "Port to bind to; 0 takes any free one.",
        section="Server",
    ),
    Setting(
        "sse",
        "CODEBASE_MCP_SSE",
        lambda: False,
        YES_OR_NO,
        "Serve the older SSE transport too, at /sse.",
        section="Server",
    ),
    Setting(
        "allowed_hosts",
        "CODEBASE_MCP_ALLOWED_HOSTS",
        lambda: (),
        LIST,
        "Further names that clients reach the server by (the Host header), separated by commas.",
        section="Server",
    ),
    Setting(
        "allowed_origins",
        "CODEBASE_MCP_ALLOWED_ORIGINS",
        lambda: (),
        LIST,
        "Further origins whose pages may call it (the Origin header), separated by commas.",
        section="Server",
    ),
    Setting(
        "http_workers",
        "CODEBASE_MCP_HTTP_WORKERS",
        lambda: 1,
        whole_number(1, 64),
        "Processes that answer over HTTP.",
        section="Server",
    ),
    Setting(
        "http_connections",
        "CODEBASE_MCP_HTTP_CONNECTIONS",
        lambda: 1000,
        whole_number(1, 100_000),
        "Connections that each of them keeps open; at most half of its file descriptors.",
        section="Server",
    ),
    Setting(
        "http_timeout_s",
        "CODEBASE_MCP_HTTP_TIMEOUT",
        lambda: 30.0,
        above_zero("seconds", 3600),
        "Seconds that a client may take to send a request's headers or body, or to read.",
        section="Server",
    ),
    Setting(
        "requests_per_minute",
        "CODEBASE_MCP_REQUESTS_PER_MINUTE",
        lambda: None,
        whole_number(0, 1_000_000),
        "Requests over HTTP that a caller may make in a minute, if its key does not say it; 0 is"
        " any number.",
        section="Server",
        default_words="600; any number for the user who runs the server",
    ),
    Setting(
        "calls",
        "CODEBASE_MCP_CALLS",
        lambda: DEFAULT_CALLS,
        whole_number(1, 1000),
        "Calls that a process works on at once; 16 times as many wait, further ones are refused.",
        section="Server",
    ),
    Setting(
        "project",
        "CODEBASE_MCP_PROJECT",
        lambda: None,
        PROJECT,
        "Project of calls that name none; takes precedence over a .mcp-context.toml.",
        section="Repository",
        keys=("project", "project_id", "collection", "project.id"),
        default_words="as docs/projects.md says",
    ),
    Setting(
        "ignore_patterns",
        "CODEBASE_MCP_IGNORE",
        lambda: (),
        PATTERNS,
        "Files and directories to exclude, in addition to ignore files and the other list.",
        section="Repository",
        keys=("git.ignore_patterns", "ignore_patterns"),
        joined=lambda ours, theirs: (*theirs, *ours),
    ),
    Setting(
        "include_submodules",
        "CODEBASE_MCP_INCLUDE_SUBMODULES",
        lambda: False,
        YES_OR_NO,
        "Index the files of checked-out submodules too.",
        section="Repository",
        keys=("git.include_submodules", "include_submodules"),
    ),
    Setting(
        "max_file_bytes",
        "CODEBASE_MCP_MAX_FILE_BYTES",
        lambda: 1 << 20,
        whole_number(1, 1 << 30),
        "Larger files are not indexed; a .mcp-context.toml can only lower it.",
        section="Repository",
        keys=("max_file_bytes",),
        joined=min,
    ),
    Setting(
        "git_depth",
        "CODEBASE_MCP_GIT_DEPTH",
        lambda: 0,
        whole_number(1, 10_000),
        "Commits of history to keep, unless index --history or index_codebase sets it.",
        section="Repository",
        keys=("git.depth",),
        default_words="as many as the run before; the first keeps none",
    ),
    Setting(
        "git_branches",
        "CODEBASE_MCP_GIT_BRANCHES",
        lambda: (),
        BRANCHES,
        "Branches that index runs keep searchable; others are indexed when a search asks.",
        section="Repository",
        keys=("git.branches",),
        default_words="none",
    ),
)
