"""Where do the files of a repository come from?

From the disk, or from git's objects: a bare repository has the files of the commit at its HEAD.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.model import Listing, SourceFile
from codebase_mcp.source.commit_listing import list_files_at
from codebase_mcp.source.git import commit_at_head
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_objects import SUBMODULE, SYMLINK, find_entries, read_blobs
from codebase_mcp.source.listing_builder import PathFilter
from codebase_mcp.source.open_file import is_real_directory
from codebase_mcp.source.read import Content, read_files, read_objects
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.walk import list_files

# How many files are read at once where only some may be needed.
_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class DiskTree:
    """The files in a directory."""

    root: Path
    selection: Selection
    is_commit: bool = False

    def list_files(self, paths: Iterable[str] | None = None) -> Listing:
        """The files, sorted by path: all, or some files and directories."""
        return list_files(self.root, self.selection, paths)

    def read_files(self, files: Sequence[SourceFile]) -> list[Content]:
        """The content of listed files, in the same order."""
        return read_files(files, max_file_bytes=self.selection.max_file_bytes)


@dataclass(frozen=True, slots=True)
class CommitTree:
    """The files of a commit.

    The location of a file is the hash of its object. Its ``ctime_ns`` is a negative number made of
    that hash, so that a plan compares files as it compares those on disk.
    """

    repository: GitRepository
    commit: str
    selection: Selection
    is_commit: bool = True

    def list_files(self, paths: Iterable[str] | None = None) -> Listing:
        commit = list_files_at(self.repository, self.commit, self.selection)
        selected = PathFilter(None if paths is None else map(os.fsencode, paths))
        files = [
            replace(file, location=object_id, ctime_ns=-int(object_id[:15], 16))
            for file in commit.listing.files
            if selected.covers(file.path.encode()) and (object_id := commit.object_ids[file.path])
        ]
        failures = [f for f in commit.listing.failures if selected.covers(f.path.encode())]
        return replace(commit.listing, files=tuple(files), failures=tuple(failures))

    def read_files(self, files: Sequence[SourceFile]) -> list[Content]:
        objects = [(file, file.location) for file in files]
        return read_objects(self.repository, objects, max_file_bytes=self.selection.max_file_bytes)


SourceTree = DiskTree | CommitTree


def source_tree_at(root: Path, selection: Selection = EVERYTHING) -> SourceTree:
    """The files of the repository at ``root``; if it is bare, those of the commit at HEAD.

    Raises:
        IndexingFailed: the root is gone, HEAD of a bare repository leads to no commit, or git
            failed.
    """
    if not is_real_directory(root):
        raise IndexingFailed(
            f"The directory is gone, or a link leads there now: {root}",
            hint="Index it under its new path.",
        )
    repository = git_repository_at(root)
    if repository is None or repository.work_tree is not None:
        return DiskTree(root, selection)
    return CommitTree(repository, _head_of(repository), selection)


def read_at_head(repository: GitRepository, path: str, most_bytes: int) -> bytes | None:
    """The content of a file in HEAD's commit; None if it does not exist, or is too large.

    Raises:
        IndexingFailed: git failed.
    """
    commit = commit_at_head(repository)
    entries = [] if commit is None else find_entries(repository, commit, [path.encode()])
    files = [entry.object_id for entry in entries if entry.mode not in (SYMLINK, SUBMODULE)]
    for _, content in read_blobs(repository, files, most_bytes):
        return content if isinstance(content, bytes) else None
    return None


def read_each(
    tree: SourceTree, files: Sequence[SourceFile]
) -> Iterator[tuple[SourceFile, Content]]:
    """Files with their content, a few read at once, when they are asked for."""
    for first in range(0, len(files), _AT_ONCE):
        group = files[first : first + _AT_ONCE]
        yield from zip(group, tree.read_files(group), strict=True)


def _head_of(repository: GitRepository) -> str:
    commit = commit_at_head(repository)
    if commit is not None:
        return commit
    from codebase_mcp.source.git_refs import list_refs  # noqa: PLC0415 - seldom needed

    branches = [ref.name for ref in list_refs(repository) if ref.kind == "branch"]
    hint = "Push a commit first."
    if branches:
        hint = f"Choose a branch that has one: git symbolic-ref HEAD refs/heads/{branches[0]}"
    raise IndexingFailed(f"HEAD of {repository.root} is a branch without a commit", hint=hint)
