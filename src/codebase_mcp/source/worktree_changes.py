"""What differs between a commit and the files on disk?

Files are read as they are: if git compared them, it would run the filters that the repository names
for them. A file that differs only by such a conversion, of line ends or of a large file that git
keeps elsewhere (LFS), counts as equal.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache, partial
from io import BytesIO
from itertools import takewhile

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git import LIST_FILES, ask_git, listed_entries
from codebase_mcp.source.git_changes import (
    MAX_FILES,
    MAX_FILES_WITH_LINES,
    FileChange,
    FileChanges,
    FileVersion,
    status_of,
)
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import SUBMODULE, SYMLINK, hash_blob, list_tree, read_blobs
from codebase_mcp.source.listing_builder import escape_path, parents
from codebase_mcp.source.open_file import open_regular, read_regular
from codebase_mcp.source.read import lfs_hash

# Larger files are compared by their hashes alone.
MAX_BYTES = 1 << 20
# Up to this product of lines the longest common part is looked for; it takes about a second.
_MAX_LINE_PAIRS = 4_000_000

_BINARY_HEAD_BYTES = 8_000  # where git looks for a NUL
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WorktreeChanges:
    """The files that differ, and the locations of those on disk, by the hash of their content."""

    changes: FileChanges
    locations: Mapping[str, bytes]


def changed_on_disk(repository: GitRepository, commit: str) -> WorktreeChanges:
    """The files of a work tree, tracked or not, that differ from those of a commit.

    ``commit`` is a full hash. Ignored files do not count. A rename is only recognised if the file
    is otherwise unchanged.

    Raises:
        IndexingFailed: git cannot list the files.
    """
    old = {
        entry.path: FileVersion(entry.mode, entry.object_id)
        for entry in list_tree(repository, commit)
    }
    new = _versions_on_disk(repository, old, hash_chars=len(commit))
    start = os.fsencode(repository.root) + b"/"
    locations = {version.object_id: start + path for path, version in new.items()}
    versions = ((path, old.get(path), new.get(path)) for path in sorted(old.keys() | new.keys()))
    changes = _with_renames(
        [
            FileChange(escape_path(path), None, status_of(before, after), before, after)
            for path, before, after in versions
            if before != after
        ]
    )
    has_details = len(changes) <= MAX_FILES_WITH_LINES
    if has_details:
        changes = _with_lines(repository, changes, locations)
    files = tuple(changes[:MAX_FILES])
    return WorktreeChanges(FileChanges(files, len(changes), has_details), locations)


def read_location(location: bytes, max_bytes: int) -> bytes | None:
    """The content of a file; None if it is larger, not a file, or cannot be read."""
    try:
        content = read_regular(location, max_bytes)
    except OSError:
        return None
    return None if content is None or len(content) > max_bytes else content


def count_lines(old: bytes, new: bytes) -> tuple[int, int]:
    """How many lines were added and removed."""
    before, after = BytesIO(old).readlines(), BytesIO(new).readlines()
    first = _equal_lines(before, after)
    before, after = before[first:], after[first:]
    last = _equal_lines(before[::-1], after[::-1])
    before, after = before[: len(before) - last], after[: len(after) - last]
    if len(before) * len(after) > _MAX_LINE_PAIRS:
        kept = (Counter(before) & Counter(after)).total()
    else:
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        kept = sum(block.size for block in matcher.get_matching_blocks())
    return len(after) - kept, len(before) - kept


def _equal_lines(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """The number of equal lines at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _versions_on_disk(
    repository: GitRepository, old: Mapping[bytes, FileVersion], *, hash_chars: int
) -> dict[bytes, FileVersion]:
    """The files that git lists and that exist, with the hashes of their contents."""
    output = ask_git(repository, *LIST_FILES)
    if output is None:
        raise IndexingFailed("git ls-files failed", hint="Check that git status works here.")
    root = os.fsencode(repository.root)

    @cache
    def is_directory(path: bytes) -> bool:
        return stat.S_ISDIR(os.lstat(root + b"/" + path).st_mode)

    versions = {}
    for tag, details, path in listed_entries(output):
        if path.endswith(b"/"):
            continue
        version = None
        mode, object_id = details.decode().split()[:2] if details else ("", "")
        if mode == SUBMODULE:
            version = FileVersion(mode, object_id)
        else:
            try:
                # From the top down, so that no link is followed.
                if all(map(is_directory, [*parents(path)][-2::-1])):
                    version = _version_at(root + b"/" + path, hash_chars)
            except OSError:  # it does not exist, or cannot be read
                pass
        if version is None and tag == b"S":  # a sparse checkout leaves it out on purpose
            version = old.get(path)
        if version is not None:
            versions[path] = version
    return versions


def _version_at(location: bytes, hash_chars: int) -> FileVersion | None:
    """The mode and hash that git would store for a link or file; None for anything else."""
    status = os.lstat(location)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(location)  # noqa: PTH115 - Path has no bytes
        return FileVersion(SYMLINK, hash_blob([target], len(target), hash_chars))
    file = open_regular(location)
    if file is None:
        return None
    with file:
        pieces = iter(partial(file.read, _READ_BYTES), b"")
        object_id = hash_blob(pieces, os.fstat(file.fileno()).st_size, hash_chars)
    mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
    return FileVersion(mode, object_id)


def _with_renames(changes: Sequence[FileChange]) -> list[FileChange]:
    """The changes, in which the removal and addition of equal files are renames."""
    removed: dict[str, list[FileChange]] = defaultdict(list)
    for change in changes:
        if change.status == "removed" and change.old is not None and change.old.is_regular:
            removed[change.old.object_id].append(change)
    renamed: dict[str, FileChange] = {}
    origins: set[str] = set()
    for change in changes:
        if change.status == "added" and change.new and removed.get(change.new.object_id):
            origin = removed[change.new.object_id].pop(0)
            origins.add(origin.path)
            renamed[change.path] = replace(
                change, status="renamed", old_path=origin.path, old=origin.old
            )
    return [
        renamed.get(change.path, change)
        for change in changes
        if change.status != "removed" or change.path not in origins
    ]


def _with_lines(
    repository: GitRepository, changes: Sequence[FileChange], locations: Mapping[str, bytes]
) -> list[FileChange]:
    """The changes with their numbers of lines, without those that only a conversion made."""
    regular = {change.old.object_id for change in changes if change.old and change.old.is_regular}
    blobs = {
        object_id: content if isinstance(content, bytes) else None
        for object_id, content in read_blobs(repository, sorted(regular), MAX_BYTES)
    }
    counted = []
    for change in changes:
        old = b"" if change.old is None else blobs.get(change.old.object_id)
        location = None if change.new is None else locations[change.new.object_id]
        new: bytes | None = b""
        if change.new is not None and location is not None:
            new = read_location(location, MAX_BYTES) if change.new.is_regular else None
        if change.status == "changed" and old and location and _is_converted(old, new, location):
            continue
        if old is not None and new is not None and not (_is_binary(old) or _is_binary(new)):
            added, removed = count_lines(old, new)
            change = replace(change, lines_added=added, lines_removed=removed)  # noqa: PLW2901
        counted.append(change)
    return counted


def _is_converted(old: bytes, new: bytes | None, location: bytes) -> bool:
    """Whether a checkout of the blob may have produced this file."""
    if expected := lfs_hash(old):
        try:
            file = open_regular(location)
            with file or nullcontext():
                digest = hashlib.file_digest(file, "sha256").hexdigest() if file else ""
        except OSError:
            return False
        return digest == expected
    return new is not None and old.replace(b"\r\n", b"\n") == new.replace(b"\r\n", b"\n")


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:_BINARY_HEAD_BYTES]
