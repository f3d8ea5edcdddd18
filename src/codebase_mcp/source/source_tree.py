"""Where do the files of a repository come from?

From the disk, or from git's objects: a bare repository has the files of the commit at its HEAD.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.model import Listing, SourceFile
from codebase_mcp.source.git import commit_at_head
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_objects import (
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    Unread,
    find_entries,
    list_tree,
    read_blobs,
)
from codebase_mcp.source.ignore import ATTRIBUTES
from codebase_mcp.source.listing_builder import (
    DirectoryState,
    DirectoryStates,
    KnownFile,
    ListingBuilder,
    PathFilter,
    escape_path,
    name_of,
    parent_of,
    parents,
    with_slash,
)
from codebase_mcp.source.open_file import MAX_IGNORE_BYTES, is_real_directory
from codebase_mcp.source.read import Content, read_objects, read_source
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.walk import list_files

# How many files are read at once where only some may be needed.
_AT_ONCE = 50
_RULE_FILES = (b".mcpignore", ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class DiskTree:
    """The files in a directory."""

    root: Path
    selection: Selection
    is_commit: bool = False

    def list_files(
        self, paths: Iterable[str] | None = None, known: Mapping[str, KnownFile] | None = None
    ) -> Listing:
        """The files, sorted by path: all, or some files and directories.

        Files that were listed before and are as in ``known`` are only named, as unchanged.
        """
        return list_files(self.root, self.selection, paths, known)

    def read_files(self, files: Sequence[SourceFile]) -> list[Content]:
        """The content of listed files, in the same order."""
        most = self.selection.max_file_bytes
        return [read_source(file, max_file_bytes=most) for file in files]


@dataclass(frozen=True, slots=True)
class CommitTree:
    """The files of a commit.

    The ``ctime_ns`` of a file is a negative number made of the hash of its object, so that a plan
    compares files as it compares those on disk.
    """

    repository: GitRepository
    commit: str
    selection: Selection
    is_commit: bool = True

    def list_files(
        self, paths: Iterable[str] | None = None, _: Mapping[str, KnownFile] | None = None
    ) -> Listing:
        listing = list_files_at(self.repository, self.commit, self.selection)
        selected = PathFilter(None if paths is None else map(os.fsencode, paths))
        files = [
            replace(file, ctime_ns=-int(file.location[:15], 16))
            for file in listing.files
            if selected.covers(file.path.encode())
        ]
        failures = [f for f in listing.failures if selected.covers(f.path.encode())]
        return replace(listing, files=tuple(files), failures=tuple(failures))

    def read_files(self, files: Sequence[SourceFile]) -> list[Content]:
        return read_objects(self.repository, files, max_file_bytes=self.selection.max_file_bytes)


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


def list_files_at(
    repository: GitRepository, commit: str, selection: Selection = EVERYTHING
) -> Listing:
    """The files of a commit below the repository's root, sorted by path.

    They are those that ``walk.py`` lists for a clean checkout, but only git's objects are read. The
    rules, ``.mcpignore`` and ``.gitattributes``, are the commit's own. ``commit`` is a full hash;
    the location of a file is the hash of its object, and it has no times. Submodules are counted as
    skipped, as their files belong to their own repositories. Sizes are those of the blobs, which a
    checkout may convert.

    Raises:
        IndexingFailed: git cannot read a tree or a rule file.
    """
    entries = list_tree(repository, commit)
    top = repository.work_tree or repository.root
    start = os.fsencode(top) + b"/"
    contents = _rule_files(repository, commit, entries)

    def read(location: bytes, too_large: list[bytes]) -> bytes | None:
        content = contents.get(location.removeprefix(start))
        if isinstance(content, Unread):
            too_large.append(location)
            return None
        return content

    builder = ListingBuilder(repository.root, selection, top, read=read)
    _add_entries(builder, entries)
    return builder.listing()


def _rule_files(
    repository: GitRepository, commit: str, entries: Sequence[TreeEntry]
) -> dict[bytes, bytes | Unread]:
    """The ignore and attribute files of a commit by path, or that one is too large to be read."""
    prefix = repository.prefix
    above = [
        with_slash(folder) + name
        for folder in parents(prefix.removesuffix(b"/"))
        for name in _RULE_FILES
    ]
    candidates = [(e.path, e) for e in find_entries(repository, commit, above)]
    candidates += [(prefix + e.path, e) for e in entries if e.path.endswith(_RULE_FILES)]
    files = {
        path: entry.object_id
        for path, entry in candidates
        if entry.mode not in (SYMLINK, SUBMODULE)  # git does not follow such a link either
        and name_of(path) in _RULE_FILES
    }
    contents = dict(read_blobs(repository, set(files.values()), MAX_IGNORE_BYTES))
    for path, object_id in files.items():
        content = contents[object_id]
        if isinstance(content, Unread) and content is not Unread.TOO_LARGE:
            raise IndexingFailed(
                f"{escape_path(path)} of commit {commit[:12]} cannot be read: its object is"
                f" {content.value}. Without it the rules are unknown",
                hint="In a partial clone, check the commit out once. Else run git fsck.",
            )
    return {path: contents[object_id] for path, object_id in files.items()}


def _add_entries(builder: ListingBuilder, entries: Sequence[TreeEntry]) -> None:
    states = DirectoryStates(
        builder, is_link=lambda _: False, is_git_directory=_git_directory_test(entries)
    )
    for entry in entries:
        if entry.mode == SUBMODULE:
            is_ignored = states.of(entry.path) is DirectoryState.IGNORED
            builder.count_skipped("ignored" if is_ignored else "submodule")
            continue
        state = states.of(parent_of(entry.path))
        if state is DirectoryState.IGNORED or (
            state is DirectoryState.OPEN and builder.ignores(entry.path, is_dir=False)
        ):
            builder.count_skipped("ignored")
        elif state is DirectoryState.OPEN:
            builder.add_entry(entry.path, int(entry.mode, 8), entry.size, entry.object_id)


def _git_directory_test(entries: Sequence[TreeEntry]) -> Callable[[bytes], bool]:
    """A test whether a directory of a tree has the structure of a git directory, without links."""
    directories: set[bytes] = set()
    heads: set[bytes] = set()
    for entry in entries:
        if entry.mode == SUBMODULE:
            directories.add(entry.path)
        folder, _, name = entry.path.rpartition(b"/")
        if name == b"HEAD":
            heads.add(entry.path)
        while folder and folder not in directories:
            directories.add(folder)
            folder = parent_of(folder)
    heads |= directories
    return lambda path: (
        path + b"/HEAD" in heads and directories.issuperset((path + b"/objects", path + b"/refs"))
    )
