"""The supported clients, the files that they read, the format of their entries, and the
instructions that ``setup`` writes for their agents."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from codebase_mcp.cli.setup.edit import KeyPath
from codebase_mcp.guidance import ABSENT, ASK, GREP, INDEXED, STOP


@dataclass(frozen=True, slots=True)
class Machine:
    """A user's machine: home directory, ``sys.platform`` and environment."""

    home: Path
    platform: str
    environment: Mapping[str, str]

    def folder(self, variable: str, *default: str) -> Path:
        """The folder that a variable names, else the default folder below the home directory."""
        given = self.environment.get(variable, "").strip()
        return Path(given) if given else self.home.joinpath(*default)

    @property
    def config(self) -> Path:
        """The configuration folder of programs that use XDG paths on every platform."""
        return self.folder("XDG_CONFIG_HOME", ".config")

    @property
    def applications(self) -> Path:
        """The configuration folder of desktop applications."""
        match self.platform:
            case "darwin":
                return self.home / "Library" / "Application Support"
            case "win32":
                return self.folder("APPDATA", "AppData", "Roaming")
        return self.config

    def has(self, program: str) -> bool:
        return shutil.which(program, path=self.environment.get("PATH", "")) is not None


Scope = Literal["user", "project"]
Place = Callable[[Machine], Path]
Entry = dict[str, Any]

RULE_FILE = "codebase-mcp"
SKILL_NAME = "codebase-mcp"


@dataclass(frozen=True, slots=True)
class Launch:
    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Client:
    """An application with a coding agent.

    ``user`` and ``project`` are the paths of its configuration. Of several names in a project the
    first existing one is used, else the last; ``sections`` of the file are chosen the same way.
    ``remote`` is None if the file cannot name a server by its URL. ``keyed`` adds a key to that
    entry, by the name of the environment variable that holds it; None if the client documents no
    such reference. ``rules`` are instruction files, ``skills`` folders of skills, ``marks`` paths
    that exist if the client is installed.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    marks: tuple[Place, ...]
    user: Place
    project: tuple[str, ...]
    sections: tuple[KeyPath, ...]
    local: Callable[[Launch], Entry]
    remote: Callable[[str], Entry] | None
    user_rules: Place | None = None
    project_rules: tuple[str, ...] = ()
    rules_header: str = ""
    afterwards: str = "Restart it."
    user_skills: Place | None = None
    project_skills: str | None = None
    keyed: Callable[[str], Entry] | None = None

    def is_installed(self, machine: Machine) -> bool:
        """Whether its program or its files are on this machine."""
        return any(map(machine.has, self.programs)) or any(
            mark(machine).exists() for mark in self.marks
        )

    def config_file(self, scope: Scope, machine: Machine, root: Path) -> Path | None:
        """Its configuration; None if it has none for this scope."""
        if scope == "user":
            return self.user(machine)
        return _in_project(root, self.project)

    def rules_file(self, scope: Scope, machine: Machine, root: Path) -> Path | None:
        """Its instruction file; None if it reads none."""
        if scope == "user":
            return self.user_rules(machine) if self.user_rules else None
        return _in_project(root, self.project_rules)

    def skill_file(self, scope: Scope, machine: Machine, root: Path) -> Path | None:
        """The file of our skill; None if it reads no skills."""
        if scope == "user":
            folder = self.user_skills(machine) if self.user_skills else None
        else:
            folder = root / self.project_skills if self.project_skills else None
        return folder / SKILL_NAME / "SKILL.md" if folder else None

    @property
    def is_toml(self) -> bool:
        return self.name == "codex"


def _in_project(root: Path, names: tuple[str, ...]) -> Path | None:
    existing = (root / name for name in names if (root / name).exists())
    return next(existing, root / names[-1] if names else None)


def _plain(launch: Launch) -> Entry:
    entry: Entry = {"command": launch.command, "args": list(launch.args)}
    return entry | ({"env": dict(launch.env)} if launch.env else {})


def _stdio(launch: Launch) -> Entry:
    return {"type": "stdio", **_plain(launch)}


def _opencode(launch: Launch) -> Entry:
    entry: Entry = {"type": "local", "command": [launch.command, *launch.args]}
    return entry | ({"environment": dict(launch.env)} if launch.env else {})


def _http(url: str) -> Entry:
    return {"type": "http", "url": url}


def _bearer(reference: str) -> Callable[[str], Entry]:
    """The header with the key, by a reference to an environment variable, here NAME."""
    return lambda name: {"headers": {"Authorization": "Bearer " + reference.replace("NAME", name)}}


def _home(*parts: str) -> Place:
    return lambda machine: machine.home.joinpath(*parts)


def _folder(variable: str, default: str, *parts: str) -> Place:
    return lambda machine: machine.folder(variable, default).joinpath(*parts)


def _application(*parts: str) -> Place:
    return lambda machine: machine.applications.joinpath(*parts)


def _opencode_json(machine: Machine) -> Path:
    folder = machine.config / "opencode"
    commented = folder / "opencode.jsonc"
    return commented if commented.exists() else folder / "opencode.json"


def _zed(*parts: str) -> Place:
    """Zed uses the XDG configuration folder on macOS, not Application Support."""
    return lambda m: (
        m.applications / "Zed" if m.platform == "win32" else m.config / "zed"
    ).joinpath(*parts)


_SERVERS: tuple[KeyPath, ...] = (("mcpServers",),)
_COPILOT_RULES = (".github/copilot-instructions.md",)
# Zed reads only the first of these that exists.
_ZED_RULES = (
    ".rules", ".cursorrules", ".windsurfrules", ".clinerules", ".github/copilot-instructions.md",
    "AGENT.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md", "AGENTS.md",
)  # fmt: skip
_ABOUT = "description: How to find code with the codebase-mcp server"

CLIENTS = (
    Client(
        "claude-code", "Claude Code", ("claude",), (_folder("CLAUDE_CONFIG_DIR", ".claude"),),
        _folder("CLAUDE_CONFIG_DIR", "", ".claude.json"), (".mcp.json",), _SERVERS, _stdio, _http,
        _folder("CLAUDE_CONFIG_DIR", ".claude", "CLAUDE.md"), ("CLAUDE.md",),
        afterwards="Start a new session; /mcp shows the server.",
        user_skills=_folder("CLAUDE_CONFIG_DIR", ".claude", "skills"),
        project_skills=".claude/skills",
        keyed=_bearer("${NAME}"),
    ),
    Client(
        "claude-desktop", "Claude Desktop", (), (_application("Claude"),),
        _application("Claude", "claude_desktop_config.json"), (), _SERVERS, _plain, None,
        afterwards="Quit it and start it again.",
    ),
    Client(
        "cursor", "Cursor", ("cursor", "cursor-agent"), (_home(".cursor"),),
        _home(".cursor", "mcp.json"), (".cursor/mcp.json",), _SERVERS, _stdio,
        lambda url: {"url": url}, None, (f".cursor/rules/{RULE_FILE}.mdc",),
        f"---\n{_ABOUT}\nalwaysApply: true\n---\n", "Turn the server on in its settings.",
        _home(".cursor", "skills"), ".cursor/skills",
        keyed=_bearer("${env:NAME}"),
    ),
    Client(
        "vscode", "VS Code", ("code",), (_application("Code", "User"),),
        _application("Code", "User", "mcp.json"), (".vscode/mcp.json",), (("servers",),), _stdio,
        _http, _application("Code", "User", "prompts", f"{RULE_FILE}.instructions.md"),
        _COPILOT_RULES, f"---\n{_ABOUT}\napplyTo: '**'\n---\n",
        "Start the server with the command MCP: List Servers.",
        _home(".copilot", "skills"), ".github/skills",
        keyed=_bearer("${env:NAME}"),
    ),
    Client(
        "codex", "Codex", ("codex",), (_folder("CODEX_HOME", ".codex"),),
        _folder("CODEX_HOME", ".codex", "config.toml"), (".codex/config.toml",),
        (("mcp_servers",),), _plain, lambda url: {"url": url},
        _folder("CODEX_HOME", ".codex", "AGENTS.md"), ("AGENTS.md",),
        afterwards="Start a new session; /mcp shows the server.",
        user_skills=_home(".agents", "skills"), project_skills=".agents/skills",
        keyed=lambda name: {"bearer_token_env_var": name},
    ),
    Client(
        "gemini", "Gemini CLI", ("gemini",), (_home(".gemini", "settings.json"),),
        _home(".gemini", "settings.json"), (".gemini/settings.json",), _SERVERS, _plain,
        lambda url: {"httpUrl": url}, _home(".gemini", "GEMINI.md"), ("GEMINI.md",),
        afterwards="Start a new session; /mcp shows the server.",
        user_skills=_home(".gemini", "skills"), project_skills=".gemini/skills",
        keyed=_bearer("${NAME}"),
    ),
    Client(
        "antigravity", "Antigravity", ("agy",),
        (_home(".gemini", "antigravity"), _home(".gemini", "antigravity-cli")),
        _home(".gemini", "config", "mcp_config.json"), (".agents/mcp_config.json",), _SERVERS,
        _plain, lambda url: {"serverUrl": url}, _home(".gemini", "GEMINI.md"), ("AGENTS.md",),
        afterwards="Refresh its list of MCP servers, or start a new session.",
        user_skills=_home(".gemini", "antigravity", "skills"), project_skills=".agents/skills",
    ),
    Client(
        "qwen-code", "Qwen Code", ("qwen",), (_home(".qwen"),),
        _home(".qwen", "settings.json"), (".qwen/settings.json",), _SERVERS, _plain,
        lambda url: {"httpUrl": url}, _home(".qwen", "QWEN.md"), ("QWEN.md",),
        afterwards="Start a new session; /mcp shows the server.",
        user_skills=_home(".qwen", "skills"), project_skills=".qwen/skills",
        keyed=_bearer("${NAME}"),
    ),
    Client(
        "windsurf", "Windsurf", ("windsurf",), (_home(".codeium", "windsurf"),),
        _home(".codeium", "windsurf", "mcp_config.json"), (), _SERVERS, _plain,
        lambda url: {"serverUrl": url},
        _home(".codeium", "windsurf", "memories", "global_rules.md"),
        afterwards="Refresh its list of MCP servers.",
        user_skills=_home(".codeium", "windsurf", "skills"),
        keyed=_bearer("${env:NAME}"),
    ),
    Client(
        "zed", "Zed", ("zed", "zeditor"), (_zed(),), _zed("settings.json"),
        (".zed/settings.json",), (("context_servers",),), _plain, lambda url: {"url": url}, None,
        _ZED_RULES, afterwards="It starts the server by itself.",
        user_skills=_home(".agents", "skills"), project_skills=".agents/skills",
    ),
    Client(
        "opencode", "OpenCode", ("opencode",), (lambda m: m.config / "opencode",), _opencode_json,
        ("opencode.jsonc", "opencode.json"), (("mcp", "servers"), ("mcp",)), _opencode,
        lambda url: {"type": "remote", "url": url},
        lambda m: m.config / "opencode" / "AGENTS.md", ("AGENTS.md",),
        afterwards="Start a new session.",
        user_skills=lambda m: m.config / "opencode" / "skills", project_skills=".opencode/skills",
        keyed=_bearer("{env:NAME}"),
    ),
    Client(
        "copilot-cli", "GitHub Copilot CLI", ("copilot",), (_folder("COPILOT_HOME", ".copilot"),),
        _folder("COPILOT_HOME", ".copilot", "mcp-config.json"), (".github/mcp.json",), _SERVERS,
        lambda launch: {"type": "local", **_plain(launch), "tools": ["*"]},
        lambda url: {**_http(url), "tools": ["*"]},
        _folder("COPILOT_HOME", ".copilot", "copilot-instructions.md"), _COPILOT_RULES,
        afterwards="Start a new session; /mcp show lists the server.",
        user_skills=_folder("COPILOT_HOME", ".copilot", "skills"), project_skills=".github/skills",
        keyed=_bearer("${NAME}"),
    ),
    Client(
        "kiro", "Kiro", ("kiro", "kiro-cli"), (_home(".kiro"),),
        _home(".kiro", "settings", "mcp.json"), (".kiro/settings/mcp.json",), _SERVERS, _plain,
        lambda url: {"url": url}, _home(".kiro", "steering", f"{RULE_FILE}.md"),
        (f".kiro/steering/{RULE_FILE}.md",), "---\ninclusion: always\n---\n",
        "It connects when the file is saved.", _home(".kiro", "skills"), ".kiro/skills",
        keyed=_bearer("${NAME}"),
    ),
)  # fmt: skip


# The server describes its tools when a client connects. These instructions are shorter, and are
# read when an agent decides whether to use the tools at all. The skill is read only on demand, so
# it says more: how to use the command, which works without the server.
_CODE = f"""\
## Finding code: codebase-mcp

- To find where something is done, call `search_code` of the codebase-mcp server before grep and
  before reading files. {ASK}
- {STOP} {ABSENT}
- {INDEXED}
- Without that server, or from a script: `codebase-mcp search QUESTION` in the repository answers
  the same; `--limit 3` and `--directory src/auth` narrow it."""
_FURTHER = {
    "find": "- With a task (an issue, a trace, a failing test, a diff) call `find_context` first.",
    "symbols": "- For callers, uses and implementations of a name call `symbol`, not grep.",
    "tasks": "- Look at `list_tasks` first; keep status and branch true with `update_task`.",
    "memory": "- Ask `memory` (operation search or inject) what was decided before; store decisions"
    " there.",
    "work_items": "- Larger work lies in `query_work_items` and `get_work_item_hierarchy`.",
}


def instructions_for(toolsets: Collection[str]) -> str:
    """The instructions for a server that shows these toolsets."""
    further = [line for name, line in _FURTHER.items() if name in toolsets]
    return "\n".join([_CODE, f"- {GREP}", *further])


_DESCRIPTION = (
    "Find where something is done in a repository, by a question in a programmer's words or by a"
    " symbol's name, with the shell command codebase-mcp search. Use it before grep and before"
    " reading files, whenever the place in the code is not known yet."
)
# Some clients read only the first line of a value.
SKILL_HEADER = f"---\nname: {SKILL_NAME}\ndescription: {_DESCRIPTION}\n---\n"
SKILL = (
    files("codebase_mcp.cli.setup").joinpath("skill.md").read_text("utf-8").rstrip("\n")
    .format(ASK=ASK, INDEXED=INDEXED, STOP=STOP, ABSENT=ABSENT, GREP=GREP)
)  # fmt: skip
