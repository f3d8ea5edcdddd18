"""Which state of a repository is indexed? Each has a snapshot of its own."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from codebase_mcp.model import WORKTREE


@dataclass(frozen=True, slots=True)
class View:
    """A state of a repository, by the name under which its snapshot is stored.

    ``worktree`` is the files on disk; every other name is the hash of a commit.
    """

    repository_id: UUID
    name: str = WORKTREE

    @property
    def is_worktree(self) -> bool:
        """Whether it is the files on disk."""
        return self.name == WORKTREE

    def parameters(self) -> dict[str, object]:
        """The view as parameters of a statement."""
        return {"repository_id": self.repository_id, "view": self.name}
