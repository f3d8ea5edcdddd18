"""The symbol page: who defines and uses a name."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import InvalidInput
from codebase_mcp.pages.projects import projects_of
from codebase_mcp.pages.site import Site

OPERATIONS = ("references", "callers", "callees", "implementations")
_DEPTH = 2
# Below this confidence a use may mean something else of the same name.
_POSSIBLE = 0.5


async def symbol(site: Site, request: Request) -> Response:
    """A name with its definitions, and its uses, callers, callees or implementations."""
    params = request.query_params
    projects = await projects_of(site, request)
    operation = params.get("operation") or OPERATIONS[0]
    if operation not in OPERATIONS:
        rule = ", ".join(OPERATIONS)
        raise InvalidInput.of("operation", operation, "No such question", rule=rule)
    about: dict[str, Any] = {
        name: params.get(name, "").strip() or None for name in ("name", "place", "ref")
    }
    about |= {"project_id": projects.chosen, "repository_id": params.get("repository") or None}
    found = await site.call(request, "symbol", operation="definition", **about)
    deep = {} if operation == "references" else {"depth": _DEPTH}
    answer = await site.call(request, "symbol", operation=operation, limit=200, **about, **deep)
    return site.page(
        request,
        "symbol.html",
        projects=projects,
        subject=about["name"] or about["place"],
        definitions=found.get("definitions", []),
        operation=operation,
        operations=OPERATIONS,
        answer=answer,
        uses=_by_file(answer, resolved=True),
        possible=_by_file(answer, resolved=False),
    )


def _by_file(answer: dict[str, Any], *, resolved: bool) -> list[tuple[str, list[dict[str, Any]]]]:
    """The uses that are resolved, or those that are only possible, with their files."""
    uses = [one for one in answer.get("references", [])
            if (one["confidence"] >= _POSSIBLE) == resolved]  # fmt: skip
    return [(path, list(found)) for path, found in groupby(uses, lambda use: use["file_path"])]
