"""Who defines and uses a name, from the shell: the agents' text, or the tool's JSON."""

from __future__ import annotations

import argparse

from codebase_mcp.cli.calling import open_shell
from codebase_mcp.cli.commands import SYMBOL_OPERATIONS
from codebase_mcp.cli.here import project_here, repository_here, shown_progress
from codebase_mcp.cli.numbers import number_of
from codebase_mcp.cli.output import print_json, reply_budget, say
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.symbols.answer import SymbolQuestion
from codebase_mcp.symbols.lookup import clean_path, parse_place
from codebase_mcp.tools.rules import check_ref


async def symbol(options: argparse.Namespace, settings: Settings) -> int:
    """Answer a question about a name, a place or a path."""
    question = read_question(options)
    async with open_shell(settings) as shell:
        app = await shell.app()
        project = await project_here(app, options, shell.identity)
        with shown_progress(hidden=options.json) as progress:
            report = await app.symbols.ask(
                question,
                project,
                shell.identity,
                repository=repository_here(options),
                report=progress,
            )
    if options.json:
        from codebase_mcp.tools.symbol_reply import symbol_reply  # noqa: PLC0415 - for JSON alone

        return print_json(symbol_reply(report, None).as_json())
    from codebase_mcp.replies.symbols import symbol_text  # noqa: PLC0415

    say(symbol_text(report, reply_budget(settings)))
    return 0


def read_question(options: argparse.Namespace) -> SymbolQuestion:
    """What the arguments ask.

    Raises:
        InvalidInput: the operation, a number or the ref is not valid.
    """
    operation, target = options.operation, options.target
    if target is None:
        operation, target = "definition", operation
    elif operation not in SYMBOL_OPERATIONS:
        raise InvalidInput.of(
            "operation",
            operation,
            f"No operation of symbol: {operation}",
            rule=", ".join(SYMBOL_OPERATIONS),
            hint=f"The operations are {', '.join(SYMBOL_OPERATIONS)}.",
        )
    place = parse_place(target)
    is_outline = operation == "outline"
    return SymbolQuestion(
        operation,
        name=None if place or is_outline else target,
        place=None if is_outline else place,
        path=clean_path(place.path if place else target) if is_outline else None,
        ref=check_ref(options.ref, "ref") if options.ref else None,
        depth=number_of("depth", options.depth, 1, 3),
        limit=number_of("limit", options.limit, 1, 500),
    )
