"""The instructions for agents that ``setup`` writes.

The server describes its tools when a client connects. These instructions are shorter, and are read
when an agent decides whether to use the tools at all. The skill is read only on demand, so it says
more: how to use the command, which works without the server.
"""

from __future__ import annotations

from collections.abc import Collection

from codebase_mcp.guidance import ABSENT, ASK, GREP, INDEXED, STOP

_CODE = f"""\
## Finding code: codebase-mcp

- To find where something is done, call `search_code` of the codebase-mcp server before grep and
  before reading files. {ASK}
- {STOP} {ABSENT}
- {INDEXED}
- Without that server, or from a script: `codebase-mcp search QUESTION` in the repository answers
  the same; `--limit 3` and `--directory src/auth` narrow it."""
_FURTHER = {
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


SKILL_NAME = "codebase-mcp"
_DESCRIPTION = (
    "Find where something is done in a repository, by a question in a programmer's words or by a"
    " symbol's name, with the shell command codebase-mcp search. Use it before grep and before"
    " reading files, whenever the place in the code is not known yet."
)
# Some clients read only the first line of a value.
SKILL_HEADER = f"---\nname: {SKILL_NAME}\ndescription: {_DESCRIPTION}\n---\n"
SKILL = f"""\
# Find code with codebase-mcp search

Run it in the repository:

    codebase-mcp search "retry a failed request with backoff. RetryPolicy backoff_delay"
    codebase-mcp search SessionInterface.open_session

{ASK} {INDEXED} The tool `search_code` of the codebase-mcp server answers the same: use it where
you have it.

## When

- To find where something is done, decided, defined or configured.
- For callers, uses and implementations of a name: `codebase-mcp symbol callers NAME` (or
  `references`, `implementations`).
- {GREP}

## The reply

    1. src/app/sessions.py:307-332  0.98  SessionInterface.open_session
    307  def open_session(self, request):
      …   [20 lines]
       also 335-379 save_session 0.97

- Each place: path, the lines of the whole definition, how likely it is meant (0 to 1), its name;
  `also` names further places of the same file.
- {STOP} {ABSENT}
- "Nothing found" means that nothing has to do with the question: ask in the words that it
  suggests, or search for a name.

## Narrower

- `--limit 3`, `--directory src/auth` (`*` and `**` work), `--file-type py`
- `--context 5` shows more lines around, `--json` is for programs."""
