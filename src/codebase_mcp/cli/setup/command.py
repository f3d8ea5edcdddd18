"""``codebase-mcp setup``: show the changes, ask for confirmation, write them; or remove them."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.text import Text

from codebase_mcp.access.identity import is_loopback
from codebase_mcp.cli.output import print_json, say, warn
from codebase_mcp.cli.setup.clients import CLIENTS, Client, Launch, Machine
from codebase_mcp.cli.setup.edit import Refused
from codebase_mcp.cli.setup.plan import Change, Planner, Receipts, SetupTarget, Unfit, apply
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import PRESETS, Settings, environment_for_child

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

console = Terminal(soft_wrap=True)


async def setup(options: argparse.Namespace, settings: Settings) -> int:
    """Add the server to clients, or remove it; 1 if the user declines."""
    machine = Machine(Path.home(), sys.platform, environment_for_child())
    target = _target(options, settings)
    receipts = Receipts(_own_folder(settings))
    planner = Planner(target, machine, receipts)
    if not options.clients and not options.all:
        return _list(planner, machine, as_json=options.json)
    clients = _chosen(options, target, planner, machine)
    _plan(planner, clients, is_removal=options.remove)
    needed = [change for change in planner.changes if change.is_needed]
    if not options.json:
        _show(planner.changes)
    if needed and not options.dry_run and not _confirmed(options):
        warn("Nothing was changed.")
        return 1
    copies: dict[Path, Path | None] = {}
    if not options.dry_run:
        try:
            copies = apply(
                planner.changes, receipts, mode=0o600 if target.scope == "user" else 0o644
            )
        except Unfit as unfit:
            raise _refusal([str(unfit)]) from None
    if options.json:
        print_json(_as_json(planner.changes, copies))
    elif needed and not options.dry_run:
        _report(needed, copies, clients, is_removal=options.remove)
    if target.url is not None and not options.remove:
        _tell_about_key(target.url, target.key_env, clients)
    return 0


def own_command() -> list[str]:
    """The command that starts this installation from any directory."""
    # uv deletes the environments that it makes for uvx.
    if any(part.startswith(("archive-v", "environments-v")) for part in Path(sys.prefix).parts):
        return ["uvx", f"codebase-mcp=={version('codebase-mcp')}"]
    name = "codebase-mcp.exe" if sys.platform == "win32" else "codebase-mcp"
    beside = Path(sys.executable).parent / name
    program = str(beside) if beside.exists() else shutil.which("codebase-mcp")
    return [program] if program else [sys.executable, "-m", "codebase_mcp.cli.main"]


def _target(options: argparse.Namespace, settings: Settings) -> SetupTarget:
    problems = []
    if not _NAME.fullmatch(options.name):
        problems.append("--name: must be 1 to 64 letters, digits, - and _")
    env: dict[str, str] = {}
    for given in options.env or ():
        name, equals, value = given.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            problems.append(f"--env {name}: must be NAME=VALUE")
        env[name] = value
    if options.http and (options.command_line or options.env):
        problems.append("--http: cannot be combined with --command or --env")
    if options.http and not re.match(r"https?://\S+$", options.http):
        problems.append("--http: must begin with http:// or https://")
    if options.key_env is not None:
        problems += _problems_of_key(options)
    root = settings.project_dir or Path.cwd()
    if options.scope == "project" and not root.is_dir():
        problems.append(f"--project-dir: {root} is not a directory")
    if problems:
        raise _refusal(problems)
    command = shlex.split(options.command_line) if options.command_line else own_command()
    if options.scope == "project" and shutil.which("codebase-mcp") == command[0]:
        command = ["codebase-mcp"]  # these files are shared between machines with different paths
    args = ["serve", "--toolsets", options.toolsets or "agent"]
    return SetupTarget(
        scope=options.scope,
        root=root,
        name=options.name,
        launch=Launch(command[0], (*command[1:], *args), tuple(env.items())),
        url=options.http,
        toolsets=settings.toolsets if options.toolsets else PRESETS["agent"],
        with_rules=options.rules,
        force=options.force,
        key_env=options.key_env,
    )


def _problems_of_key(options: argparse.Namespace) -> list[str]:
    from codebase_mcp.access.keys import PREFIX  # noqa: PLC0415 - only where a key is needed

    if not options.http:
        return ["--key-env: only with --http"]
    if options.key_env.startswith(PREFIX) or not _VARIABLE.fullmatch(options.key_env):
        return ["--key-env: must be the name of an environment variable, not the key itself"]
    return []


def _own_folder(settings: Settings) -> Path:
    # The embedded database shares this folder, and requires these permissions.
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    settings.data_dir.mkdir(mode=0o755 if is_root else 0o700, parents=True, exist_ok=True)
    return settings.data_dir / "setup"


def _chosen(
    options: argparse.Namespace, target: SetupTarget, planner: Planner, machine: Machine
) -> list[Client]:
    chosen = [_client(name) for name in dict.fromkeys(options.clients)]
    for client in CLIENTS if options.all else ():
        if client.config_file(target.scope, machine, target.root) is None:
            continue
        is_set_up = options.remove and _state(planner, client) == "yes"
        is_wanted = is_set_up if options.remove else client.is_installed(machine)
        if is_wanted and client not in chosen:
            chosen.append(client)
    return chosen


def _client(name: str) -> Client:
    by_name = {client.name: client for client in CLIENTS}
    if name not in by_name:
        raise _refusal([f"{name} is not a known client; known clients: {', '.join(by_name)}"])
    return by_name[name]


def _plan(planner: Planner, clients: list[Client], *, is_removal: bool) -> None:
    problems = []
    for client in clients:
        try:
            (planner.remove if is_removal else planner.add)(client)
        except Unfit as unfit:
            problems.append(str(unfit))
    if problems:
        raise _refusal([*problems, "Nothing was changed"])


def _refusal(problems: list[str]) -> InvalidInput:
    fields = [{"field": "setup", "message": problem} for problem in problems]
    return InvalidInput(
        "Setup is not possible",
        hint="Correct the listed problems, then run it again.",
        details={"fields": fields},
    )


def _confirmed(options: argparse.Namespace) -> bool:
    if options.yes:
        return True
    if options.json or not sys.stdin.isatty():
        raise InvalidInput(
            "Setup needs confirmation, and there is no terminal",
            hint="Pass --yes to write the changes, or --dry-run to only show them.",
        )
    try:
        return input("Write these changes? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _state(planner: Planner, client: Client) -> str:
    """Whether the server is configured in a client: yes, no, or the problem with its file."""
    try:
        path, edit = next(iter(planner.edits(client)))
        content = path.read_bytes().decode()
        return "no" if edit.find(content) is None else "yes"
    except FileNotFoundError:
        return "no"
    except (OSError, UnicodeDecodeError, Refused, Unfit) as error:
        return str(error)


def _list(planner: Planner, machine: Machine, *, as_json: bool) -> int:
    rows = [
        {
            "client": client.name,
            "title": client.title,
            "installed": client.is_installed(machine),
            "configured": _state(planner, client),
            "file": str(client.user(machine)),
        }
        for client in CLIENTS
    ]
    if as_json:
        return print_json(rows)
    for row in sorted(rows, key=lambda row: not row["installed"]):
        seen = "found" if row["installed"] else "-"
        state = {"yes": "set up", "no": "-"}.get(str(row["configured"]), str(row["configured"]))
        console.print(f"{row['client']:15} {seen:6} {state:7} {row['file']}")
    say(
        "\nAdd the server to clients: codebase-mcp setup CLIENT…, or --all for every installed one."
    )
    say("Remove it again: --remove.")
    return 0


def _show(changes: list[Change]) -> None:
    for change in changes:
        state = change.note or ("" if change.is_needed else "nothing to do")
        if change.is_needed and change.before is None:
            state = "new file"
        elif change.is_needed and change.after is None:
            state = "file is deleted"
        console.print(f"{change.path}{f'  ({state})' if state else ''}", style="bold")
        for line in change.diff():
            style = {"+": "green", "-": "red"}.get(line[:1], "dim")
            console.print(Text(f"  {line}", style=style))


def _report(
    needed: list[Change],
    copies: dict[Path, Path | None],
    clients: list[Client],
    *,
    is_removal: bool,
) -> None:
    for change in needed:
        copy = copies.get(change.path)
        kept = f"  (backup: {copy})" if copy else ""
        console.print(f"{'removed from' if is_removal else 'written'} {change.path}{kept}")
    for client in clients if not is_removal else ():
        console.print(f"{client.title}: {client.afterwards}")


def _tell_about_key(url: str, key_env: str | None, clients: list[Client]) -> None:
    """Tell the user, on standard error, how to give the key to the server."""
    if key_env is None:
        if not is_loopback(urlsplit(url).hostname or ""):
            warn("If this server asks for a key, run it again with --key-env NAME.")
        return
    if any(client.keyed for client in clients):
        warn(f"Set {key_env} to the key, in the environment in which the client starts.")
    for client in clients:
        if client.keyed is None:
            warn(
                f"{client.title} documents no variables in this file. Add to the entry, if the file"
                ' is not shared: "headers": {"Authorization": "Bearer KEY"}'
            )


def _as_json(changes: list[Change], copies: dict[Path, Path | None]) -> list[dict[str, Any]]:
    return [
        {
            "file": str(change.path),
            "changed": change.is_needed,
            "diff": change.diff(),
            "copy": str(copies[change.path]) if copies.get(change.path) else None,
        }
        for change in changes
    ]
