"""Which state of a repository is indexed? Each has a snapshot of its own."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

WORKTREE = "worktree"


@dataclass(frozen=True, slots=True)
class View:
    """A state of a repository, by the name under which its snapshot is stored.

    ``worktree`` is the files on disk.
    """

    repository_id: UUID
    name: str = WORKTREE

    def parameters(self) -> dict[str, object]:
        """The view as parameters of a statement."""
        return {"repository_id": self.repository_id, "view": self.name}
