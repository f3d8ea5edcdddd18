"""The product as a shell sees it: ``codebase-mcp COMMAND``; without a command it serves on stdio.

What a command needs is imported when it runs, so that help and the MCP handshake stay quick.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from codebase_mcp import telemetry
from codebase_mcp.cli.database_commands import add_database_commands
from codebase_mcp.cli.evaluate_arguments import add_eval_command
from codebase_mcp.cli.flags import (
    SEE_ALSO,
    SettingsParser,
    command_first,
    flags_in,
    show_settings,
)
from codebase_mcp.cli.job_commands import add_job_commands
from codebase_mcp.cli.model_arguments import add_model_command
from codebase_mcp.cli.output import print_json, say, warn
from codebase_mcp.cli.record_commands import Subparsers, add_record_commands
from codebase_mcp.cli.setup.arguments import add_setup_arguments
from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.settings import Problem, Settings, use_one_blas_thread

_log = logging.getLogger(__name__)

# So many objects a command makes by loading its modules, and they stay: to look for garbage among
# them again and again takes a tenth of its time.
LOADED_OBJECTS = 100_000

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

Command = Callable[[argparse.Namespace, Settings], Coroutine[Any, Any, int]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit status."""
    if arguments is None and sys.getfilesystemencoding() == "ascii":
        # Else no path beyond ASCII has a name; Python's own remedy was switched off.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    use_one_blas_thread()
    gc.set_threshold(LOADED_OBJECTS, 10, 10)
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    from codebase_mcp.cli import tool_commands  # noqa: PLC0415

    ordered = command_first(arguments)
    if tool_commands.is_tool(ordered):
        options = tool_commands.parse(ordered)
        command: Command = tool_commands.call
    else:
        options = build_parser(only=next(iter(ordered), "serve")).parse_args(arguments)
        command = options.command
    try:
        settings = _settings(options)
        telemetry.start(
            settings.log_level,
            settings.log_format,
            secrets=settings.secrets(),
            otlp_endpoint=settings.otlp_endpoint,
        )
        for warning in settings.warnings:
            _log.warning(warning)
        import asyncio  # noqa: PLC0415 - not for help, which is to be there at once

        return asyncio.run(command(options, settings))
    except CodebaseError as error:
        show_error(error, as_json=options.json)
        return EXIT_FAILED
    except KeyboardInterrupt:
        warn("Interrupted; what was stored stays.")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return EXIT_FAILED
    except Exception as error:
        show_error(_known(error), as_json=options.json)
        return EXIT_FAILED
    finally:
        telemetry.end()


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """All commands but the tools', which `tool_commands` makes from their schemas.

    With ``only``, no other parser than that command's is made, if there is one of that name.
    """
    parser = SettingsParser(
        prog="codebase-mcp",
        description="Code search for AI coding agents. Without a command it serves MCP on stdio.",
        epilog="Every MCP tool is also a command: codebase-mcp search_code --query '…'. "
        + SEE_ALSO,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.set_defaults(command=_lazily("serve", "serve"), json=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_commands(commands if only is None else _Only(commands, only))
    return parser if only is None or only in commands.choices else build_parser()


class _Only:
    """Takes one command of all: each of the others' parsers would take a millisecond to make."""

    def __init__(self, commands: Subparsers, name: str) -> None:
        self._commands = commands
        self._name = name

    def add_parser(self, name: str, **options: Any) -> Any:
        """The parser of the one command; nothing in the place of any other."""
        return self._commands.add_parser(name, **options) if name == self._name else _Ignored()


class _Ignored:
    """Stands for the parser of a command that is not asked for: whatever it is told is lost."""

    def __getattr__(self, _: str) -> Callable[..., _Ignored]:
        return lambda *_, **__: self


def _add_commands(commands: Subparsers) -> None:
    serve = _command(
        commands, "serve", _lazily("serve", "serve"), "Serve MCP, on stdio unless told otherwise"
    )
    show_settings(serve, usage="%(prog)s [SETTINGS]")
    serve.set_defaults(json=False)

    index = _command(
        commands,
        "index",
        _lazily("early_start", "index"),
        "Index a repository, or what changed in it",
    )
    _add_index_options(index)
    _project_options(index)
    add_job_commands(commands, _lazily)
    watch = _command(
        commands,
        "watch",
        _lazily("watch", "watch"),
        "Let the index follow the files, as they change",
    )
    watch.add_argument(
        "paths", nargs="*", metavar="PATH", help="directories (all repositories of the project)"
    )
    watch.add_argument(
        "--poll", action="store_true", help="look at the files again and again (network drives)"
    )
    _project_options(watch)

    search = _command(commands, "search", _lazily("searching", "search"), "Search the indexed code")
    search.add_argument("query", nargs="+", help="a question, or a symbol's name")
    search.add_argument("--limit", default="10", help="results at most (10)")
    search.add_argument("--file-type", help="only files with this extension")
    search.add_argument("--directory", help="only files below this directory")
    search.add_argument("--context", dest="context_lines", default="0", help="lines around (0)")
    search.add_argument(
        "--index",
        action="store_true",
        help="index the repository here first, if it is not yet; on a terminal search asks",
    )
    search.add_argument("--explain", action="store_true", help="show what made each rank")
    _project_options(search)

    status = _command(
        commands,
        "status",
        _lazily("inventory", "status"),
        "Show what is indexed, and how fresh it is",
    )
    _project_options(status)
    projects = _command(
        commands,
        "projects",
        _lazily("inventory", "projects"),
        "List projects and their repositories",
    )
    _project_options(projects)
    remove = _command(commands, "remove", _lazily("indexing", "remove"), "Forget a repository")
    remove.add_argument(
        "path", help="its directory, which need not exist any more, its URL, or its id"
    )
    _project_options(remove)
    add_eval_command(commands, _lazily)
    add_model_command(commands, _lazily)
    add_record_commands(commands, _lazily)
    add_database_commands(commands, _lazily)
    trust = _command(
        commands, "trust", _lazily("trust", "trust"), "Let a .mcp-context.toml name its project"
    )
    trust.add_argument("directory", nargs="?", default=".", help="where to look for it, upward (.)")
    trust.add_argument("--json", action="store_true", help="print JSON")
    settings = _command(
        commands,
        "settings",
        _lazily("settings_command", "settings_command"),
        "Show every setting, its value and where that comes from",
    )
    show_settings(settings, usage="%(prog)s [PATH] [--json] [SETTINGS]")
    settings.add_argument(
        "path", nargs="?", default=".", help="a repository, whose .mcp-context.toml counts too (.)"
    )
    settings.add_argument("--json", action="store_true", help="print JSON")
    settings.set_defaults(names_repository=True)
    doctor = _command(
        commands, "doctor", _lazily("doctor", "doctor"), "Check the whole way with a small canary"
    )
    _project_options(doctor)
    setup = _command(
        commands, "setup", _lazily("setup.command", "setup"), "Let agents know this server"
    )
    add_setup_arguments(setup)


class _Version(argparse.Action):
    """Shows the version, which is looked up when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 - reads the package's description

        say(version("codebase-mcp"))
        parser.exit()


def _add_index_options(index: SettingsParser) -> None:
    index.add_argument("path", help="directory of the repository, or the URL of a git repository")
    index.add_argument(
        "--force", action="store_true", help="rebuild everything, with the configured model"
    )
    index.add_argument("--name", help="display name (the directory's, or org/name of a URL)")
    index.add_argument("--dry-run", action="store_true", help="only tell what it would do and cost")
    index.add_argument("--branch", metavar="NAME", help="of a URL: branch or tag (the default one)")
    index.add_argument("--depth", metavar="N", help="of a URL: commits to fetch (1)")
    index.add_argument("--full", action="store_true", help="of a URL: fetch the whole history")
    index.add_argument(
        "--history", metavar="N", help="commits of history to keep from now on, 0 for none"
    )
    index.set_defaults(names_repository=True)
    index.add_argument(
        "--background", action="store_true", help="only ask for it: a server or a worker does it"
    )


def _known(error: Exception) -> CodebaseError:
    """The error to show for one that nobody named."""
    from codebase_mcp.tools.reply import unforeseen  # noqa: PLC0415 - seldom needed

    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        return InvalidInput(
            "The working directory does not exist any more",
            hint="Change to one that does; CODEBASE_MCP_PROJECT_DIR can name one for the server.",
        )
    return unforeseen(error)


def _has_working_directory() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def show_error(error: CodebaseError, *, as_json: bool) -> None:
    """An error for a program on standard output, or for a person on standard error."""
    from codebase_mcp.cli.hints import in_commands  # noqa: PLC0415 - for this alone

    shape = error.as_dict()
    if error.hint:
        shape["hint"] = in_commands(shape["hint"])
    if as_json:
        print_json({"error": shape}, indent=None)
        return
    warn(f"Error: {shape['message']}")
    for field in error.details.get("fields", ()):
        problem = field.get("message") or f"{field['field']}: {field['constraint']}"
        warn(f"  - {problem}")
    if error.hint:
        warn(f"Hint:  {shape['hint']}")


def _lazily(module: str, function: str) -> Command:
    """A command whose module is imported when it runs."""

    async def command(options: argparse.Namespace, settings: Settings) -> int:
        run_command: Command = getattr(import_module(f"codebase_mcp.cli.{module}"), function)
        return await run_command(options, settings)

    return command


def _settings(options: argparse.Namespace) -> Settings:
    """What was said, checked together with the context file of the repository that is named."""
    problems: list[Problem] = []
    if getattr(options, "names_repository", False):
        from codebase_mcp.repository_settings import problems_in  # noqa: PLC0415 - for few commands
        from codebase_mcp.source.remote import is_remote  # noqa: PLC0415

        is_named = getattr(options, "project", None) is not None
        if not is_remote(options.path):
            problems = problems_in(Path(options.path), names_project=not is_named)
    return Settings.load(others=problems, **flags_in(options))


def _command(commands: Subparsers, name: str, command: Command, summary: str) -> SettingsParser:
    parser: SettingsParser = commands.add_parser(name, help=summary, description=summary + ".")
    parser.set_defaults(command=command)
    return parser


def _project_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", help="project workspace (the default one)")
    parser.add_argument("--json", action="store_true", help="print JSON")


if __name__ == "__main__":
    main()
