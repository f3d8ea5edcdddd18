"""The arguments of ``codebase-mcp setup``; fast to import, as every command parses them."""

from __future__ import annotations

import argparse

CLIENT_NAMES = (
    "claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "antigravity",
    "qwen-code", "windsurf", "zed", "opencode", "copilot-cli", "kiro",
)  # fmt: skip


def add_setup_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to a parser."""
    parser.add_argument(
        "clients",
        nargs="*",
        metavar="CLIENT",
        help=f"the client: {', '.join(CLIENT_NAMES)}; without one, they are listed",
    )
    parser.add_argument("--all", action="store_true", help="every client that is installed here")
    parser.add_argument("--remove", action="store_true", help="remove what was written")
    parser.add_argument(
        "--scope",
        choices=["user", "project"],
        default="user",
        help="set up all your projects, or only one (user)",
    )
    parser.add_argument("--project-dir", help="the project's directory (the working directory)")
    parser.add_argument(
        "--toolsets", help="toolsets to show, separated by commas, or 'all' (agent: code,symbols)"
    )
    parser.add_argument("--name", default="codebase", help="the server's name there (codebase)")
    parser.add_argument(
        "--command", dest="command_line", metavar="LINE", help="how to start it (this installation)"
    )
    parser.add_argument(
        "--http", metavar="URL", help="a server that is already running, including /mcp"
    )
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help="the environment variable that holds the key for --http, which stays out of the files",
    )
    parser.add_argument(
        "--env",
        action="append",
        metavar="NAME=VALUE",
        help="environment variable for it; repeatable",
    )
    parser.add_argument(
        "--no-instructions",
        dest="rules",
        action="store_false",
        help="do not write instructions (CLAUDE.md and similar files) or a skill",
    )
    parser.add_argument("--force", action="store_true", help="replace a server of the same name")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be written")
