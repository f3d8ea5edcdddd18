"""What differs between two commits, by their trees, or between a commit and the files on disk?

Between commits files on disk do not count, nor do the attributes that lie beside them. Files on
disk are read as they are: if git compared them, it would run the filters that the repository names
for them. A file that differs only by such a conversion, of line ends or of a large file that git
keeps elsewhere (LFS), counts as equal. A comparison of very many or very large files has fewer
details.

Functions raise ``IndexingFailed`` if git fails.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cache, partial
from io import BytesIO
from itertools import islice, takewhile
from typing import Literal

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git import (
    LIST_FILES,
    ask_git,
    listed_entries,
    read_git,
    split_records,
    stream_git,
)
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import SUBMODULE, SYMLINK, hash_blob, list_tree, read_blobs
from codebase_mcp.source.listing_builder import escape_path, parents
from codebase_mcp.source.open_file import open_regular, read_regular
from codebase_mcp.source.read import lfs_hash
from codebase_mcp.values import grouped

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

# On disk, larger files are compared by their hashes alone.
MAX_BYTES = 1 << 20
# Of a patch that is longer, the rest is left out.
MAX_PATCH_BYTES = 4 << 20
# Up to this product of lines the longest common part is looked for; it takes about a second.
_MAX_LINE_PAIRS = 4_000_000

_BINARY_HEAD_BYTES = 8_000  # where git looks for a NUL
_READ_BYTES = 1 << 20

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

    Without ``has_details`` renames are not recognised and lines are not counted. ``locations`` are
    those of files on disk, by the hash of their content.
    """

    files: tuple[FileChange, ...]
    total: int
    has_details: bool
    locations: Mapping[str, bytes] = field(default_factory=dict)


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


def patch_of(repository: GitRepository, a: str, b: str) -> bytes:
    """The differences between two commits as git prints them; of large ones only the beginning."""
    pieces = _diff_tree(repository, "-p", a, b)
    patch = b""
    for piece in pieces:
        patch += piece
        if len(patch) > MAX_PATCH_BYTES:
            break
    return patch


def commits_between(repository: GitRepository, a: str, b: str) -> list[str]:
    """The newest commits that ``b`` has and ``a`` lacks."""
    output = read_git(repository, "rev-list", f"--max-count={MAX_COMMITS}", b, f"^{a}", "--")
    return output.decode().split()


def _changes(repository: GitRepository, a: str, b: str, *options: str) -> Iterator[FileChange]:
    pieces = _diff_tree(repository, "-z", "--raw", "--no-abbrev", *options, a, b)
    fields = split_records(pieces, b"\0")
    if "--numstat" not in options:
        yield from (_parsed(details, fields)[1] for details in fields)
        return
    changes: dict[bytes, FileChange] = {}
    for entry in fields:
        # All files are listed before all numbers of lines.
        if entry.startswith(b":"):
            path, change = _parsed(entry, fields)
            changes[path] = change
            continue
        added, removed, path = entry.split(b"\t", 2)
        if not path:
            _, path = next(fields), next(fields)
        change = changes[path]
        if added != b"-" and not change.is_submodule:
            changes[path] = replace(change, lines_added=int(added), lines_removed=int(removed))
    yield from changes.values()


def _diff_tree(repository: GitRepository, *arguments: str) -> Iterator[bytes]:
    # Run in the git directory, git does not read the attributes that lie in the work tree.
    return stream_git(
        replace(repository, root=repository.store, work_tree=None),
        *("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none"),
        "--no-color",
        *([f"--relative={os.fsdecode(repository.prefix)}"] if repository.prefix else ()),
        *(*arguments, "--"),
    )


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
    ids = [side.object_id for side in sides if side and side.is_regular]
    if not ids:
        return False
    sizes = read_git(repository, "cat-file", "--batch-check=%(objectsize)", lines=ids).split(b"\n")
    return any(size.isdigit() and int(size) > MAX_BYTES_FOR_RENAMES for size in sizes)


def _sorted(files: list[FileChange]) -> tuple[FileChange, ...]:
    return tuple(sorted(files, key=lambda file: file.path))


def changed_on_disk(repository: GitRepository, commit: str) -> FileChanges:
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
    return FileChanges(tuple(changes[:MAX_FILES]), len(changes), has_details, locations)


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
    removed = grouped(
        (change.old.object_id, change)
        for change in changes
        if change.status == "removed" and change.old is not None and change.old.is_regular
    )
    origins: dict[str, FileChange] = {}
    for change in changes:
        if change.status == "added" and change.new and removed[change.new.object_id]:
            origins[change.path] = removed[change.new.object_id].pop(0)
    moved = {origin.path for origin in origins.values()}
    return [
        replace(change, status="renamed", old_path=origin.path, old=origin.old)
        if (origin := origins.get(change.path))
        else change
        for change in changes
        if change.path not in moved
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
