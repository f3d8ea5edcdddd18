"""Which files does a commit have?

Lists the same files as ``walk.py`` lists for a clean checkout of the commit, but reads only git's
objects. The rules, ``.mcpignore`` and ``.gitattributes``, are the commit's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.model import Listing
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import (
    SUBMODULE,
    SYMLINK,
    TreeEntry,
    Unread,
    find_entries,
    list_tree,
    read_blobs,
)
from codebase_mcp.source.ignore import ATTRIBUTES, IgnoreFiles
from codebase_mcp.source.listing_builder import (
    DirectoryState,
    DirectoryStates,
    ListingBuilder,
    escape_path,
    name_of,
    parent_of,
    parents,
    with_slash,
)
from codebase_mcp.source.open_file import MAX_IGNORE_BYTES
from codebase_mcp.source.selection import EVERYTHING, Selection

_RULE_FILES = (b".mcpignore", ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class CommitListing:
    """The files of a commit, and the hash of the git object of each path.

    The files have no location and no times.
    """

    listing: Listing
    object_ids: Mapping[str, str]


def list_files_at(
    repository: GitRepository, commit: str, selection: Selection = EVERYTHING
) -> CommitListing:
    """The files of a commit below the repository's root, sorted by path.

    ``commit`` is a full hash. Submodules are counted as skipped, as their files belong
    to their own repositories. Sizes are those of the blobs, which a checkout may convert.

    Raises:
        IndexingFailed: git cannot read a tree or a rule file.
    """
    entries = list_tree(repository, commit)
    top = os.fsencode(repository.work_tree or repository.root)
    rules = _RuleFiles(repository, commit, entries, top + b"/")
    builder = ListingBuilder(
        repository.root,
        selection,
        IgnoreFiles(top, b".mcpignore", read=rules.read),
        repository.prefix,
        not_applied=rules.too_large,
        read_rules=rules.read,
    )
    object_ids = _add_entries(builder, entries)
    return CommitListing(builder.listing(), object_ids)


class _RuleFiles:
    """The content of a commit's ignore and attribute files, as if they were on disk.

    Locations begin with ``start``. ``too_large`` collects the locations of requested files that are
    too large to be read.
    """

    def __init__(
        self, repository: GitRepository, commit: str, entries: Sequence[TreeEntry], start: bytes
    ) -> None:
        self.too_large: list[bytes] = []
        self._contents: dict[bytes, bytes | Unread] = {}
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
            self._contents[start + path] = content

    def read(self, location: bytes) -> bytes | None:
        """The content of a rule file; None if it does not exist, or is too large."""
        content = self._contents.get(location)
        if isinstance(content, Unread):
            self.too_large.append(location)
            return None
        return content


def _add_entries(builder: ListingBuilder, entries: Sequence[TreeEntry]) -> dict[str, str]:
    """Add the entries of a tree; the hash of each file that is listed."""
    states = DirectoryStates(
        builder, is_link=lambda _: False, is_git_directory=_git_directory_test(entries)
    )
    object_ids: dict[str, str] = {}
    for entry in entries:
        raw = entry.path
        if entry.mode == SUBMODULE:
            is_ignored = states.of(raw) is DirectoryState.IGNORED
            builder.count_skipped("ignored" if is_ignored else "submodule")
            continue
        state = states.of(parent_of(raw))
        if state is DirectoryState.ABSENT:
            continue
        if state is DirectoryState.IGNORED or builder.ignores(raw, is_dir=False):
            builder.count_skipped("ignored")
            continue
        builder.add_entry(raw, int(entry.mode, 8), entry.size)
        path = escape_path(raw)
        if path in builder.files:
            object_ids.setdefault(path, entry.object_id)  # the first of two with the same name
    return object_ids


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
