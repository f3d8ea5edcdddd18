"""What did the user ask for? One table of settings; nothing else reads the environment.

Loading is pure: it looks at names and values, never at files or services, and reports every wrong
value at once with its source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from codebase_mcp.errors import InvalidInput

DEFAULT_TOOLSETS = ("code",)
TOOLSETS = ("code", "projects", "tasks", "memory", "agents", "entities", "work_items")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its value; see `SETTINGS` for names, defaults and help."""

    data_dir: Path
    database_url: str | None
    db_pool_size: int
    embedding_model: Path | None
    toolsets: tuple[str, ...]
    workers: int
    max_file_bytes: int
    idle_minutes: float
    project_dir: Path | None
    workflow_url: str | None
    log_level: str

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None, **flags: str | None) -> Settings:
        """Settings from command-line flags, then the environment, then defaults.

        Raises:
            InvalidInput: values that do not fit, all of them, each with where it came from.
        """
        environment = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        problems: list[dict[str, str]] = []
        for setting in SETTINGS:
            flag = flags.get(setting.name)
            source = f"--{setting.name.replace('_', '-')}" if flag is not None else setting.variable
            text = flag if flag is not None else environment.get(setting.variable, "").strip()
            if not text and setting.also in environment:
                source, text = setting.also, environment[setting.also].strip()
            if not text:
                values[setting.name] = setting.default()
                continue
            try:
                values[setting.name] = setting.parse(text)
            except ValueError as error:
                problems.append({"field": source, "value": text, "constraint": str(error)})
        if problems:
            listed = "; ".join(f"{p['field']}={p['value']!r}: {p['constraint']}" for p in problems)
            raise InvalidInput(
                f"Wrong settings: {listed}",
                hint="Correct or unset them, then start again.",
                details={"fields": problems},
            )
        return cls(**values)


def keep_caches_in(data_dir: Path) -> None:
    """Let the grammars be unpacked below our data directory, here and in processes we start."""
    os.environ.setdefault("SEMBLE_GRAMMARS_CACHE_DIR", str(data_dir / "grammars"))


def environment_for_child() -> dict[str, str]:
    """The environment to hand on to a process of ours."""
    return dict(os.environ)


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    variable: str
    default: Callable[[], Any]
    parse: Callable[[str], Any]
    help: str
    also: str = ""
    """Another program's variable that says the same, where ours is not set."""


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.lstrip("-").isdigit() or not low <= int(text) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1440:
        raise ValueError("must be a number of minutes above 0, 1440 at most")
    return value


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _database_url(text: str) -> str:
    if not re.match(r"postgres(ql)?(\+\w+)?://", text):
        raise ValueError("must begin with postgresql:// or postgres://")
    return text


def _http_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    return text.rstrip("/")


def _toolsets(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if names == ("all",):
        return TOOLSETS
    unknown = [name for name in names if name not in TOOLSETS]
    if unknown or not names:
        raise ValueError(f"must be 'all' or some of: {', '.join(TOOLSETS)}")
    return names


def _log_level(text: str) -> str:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    if text.upper() not in levels:
        raise ValueError(f"must be one of {', '.join(levels)}")
    return text.upper()


SETTINGS = (
    Setting(
        "data_dir",
        "CODEBASE_MCP_DATA_DIR",
        lambda: user_data_path("codebase-mcp", appauthor=False),
        _path,
        "Folder for all data: the embedded database and its log.",
    ),
    Setting(
        "database_url",
        "DATABASE_URL",
        lambda: None,
        _database_url,
        "A PostgreSQL (15 or newer, pgvector 0.8 or newer) to use instead of the embedded one.",
    ),
    Setting(
        "db_pool_size",
        "DB_POOL_SIZE",
        lambda: 20,
        _integer(1, 1000),
        "Connections kept to the PostgreSQL of DATABASE_URL.",
    ),
    Setting(
        "embedding_model",
        "CODEBASE_MCP_EMBEDDING_MODEL",
        lambda: None,
        _path,
        "Folder with a Model2Vec model to use instead of the built-in one.",
    ),
    Setting(
        "toolsets",
        "CODEBASE_MCP_TOOLSETS",
        lambda: DEFAULT_TOOLSETS,
        _toolsets,
        "Toolsets to show, separated by commas, or 'all'.",
    ),
    Setting(
        "workers",
        "CODEBASE_MCP_WORKERS",
        lambda: os.cpu_count() or 1,
        _integer(1, 256),
        "Processes that read and embed while indexing.",
    ),
    Setting(
        "max_file_bytes",
        "CODEBASE_MCP_MAX_FILE_BYTES",
        lambda: 1 << 20,
        _integer(1, 1 << 30),
        "Larger files are not indexed.",
    ),
    Setting(
        "idle_minutes",
        "CODEBASE_MCP_IDLE_MINUTES",
        lambda: 5.0,
        _minutes,
        "The embedded database stops so long after its last user has gone.",
    ),
    Setting(
        "project_dir",
        "CODEBASE_MCP_PROJECT_DIR",
        lambda: None,
        _path,
        "Directory that the client works in, if it is not the one the server was started in.",
        also="CLAUDE_PROJECT_DIR",
    ),
    Setting(
        "workflow_url",
        "WORKFLOW_MCP_URL",
        lambda: None,
        _http_url,
        "Address of a workflow-mcp that is asked for the active project.",
    ),
    Setting(
        "log_level",
        "CODEBASE_MCP_LOG_LEVEL",
        lambda: "WARNING",
        _log_level,
        "How much is logged to standard error: DEBUG, INFO, WARNING or ERROR.",
    ),
)
