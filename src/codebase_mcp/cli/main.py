"""The product as a shell sees it: ``codebase-mcp COMMAND``; without a command it serves on stdio.

What a command needs is imported when it runs, so that help and the MCP handshake stay quick.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from codebase_mcp import telemetry
from codebase_mcp.cli.command import SEE_ALSO, SettingsParser, command_first, flags_in
from codebase_mcp.cli.commands import all_commands, listing
from codebase_mcp.cli.output import print_json, say, warn
from codebase_mcp.cli.server_commands import SERVE
from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.settings.loading import Problem, Settings, use_one_blas_thread

_log = logging.getLogger(__name__)

# The number of objects that a command creates when it loads its modules. They stay until it ends:
# to look for garbage among them repeatedly takes a tenth of its time.
LOADED_OBJECTS = 100_000

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

Run = Callable[[argparse.Namespace, Settings], Coroutine[Any, Any, int]]
"""The function of a command; its result is the exit status."""


def main(arguments: Sequence[str] | None = None) -> None:
    if arguments is None and sys.getfilesystemencoding() == "ascii":
        # Else no path beyond ASCII has a name; Python's own remedy was switched off.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    use_one_blas_thread()
    gc.set_threshold(LOADED_OBJECTS, 10, 10)
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    from codebase_mcp.cli import tool_commands  # noqa: PLC0415

    ordered = command_first(arguments)
    if tool_commands.is_tool(ordered):
        options = tool_commands.parse(ordered)
        command: Run = tool_commands.call
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
        warn("Interrupted. What was stored so far is kept.")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return EXIT_FAILED
    except Exception as error:
        show_error(_as_known(error), as_json=options.json)
        return EXIT_FAILED
    finally:
        telemetry.end()


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands except the tools'; `tool_commands` makes those from schemas.

    With ``only``, the parser has just the command of this name, if it exists: each parser takes a
    millisecond to make.
    """
    parser = SettingsParser(
        prog="codebase-mcp",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="Code search for AI coding agents. Without a command it serves MCP on stdio.\n"
        + listing(),
        epilog="Every MCP tool is also a command: codebase-mcp search_code --query '…'.\n"
        + SEE_ALSO,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the versions and exit")
    parser.set_defaults(command=SERVE.call, json=False)
    # The description lists them, by group.
    commands = parser.add_subparsers(prog=parser.prog, metavar="COMMAND", help=argparse.SUPPRESS)
    chosen = [command for command in all_commands() if command.name == only]
    for command in chosen or all_commands():
        command.add_to(commands)
    return parser


class _Version(argparse.Action):
    """Shows the version of the program, the newest migrations and the built-in model."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 - for this alone

        from codebase_mcp.database.migrate import known_migrations  # noqa: PLC0415
        from codebase_mcp.embedding.static import StaticEmbedder  # noqa: PLC0415

        project, catalogue = (len(known_migrations(scope)) for scope in ("project", "catalogue"))
        model = StaticEmbedder.load()
        say(
            f"codebase-mcp {version('codebase-mcp')}\n"
            f"schema {project} of projects, {catalogue} of the catalogue\n"
            f"model {model.name} {model.fingerprint}"
        )
        parser.exit()


def _as_known(error: Exception) -> CodebaseError:
    """The error to show for an unhandled exception."""
    from codebase_mcp.tools.reply import unexpected  # noqa: PLC0415 - seldom needed

    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        return InvalidInput(
            "The working directory no longer exists",
            hint="Change to an existing one; CODEBASE_MCP_PROJECT_DIR can name one for the server.",
        )
    return unexpected(error)


def _has_working_directory() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def show_error(error: CodebaseError, *, as_json: bool) -> None:
    """An error for a program on standard output, or for a person on standard error."""
    from codebase_mcp.cli.tool_commands import in_commands  # noqa: PLC0415 - for this alone

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


def _settings(options: argparse.Namespace) -> Settings:
    """The settings, checked together with the context file of the repository that is named."""
    problems: list[Problem] = []
    if getattr(options, "names_repository", False):
        from codebase_mcp.settings.repository import problems_in  # noqa: PLC0415 - for few commands
        from codebase_mcp.source.remote import is_remote  # noqa: PLC0415

        is_named = getattr(options, "project", None) is not None
        # Of several repositories each fails by itself.
        paths = options.paths if "paths" in options else [options.path]
        if len(paths) == 1 and not is_remote(paths[0]):
            problems = problems_in(Path(paths[0]), names_project=not is_named)
    return Settings.load(others=problems, **flags_in(options))


# Destinations of options whose values are paths.
_FILES = {"file", "given", "output", "save", "reference"}
_DIRECTORIES = {"directory", "path", "paths", "repositories"}


async def completion(options: argparse.Namespace, _: Settings) -> int:
    say(script(options.shell).rstrip())
    return 0


def script(shell: str) -> str:
    """The completion of commands, their actions and options, and paths."""
    import shtab  # noqa: PLC0415 - for this alone

    parser = SettingsParser(prog="codebase-mcp")
    parser.add_argument("--version", action="store_true", help="show program, schema and model")
    commands = parser.add_subparsers(metavar="COMMAND", help="a command")
    for command in all_commands():
        command.add_to(commands)
    for subparser in _parsers(parser):
        if subparser.shows_settings:
            subparser.add_settings()
        for action in subparser._actions:  # shtab reads them there too
            # A shell completes values that are paths.
            if action.dest in _FILES or action.metavar == "FILE":
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.dest in _DIRECTORIES or action.metavar == "PATH":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _parsers(parser: SettingsParser) -> Iterator[SettingsParser]:
    """A parser and those of its commands and their actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _parsers(below)


if __name__ == "__main__":
    main()
