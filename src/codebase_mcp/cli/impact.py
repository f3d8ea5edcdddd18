"""What does a change touch? From the shell: the agents' text, or the tool's JSON."""

from __future__ import annotations

import argparse

from codebase_mcp.cli.calling import open_shell
from codebase_mcp.cli.here import project_here
from codebase_mcp.cli.output import print_json, reply_budget, say
from codebase_mcp.settings.loading import Settings


async def impact(options: argparse.Namespace, settings: Settings) -> int:
    """Show what a change touches: a commit, ``A...B``, or what is not committed yet."""
    from codebase_mcp.changes.impact import change_named  # noqa: PLC0415 - parses code

    async with open_shell(settings) as shell:
        app = await shell.app()
        project = await project_here(app, options, shell.identity)
        repository = await app.changes.repository(project, identity=shell.identity)
        found = await app.changes.impact(repository, change_named(options.change))
    if options.json:
        from codebase_mcp.tools.vcs import impact_reply  # noqa: PLC0415 - for JSON alone

        return print_json(impact_reply(found, None).as_json())
    from codebase_mcp.replies.changes import impact_text  # noqa: PLC0415
    from codebase_mcp.replies.paths import scope_note  # noqa: PLC0415

    say(impact_text(found, reply_budget(settings), note=scope_note(repository.scope)))
    return 0
