"""What differs between two commits, by their trees?

Files on disk do not count, nor do the attributes that lie beside them. A comparison of very many or
very large files has fewer details.

Functions raise ``IndexingFailed`` if git fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git import ask_git, read_git, split_records, stream_git
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import SUBMODULE
from codebase_mcp.source.listing_builder import escape_path

# Further files are only counted …
MAX_FILES = 20_000
# … and with more files than this, neither renames nor lines are looked for.
MAX_FILES_WITH_LINES = 5_000
# If a larger file was added or removed, which git would load, only renames without changes are.
MAX_BYTES_FOR_RENAMES = 16 << 20
# With more removed or added files git only looks for renames without changes: its own default.
_RENAME_LIMIT = 1_000
# How many hashes a list of commits may have.
MAX_COMMITS = 10_000

_REGULAR = frozenset({"100644", "100755", "100664"})
_NOTHING = "000000"
# The empty tree has no commit, but git knows it in every repository, by this hash.
_EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}

Status = Literal["added", "removed", "changed", "renamed", "mode", "type"]


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file on either side of a comparison: git's mode, and the hash of its content."""

    mode: str
    object_id: str

    @property
    def is_regular(self) -> bool:
        """Whether it is a file, and not a link or a submodule."""
        return self.mode in _REGULAR


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that differs; ``old_path`` only if it was renamed.

    ``mode`` is a change of the executable bit alone, ``type`` from a file to a link or submodule,
    for example. The numbers of lines are None where they are unknown, as of binary files.
    """

    path: str
    old_path: str | None
    status: Status
    old: FileVersion | None
    new: FileVersion | None
    lines_added: int | None = None
    lines_removed: int | None = None

    @property
    def is_submodule(self) -> bool:
        """Whether the commit of another repository differs."""
        return any(side.mode == SUBMODULE for side in (self.old, self.new) if side is not None)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files that differ, sorted by path, and their total number.

    Without ``has_details`` renames are not recognised and lines are not counted.
    """

    files: tuple[FileChange, ...]
    total: int
    has_details: bool


def changed_files(repository: GitRepository, a: str, b: str) -> FileChanges:
    """The files below the repository's root that differ from commit ``a`` to commit ``b``.

    Both are full hashes, of commits or trees.
    """
    without_renames = _changes(repository, a, b, "--no-renames")
    files = list(islice(without_renames, MAX_FILES))
    total = len(files) + sum(1 for _ in without_renames)
    if total > MAX_FILES_WITH_LINES:
        return FileChanges(_sorted(files), total, has_details=False)
    renames = "-M100%" if _has_large(repository, files) else "-M"
    try:
        detailed = list(_changes(repository, a, b, renames, f"-l{_RENAME_LIMIT}", "--numstat"))
    except IndexingFailed:  # it takes too long, or a partial clone lacks the contents
        return FileChanges(_sorted(files), total, has_details=False)
    return FileChanges(_sorted(detailed), len(detailed), has_details=True)


def empty_tree(commit: str) -> str:
    """The hash of the tree without files, in a repository with such hashes."""
    return _EMPTY_TREES[len(commit)]


def ahead_behind(repository: GitRepository, a: str, b: str) -> tuple[int, int]:
    """How many commits ``b`` has that ``a`` lacks, and ``a`` has that ``b`` lacks."""
    output = read_git(repository, "rev-list", "--left-right", "--count", f"{a}...{b}", "--")
    behind, ahead = output.split()
    return int(ahead), int(behind)


def ahead_behind_of_refs(repository: GitRepository, base: str) -> dict[str, tuple[int, int]]:
    """How many commits each branch and tag is ahead of ``base`` and behind it, by full name.

    Empty if git is older than 2.41, which would need a process for each ref.
    """
    answer = ask_git(
        repository, "for-each-ref", f"--format=%(ahead-behind:{base}) %(refname)", "refs/"
    )
    counts = {}
    for line in (answer or b"").splitlines():
        ahead, _, rest = line.partition(b" ")
        behind, _, name = rest.partition(b" ")
        if ahead.isdigit() and behind.isdigit():
            counts[escape_path(name)] = int(ahead), int(behind)
    return counts


def parents_of(repository: GitRepository, commit: str) -> list[str]:
    """The parents of a commit, the first parent first; empty for a root commit."""
    output = read_git(repository, "rev-list", "--parents", "--max-count=1", commit, "--")
    return output.decode().split()[1:]


def commits_between(repository: GitRepository, a: str, b: str) -> list[str]:
    """The newest commits that ``b`` has and ``a`` lacks."""
    output = read_git(repository, "rev-list", f"--max-count={MAX_COMMITS}", b, f"^{a}", "--")
    return output.decode().split()


def _changes(repository: GitRepository, a: str, b: str, *options: str) -> Iterator[FileChange]:
    # Run in the git directory, git does not read the attributes that lie in the work tree.
    pieces = stream_git(
        replace(repository, root=repository.store, work_tree=None),
        *("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-ext-diff", "--no-textconv"),
        *("--ignore-submodules=none", "--no-color", *options),
        *([f"--relative={os.fsdecode(repository.prefix)}"] if repository.prefix else ()),
        *(a, b, "--"),
    )
    fields = split_records(pieces, b"\0")
    if "--numstat" not in options:
        yield from (_parsed(field, fields)[1] for field in fields)
        return
    changes: dict[bytes, FileChange] = {}
    for field in fields:
        # All files are listed before all numbers of lines.
        if field.startswith(b":"):
            path, change = _parsed(field, fields)
            changes[path] = change
            continue
        added, removed, path = field.split(b"\t", 2)
        if not path:
            _, path = next(fields), next(fields)
        change = changes[path]
        if added != b"-" and not change.is_submodule:
            changes[path] = replace(change, lines_added=int(added), lines_removed=int(removed))
    yield from changes.values()


def _parsed(details: bytes, fields: Iterator[bytes]) -> tuple[bytes, FileChange]:
    """A path and its change, from the modes, hashes and status, and the paths after these."""
    old_mode, new_mode, old_id, new_id, letter = details[1:].decode().split(" ")
    path, old_path = next(fields), None
    if letter[0] == "R":
        old_path, path = escape_path(path), next(fields)
    old = None if old_mode == _NOTHING else FileVersion(old_mode, old_id)
    new = None if new_mode == _NOTHING else FileVersion(new_mode, new_id)
    status = "renamed" if old_path else status_of(old, new)
    return path, FileChange(escape_path(path), old_path, status, old, new)


def status_of(old: FileVersion | None, new: FileVersion | None) -> Status:
    """The status of a file that has not been renamed, by the versions on both sides."""
    if old is None or new is None:
        return "added" if old is None else "removed"
    if old.is_regular != new.is_regular or not (old.is_regular or old.mode == new.mode):
        return "type"
    return "mode" if old.object_id == new.object_id else "changed"


def _has_large(repository: GitRepository, files: list[FileChange]) -> bool:
    """Whether an added or removed file is too large for git to load it."""
    sides = [file.old or file.new for file in files if file.status in ("added", "removed")]
    ids = "".join(f"{side.object_id}\n" for side in sides if side and side.is_regular)
    if not ids:
        return False
    output = read_git(repository, "cat-file", "--batch-check=%(objectsize)", stdin=ids.encode())
    sizes = output.split(b"\n")
    return any(size.isdigit() and int(size) > MAX_BYTES_FOR_RENAMES for size in sizes)


def _sorted(files: list[FileChange]) -> tuple[FileChange, ...]:
    return tuple(sorted(files, key=lambda file: file.path))
