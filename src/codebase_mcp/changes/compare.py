"""What would a branch bring to another?

The differences of ``b`` are those since it parted from ``a``, as in a pull request: what ``a`` got
meanwhile does not count. A ``direct`` comparison is of the two states themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codebase_mcp.changes.symbols import SymbolChanges, compare_symbols
from codebase_mcp.changes.texts import read_texts
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import WORKTREE, FileKind
from codebase_mcp.source.classify import kind_of
from codebase_mcp.source.git import shallow_commits
from codebase_mcp.source.git_changes import (
    FileChange,
    ahead_behind,
    changed_files,
    changed_on_disk,
)
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_refs import merge_base, resolve_commit


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that differs; ``symbols`` is None if its definitions were not compared."""

    file: FileChange
    kind: FileKind
    symbols: SymbolChanges | None


@dataclass(frozen=True, slots=True)
class Differences:
    """The files that differ, by path, and how many there are in all.

    Without ``has_details`` lines and renames are unknown. ``left_out`` counts the files whose
    definitions were not compared, by reason.
    """

    files: tuple[Difference, ...]
    total: int
    has_details: bool
    left_out: Mapping[str, int]

    @property
    def lines_added(self) -> int:
        """In all files."""
        return sum(difference.file.lines_added or 0 for difference in self.files)

    @property
    def lines_removed(self) -> int:
        """In all files."""
        return sum(difference.file.lines_removed or 0 for difference in self.files)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two states of a repository, by their names and commits, and their differences.

    ``commit_b`` is HEAD if ``b`` is the work tree. The differences start at ``base``: the merge
    base, or ``a`` itself. ``commits_ahead`` are those of ``b`` that ``a``
    lacks, ``commits_behind`` those of ``a`` that ``b`` lacks.
    """

    a: str
    b: str
    commit_a: str
    commit_b: str
    base: str
    commits_ahead: int
    commits_behind: int
    differences: Differences
    notices: tuple[str, ...]


def compare(
    repository: GitRepository, a: str, b: str, *, direct: bool = False, symbols: bool = True
) -> Comparison:
    """Compare two branches, tags or commits; ``b`` may be ``worktree``, the files on disk.

    Raises:
        InvalidInput: ``a`` or ``b`` is no commit.
        IndexingFailed: git cannot compare them.
    """
    commit_a = resolve_commit(repository, a, field="branch_a")
    is_on_disk = b == WORKTREE
    _require_tree(repository, is_on_disk)
    commit_b = resolve_commit(repository, "HEAD" if is_on_disk else b, field="branch_b")
    ahead, behind = ahead_behind(repository, commit_a, commit_b)
    parted = merge_base(repository, commit_a, commit_b)
    base = commit_a if direct or parted is None else parted
    notices = []
    if parted is None:
        notices.append("The two have no common history: the states themselves are compared.")
    if shallow_commits(repository):
        notices.append("The clone is shallow: commits ahead and behind may be incomplete.")
    differences = find_differences(repository, base, None if is_on_disk else commit_b, symbols)
    if not differences.has_details and differences.total:
        notices.append("Lines and renames are unknown: too many files differ, or some are missing.")
    return Comparison(a, b, commit_a, commit_b, base, ahead, behind, differences, tuple(notices))


def find_differences(
    repository: GitRepository, a: str, b: str | None, symbols: bool = True
) -> Differences:
    """The differences from a commit or tree ``a`` to ``b``, or to the files on disk (None).

    ``a`` and ``b`` are full hashes.

    Raises:
        IndexingFailed: git cannot compare them.
    """
    changes = changed_on_disk(repository, a) if b is None else changed_files(repository, a, b)
    texts = read_texts(repository, changes.files if symbols else (), changes.locations)
    compared = dict(zip(texts.pairs, compare_symbols(list(texts.pairs.values())), strict=True))
    files = tuple(
        Difference(file, kind_of(file.path), compared.get(file.path)) for file in changes.files
    )
    return Differences(files, changes.total, changes.has_details, texts.left_out)


def _require_tree(repository: GitRepository, is_on_disk: bool) -> None:
    if is_on_disk and repository.work_tree is None:
        raise InvalidInput.of(
            "branch_b",
            WORKTREE,
            "A bare repository has no files on disk",
            rule="a branch, a tag or a commit",
        )
