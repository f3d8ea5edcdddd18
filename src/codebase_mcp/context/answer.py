"""What a task needs: files with their roles, and how sure each is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from codebase_mcp.model import WORKTREE, FileKind

MAX_TASK_CHARS = 50_000

Role = Literal["change", "read", "test"]
"""What to do with a file: change it, read it, or run it as a test."""


@dataclass(frozen=True, slots=True)
class NeededDefinition:
    """A definition of a file (lines 1-based, inclusive) that the task is about.

    ``name`` is None for lines outside of all definitions. ``content`` are all its lines, None
    where they were not loaded; ``matching_lines`` are the numbers of those to show, best first.
    """

    name: str | None
    start_line: int
    end_line: int
    content: str | None = None
    matching_lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file that the task needs, the probability of that, and why, the strongest reason first.

    ``view`` is ``worktree`` or the commit that has the file.
    """

    repository_id: UUID
    path: str
    language: str
    kind: FileKind
    role: Role
    probability: float
    reasons: tuple[str, ...]
    definitions: tuple[NeededDefinition, ...] = ()
    view: str = WORKTREE


@dataclass(frozen=True, slots=True)
class Outside:
    """How probable it is that the cause lies outside of the repository, and why."""

    probability: float
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """The files that a task needs, in the order in which somebody who does it needs them.

    ``given`` are the paths that the caller has already, which are not among the files.
    ``candidates`` counts all files with some evidence.
    """

    files: tuple[NeededFile, ...]
    given: tuple[str, ...] = ()
    outside: Outside | None = None
    candidates: int = 0
