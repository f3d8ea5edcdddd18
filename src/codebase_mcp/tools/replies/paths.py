"""The paths and the scope of an answer, as a reader sees them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codebase_mcp.printable import printable_line

if TYPE_CHECKING:
    from codebase_mcp.app.scopes import CallScope


def shown_path(scope: CallScope, root: str, path: str) -> str:
    """The path of a file of the repository at ``root``, for a reader who wants to open it.

    It is relative to the directory of the caller; outside of it, or where the caller has several
    directories, it is absolute. A caller over HTTP has no directory: the path is relative to the
    root, or absolute where there are several repositories.
    """
    whole = Path(root, path)
    if not scope.directories:
        return printable_line(str(whole) if len(scope.trees) > 1 else path)
    if len(scope.directories) == 1:
        base = scope.directories[0].resolve()
        if whole.is_relative_to(base):
            return printable_line(str(whole.relative_to(base)))
    return printable_line(str(whole))


def scope_note(scope: CallScope) -> tuple[str, ...]:
    """A line on the repositories that a call meant; nothing where its caller knows them.

    A caller knows the repository that they stand in, and a project that they named.
    """
    count = len(scope.trees)
    name = scope.project.project_id
    parts = [f"{count} repositories"] if count > 1 else []
    if name is not None and scope.source != "explicit":
        parts.append(f"project {name} ({scope.source})")
    return (f"[in {' of '.join(parts)}]",) if parts else ()
