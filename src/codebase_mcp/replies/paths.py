"""How is a file named, so that its reader can open it from where they stand? And where is it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codebase_mcp.printable import printable_line

if TYPE_CHECKING:
    from codebase_mcp.app.scopes import CallScope


def shown_path(scope: CallScope, root: str, path: str) -> str:
    """The path of a file of the repository at ``root``.

    It is relative to the directory of the caller, and absolute outside of it, or where the caller
    has several. A caller over HTTP has none: it gets the path relative to the root, which stands
    before it where there are several repositories.
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
    """A line on which repositories a call meant; none where its caller knows that.

    A caller knows the repository that they stand in, and a project that they named.
    """
    count = len(scope.trees)
    name = scope.project.project_id
    parts = [f"{count} repositories"] if count > 1 else []
    if name is not None and scope.source != "explicit":
        parts.append(f"project {name} ({scope.source})")
    return (f"[in {' of '.join(parts)}]",) if parts else ()
