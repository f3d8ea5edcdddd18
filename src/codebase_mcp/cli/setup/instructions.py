"""What should an agent know about these tools before it has called one?

The server says how its tools work when a client connects. This is shorter, and stands where the
agent decides whether to use them at all.
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
