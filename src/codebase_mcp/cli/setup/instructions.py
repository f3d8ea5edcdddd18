"""The instructions for agents that ``setup`` writes.

The server describes its tools when a client connects. These instructions are shorter, and are read
when an agent decides whether to use the tools at all. The skill is read only on demand, so it says
more: how to use the command, which works without the server.
"""

from __future__ import annotations

from collections.abc import Collection

_CODE = """\
## Finding code: codebase-mcp

- To find where something is done, call `search_code` of the codebase-mcp server before grep and
  before reading files: with a question ("where are failed requests retried") or a symbol's name.
  It answers with the places and their lines; go on reading there.
- PROJECT_NOT_FOUND means that nothing is indexed yet: call `index_repository` with the absolute
  path of the repository, then search again. After larger changes call it again: only they are read.
- Without that server, or from a script: `codebase-mcp search "where are failed requests retried"`
  in the repository answers the same; `--index` indexes it first where that is still to do,
  `--limit 3` and `--directory src/auth` narrow it.
- Use grep where every occurrence of an exact string matters, such as all callers of a function.
- An empty answer means that nothing in the code has to do with the question."""
_RECORDS = {
    "tasks": "- Look at `list_tasks` first; keep status and branch true with `update_task`.",
    "memory": "- Ask `memory` (operation search or inject) what was decided before; store decisions"
    " there.",
    "work_items": "- Larger work lies in `query_work_items` and `get_work_item_hierarchy`.",
}


def instructions_for(toolsets: Collection[str]) -> str:
    """The instructions for a server that shows these toolsets."""
    return "\n".join([_CODE, *(line for name, line in _RECORDS.items() if name in toolsets)])


SKILL_NAME = "codebase-mcp"
_DESCRIPTION = (
    "Find where something is done in a repository, by a question in plain words or by a symbol's"
    " name, with the shell command codebase-mcp search. Use it before grep and before reading"
    " files, whenever the place in the code is not known yet."
)
# Some clients read only what stands on one line.
SKILL_HEADER = f"---\nname: {SKILL_NAME}\ndescription: {_DESCRIPTION}\n---\n"
SKILL = """\
# Find code with codebase-mcp search

Run it in the repository:

    codebase-mcp search "where are failed requests retried"
    codebase-mcp search SessionInterface.open_session

`--index` indexes the repository first if that is still to do; after larger changes run
`codebase-mcp index .`, which reads only what changed. The tool `search_code` of the codebase-mcp
server answers the same: use it where you have it.

## When

- To find where something is done, decided, defined or configured: ask what you want to know.
- For every occurrence of an exact string, such as all callers of a function, use grep.

## The reply

    1. src/app/sessions.py:307-332  0.98  SessionInterface.open_session
    307  def open_session(self, request):
      …   [20 lines]
       also 335-379 save_session 0.97
    also: src/app/signing.py:12-40, docs/sessions.md:1-30

- Each place: path, the lines of the whole definition, how likely it is meant (0 to 1), its name.
  Read on there; `also` names further places of the same file, the last line other files.
- Below 0.25 a place is a guess. "Nothing found" means that nothing has to do with the question: ask
  in the words that it suggests, or search for a name.

## Narrower

- `--limit 3`, `--directory src/auth` (`*` and `**` work), `--file-type py`
- `--context 5` shows more lines around, `--json` is for programs."""
