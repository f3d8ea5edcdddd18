"""What differs between a commit and the files on disk?

Files are read as they are: if git compared them, it would run the filters that the repository names
for them. A file that only such a conversion made different, of line ends or of a large file that
git keeps elsewhere (LFS), counts as equal.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from io import BytesIO
from itertools import takewhile
from typing import Literal

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git import ask_git
from codebase_mcp.source.git_changes import (
    MAX_FILES,
    MAX_FILES_WITH_LINES,
    FileChange,
    FileChanges,
    FileVersion,
    Status,
)
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_files import is_outside_tree
from codebase_mcp.source.git_objects import SUBMODULE, SYMLINK, list_tree, read_blobs
from codebase_mcp.source.lfs import pointed_at
from codebase_mcp.source.listing_builder import escape_path
from codebase_mcp.source.open_file import open_regular

# Larger files are compared by their hashes alone.
MAX_BYTES = 1 << 20
# Up to this product of lines the longest common part is looked for; it takes about a second.
_MAX_LINE_PAIRS = 4_000_000

_BINARY_HEAD_BYTES = 8_000  # where git looks for a NUL
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WorktreeChanges:
    """The files that differ, and where those on disk are, by the hash of their content."""

    changes: FileChanges
    locations: Mapping[str, bytes]


def changed_on_disk(repository: GitRepository, commit: str) -> WorktreeChanges:
    """The files of a work tree, tracked or not, that differ from those of a commit.

    ``commit`` is a full hash. Ignored files do not count. Only a file that was renamed without
    being edited is recognised as such.

    Raises:
        IndexingFailed: git cannot list the files.
    """
    old = {
        entry.path: FileVersion(entry.mode, entry.object_id)
        for entry in list_tree(repository, commit)
    }
    disk = _Disk(repository, "sha1" if len(commit) == 40 else "sha256")
    new = disk.versions(old)
    found = [
        (path, _change(path, old.get(path), new.get(path)))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]
    locations = {version.object_id: disk.location(path) for path, version in new.items()}
    changes = _with_renames([change for _, change in found])
    has_details = len(changes) <= MAX_FILES_WITH_LINES
    if has_details:
        changes = _with_lines(repository, changes, locations)
    files = tuple(changes[:MAX_FILES])
    return WorktreeChanges(FileChanges(files, len(changes), has_details), locations)


def read_location(location: bytes, max_bytes: int) -> bytes | None:
    """The content of a file; None if it is larger, not a file, or cannot be read."""
    try:
        handle = open_regular(location)
        if handle is None:
            return None
        with os.fdopen(handle, "rb") as file:
            content = file.read(max_bytes + 1)
    except OSError:
        return None
    return None if len(content) > max_bytes else content


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
    """How many lines are equal from the first on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


class _Disk:
    """The files of a work tree."""

    def __init__(self, repository: GitRepository, algorithm: Literal["sha1", "sha256"]) -> None:
        self._repository = repository
        self._root = os.fsencode(repository.root) + b"/"
        self._algorithm = algorithm
        self._directories: dict[bytes, bool] = {b"": True}

    def location(self, path: bytes) -> bytes:
        """Where a file is."""
        return self._root + path

    def versions(self, old: Mapping[bytes, FileVersion]) -> dict[bytes, FileVersion]:
        """The files that git lists and that are there, with the hashes of their contents."""
        options = ("-z", "-t", "--stage", "--others", "--exclude-standard")
        output = ask_git(self._repository, "ls-files", *options)
        if output is None:
            raise IndexingFailed("git ls-files failed", hint="Check that git status works here.")
        found = {}
        for record in output.split(b"\0"):
            tag, _, rest = record.partition(b" ")
            details, _, path = (b"", b"", rest) if tag == b"?" else rest.partition(b"\t")
            if not path or path.endswith(b"/") or is_outside_tree(path):
                continue
            mode, object_id = details.decode().split()[:2] if details else ("", "")
            if mode == SUBMODULE:
                version: FileVersion | None = FileVersion(mode, object_id)
            else:
                version = self._version(path)
            if version is None and tag == b"S":  # of a sparse checkout, left out on purpose
                version = old.get(path)
            if version is not None:
                found[path] = version
        return found

    def _version(self, path: bytes) -> FileVersion | None:
        location = self.location(path)
        try:
            if not self._is_directory(path.rpartition(b"/")[0]):
                return None
            status = os.lstat(location)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(location)  # noqa: PTH115 - Path has no bytes
                digest = hashlib.new(self._algorithm, b"blob %d\0" % len(target) + target)
                return FileVersion(SYMLINK, digest.hexdigest())
            object_id = _blob_hash(location, self._algorithm)
        except OSError:
            return None
        mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
        return None if object_id is None else FileVersion(mode, object_id)

    def _is_directory(self, path: bytes) -> bool:
        """Whether a directory is one itself, as are all above it: none is a link."""
        known = self._directories.get(path)
        if known is None:
            above = self._is_directory(path.rpartition(b"/")[0])
            known = above and stat.S_ISDIR(os.lstat(self.location(path)).st_mode)
            self._directories[path] = known
        return known


def _blob_hash(location: bytes, algorithm: str) -> str | None:
    """The hash that git would give to a file as it is; None if it is not a regular file."""
    handle = open_regular(location)
    if handle is None:
        return None
    with os.fdopen(handle, "rb") as file:
        digest = hashlib.new(algorithm, b"blob %d\0" % os.fstat(handle).st_size)
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _change(path: bytes, old: FileVersion | None, new: FileVersion | None) -> FileChange:
    status: Status = "changed"
    if old is None or new is None:
        status = "added" if old is None else "removed"
    elif _type(old) != _type(new):
        status = "type"
    elif old.object_id == new.object_id:
        status = "mode"
    return FileChange(escape_path(path), None, status, old, new)


def _type(version: FileVersion) -> str:
    return "file" if version.is_regular else version.mode


def _with_renames(changes: Sequence[FileChange]) -> list[FileChange]:
    """The changes, with equal files that were removed and added as one."""
    removed: dict[str, list[FileChange]] = defaultdict(list)
    for one in changes:
        if one.status == "removed" and one.old is not None and one.old.is_regular:
            removed[one.old.object_id].append(one)
    gone: set[str] = set()
    found = []
    for one in changes:
        same = removed.get(one.new.object_id) if one.status == "added" and one.new else None
        if same:
            origin = same.pop(0)
            gone.add(origin.path)
            one = replace(one, status="renamed", old_path=origin.path, old=origin.old)  # noqa: PLW2901
        found.append(one)
    return [one for one in found if not (one.status == "removed" and one.path in gone)]


def _with_lines(
    repository: GitRepository, changes: Iterable[FileChange], locations: Mapping[str, bytes]
) -> list[FileChange]:
    """The changes with their numbers of lines, without those that only a conversion made."""
    changes = list(changes)
    wanted = {one.old.object_id for one in changes if one.old is not None and one.old.is_regular}
    blobs = {
        object_id: content if isinstance(content, bytes) else None
        for object_id, content in read_blobs(repository, sorted(wanted), MAX_BYTES)
    }
    found = []
    for one in changes:
        old = b"" if one.old is None else blobs.get(one.old.object_id)
        location = None if one.new is None else locations[one.new.object_id]
        new = b"" if location is None else _read_file(one, location)
        if one.status == "changed" and old and location and _is_converted(old, new, location):
            continue
        if old is None or new is None or _is_binary(old) or _is_binary(new):
            found.append(one)
            continue
        added, removed = count_lines(old, new)
        found.append(replace(one, lines_added=added, lines_removed=removed))
    return found


def _read_file(change: FileChange, location: bytes) -> bytes | None:
    is_file = change.new is not None and change.new.is_regular
    return read_location(location, MAX_BYTES) if is_file else None


def _is_converted(old: bytes, new: bytes | None, location: bytes) -> bool:
    """Whether a file is what a checkout of the blob may have made of it."""
    if hash_on_disk := pointed_at(old):
        try:
            handle = open_regular(location)
            if handle is None:
                return False
            with os.fdopen(handle, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == hash_on_disk
        except OSError:
            return False
    return new is not None and old.replace(b"\r\n", b"\n") == new.replace(b"\r\n", b"\n")


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:_BINARY_HEAD_BYTES]
