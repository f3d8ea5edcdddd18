"""May this caller call the tool?"""

from __future__ import annotations

from codebase_mcp.errors import PermissionDenied
from codebase_mcp.projects.identity import SCOPES, Access
from codebase_mcp.tools.toolset import ToolSpec


def require_scope(spec: ToolSpec, access: Access, operation: str | None = None) -> None:
    """Make sure that a caller may call a tool, or this operation of it.

    Raises:
        PermissionDenied: the caller lacks the scope.
    """
    needed = spec.scope_of(operation)
    if needed in access.scopes or (operation is None and spec.is_open_to(access)):
        return
    what = spec.name if operation is None else f"{spec.name} {operation}"
    held = [scope for scope in SCOPES if scope in access.scopes]
    raise PermissionDenied(
        f"You may not call {what}: it needs the scope {needed}",
        hint=f"Ask the operator of the server for a key with the scope {needed}; a server that is"
        " read-only gives it to no one.",
        details={"field": "scope", "value": ", ".join(held), "constraint": needed},
    )
