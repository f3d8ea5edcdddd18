"""Reads trees and blobs from git's objects, without a checkout.

Objects are read in batches, a few processes for any number of them. Git runs no filters, hooks or
programs for this, and does not fetch missing objects. Paths in a tree are untrusted input.

Git also reads objects from alternates: a clone made with ``--shared`` stores all of its objects
there. Objects are only read by their hash, which follows from their content.

Functions raise ``IndexingFailed`` if git fails.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git import (
    FSCK_HINT,
    GitTimeout,
    is_outside_tree,
    read_git,
    split_records,
    stream_git,
)
from codebase_mcp.source.git_directory import GitRepository

SUBMODULE = "160000"
SYMLINK = "120000"

# About two million files. A tree that contains itself many times over may list far more.
MAX_TREE_BYTES = 1 << 28
# No file system holds longer paths.
_MAX_PATH_BYTES = 4_095
# Blobs are read in batches of about this size, so that no process waits for the reader.
_BATCH_BYTES = 8 << 20
# Git ends at a damaged object, so each costs a process.
_MAX_DAMAGED = 20


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file, link or submodule of a commit; ``mode`` in octal, ``size`` None if it is unknown.

    The size is unknown for submodules and for objects that the repository does not have.
    """

    path: bytes
    mode: str
    object_id: str
    size: int | None


class TreeTooLarge(IndexingFailed):
    """A commit lists more paths than any real commit."""


class Unread(Enum):
    """Why an object was not read. Git says of many damaged objects that they are missing."""

    MISSING = "missing"
    TOO_LARGE = "too_large"
    DAMAGED = "damaged"


def list_tree(repository: GitRepository, commit: str) -> list[TreeEntry]:
    """The files, links and submodules of a commit below the repository's root, in git's order.

    ``commit`` is a full hash. Paths are relative to the root. Those that no checkout could have,
    such as ``../x`` and ``.git/x`` in a forged tree, are left out.
    """
    prefix = repository.prefix
    return list(_listed(repository, commit, [prefix] if prefix else [], len(prefix)))


def find_entries(repository: GitRepository, commit: str, paths: Sequence[bytes]) -> list[TreeEntry]:
    """The entries that a commit has at some paths, relative to the top of the work tree."""
    if not paths:
        return []
    names = frozenset(paths)
    return [e for e in _listed(repository, commit, sorted(names), 0) if e.path in names]


def read_blobs(
    repository: GitRepository, object_ids: Iterable[str], max_bytes: int
) -> Iterator[tuple[str, bytes | Unread]]:
    """The content of each blob, or why it was not read, in the same order.

    ``object_ids`` are full hashes. Memory is bounded: sizes are asked first, larger blobs are never
    read, and the rest in batches. The content is verified against the hash.

    Raises:
        IndexingFailed: git failed, or many objects are damaged.
    """
    batch: list[tuple[str, int | Unread]] = []
    waiting_bytes = 0
    ids = list(object_ids)
    for object_id, size in zip(ids, _sizes(repository, ids), strict=True):
        if isinstance(size, int) and size > max_bytes:
            size = Unread.TOO_LARGE  # noqa: PLW2901
        batch.append((object_id, size))
        waiting_bytes += size if isinstance(size, int) else 0
        if waiting_bytes >= _BATCH_BYTES:
            yield from _read_batch(repository, batch)
            batch, waiting_bytes = [], 0
    yield from _read_batch(repository, batch)


def _listed(
    repository: GitRepository, commit: str, paths: Sequence[bytes], lead: int
) -> Iterator[TreeEntry]:
    """Entries at or below some paths of a commit, or all; ``lead`` bytes are cut off the paths."""
    try:
        records = _records(repository, commit, paths, "-l")
    except (GitTimeout, TreeTooLarge):
        raise
    except IndexingFailed:
        # In a partial clone git ends at the first blob that is missing, if it looks for sizes.
        records = list(_with_sizes(repository, commit, _records(repository, commit, paths)))
    for details, whole_path in records:
        path = whole_path[lead:]
        if path and len(path) <= _MAX_PATH_BYTES and not is_outside_tree(path):
            mode, _, object_id, size = details.decode("ascii").split()
            yield TreeEntry(path, mode, object_id, int(size) if size.isdigit() else None)


def _records(
    repository: GitRepository, commit: str, paths: Sequence[bytes], *options: str
) -> list[tuple[bytes, bytes]]:
    """The output of ``ls-tree``: mode, type, hash and perhaps size; and the path."""
    output = bytearray()
    # --full-tree: the repository's own core.worktree must not limit the listing.
    arguments = ("ls-tree", "-r", "-z", "--full-tree", *options, "--", commit)
    for piece in stream_git(repository, *arguments, *map(os.fsdecode, paths)):
        output += piece
        if len(output) > MAX_TREE_BYTES:
            raise TreeTooLarge(
                f"Commit {commit[:12]} lists over {MAX_TREE_BYTES >> 20} MiB of paths",
                hint="Index a subdirectory.",
            )
    records = (record.partition(b"\t") for record in bytes(output).split(b"\0")[:-1])
    return [(details, path) for details, _, path in records]


def _with_sizes(
    repository: GitRepository, commit: str, records: Sequence[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """The records with the sizes of those objects that a partial clone has."""
    arguments = ("rev-list", "--objects", "--no-object-names", "--missing=print")
    lines = read_git(repository, *arguments, f"{commit}^{{tree}}", "--").split()
    missing = {line[1:] for line in lines if line.startswith(b"?")}
    ids = {details.split()[2] for details, _ in records if not details.startswith(b"160000")}
    present = [object_id.decode("ascii") for object_id in ids - missing]
    sizes = dict(zip(present, _sizes(repository, present), strict=True))
    for details, path in records:
        size = sizes.get(details.split()[2].decode("ascii"))
        yield details + (b" %d" % size if isinstance(size, int) else b" -"), path


def ask_about_objects(
    repository: GitRepository, format_: str, names: Sequence[str]
) -> list[bytes | None]:
    """The line that ``cat-file --batch-check`` prints for each object; None where it failed.

    A line ends with ``missing`` if there is no such object, or it is damaged. In a partial clone
    git fails instead. Names come from git, not from callers.

    Raises:
        IndexingFailed: git failed, or many objects are damaged.
    """

    def lines(waiting: Sequence[str]) -> Iterator[bytes]:
        arguments = ("cat-file", f"--batch-check={format_}", "--buffer")
        return split_records(stream_git(repository, *arguments, lines=waiting), b"\n")

    return list(_past_damage(lines, names))


def _sizes(repository: GitRepository, object_ids: Sequence[str]) -> Iterator[int | Unread]:
    """The size of each blob; objects of other types count as damaged."""
    for line in ask_about_objects(repository, "%(objecttype) %(objectsize)", object_ids):
        kind, _, size = (line or b"").partition(b" ")
        if kind == b"blob":
            yield int(size)
        else:
            yield Unread.DAMAGED if size.isdigit() else Unread.MISSING


def _read_batch(
    repository: GitRepository, batch: Sequence[tuple[str, int | Unread]]
) -> Iterator[tuple[str, bytes | Unread]]:
    readable = [object_id for object_id, size in batch if isinstance(size, int)]
    contents = _contents(repository, readable)
    for object_id, size in batch:
        default = size if isinstance(size, Unread) else Unread.DAMAGED
        yield object_id, contents.get(object_id, default)


def _contents(repository: GitRepository, object_ids: Sequence[str]) -> dict[str, bytes]:
    """The blobs that can be read and whose content has their hash."""

    def blobs(waiting: Sequence[str]) -> Iterator[bytes]:
        arguments = ("cat-file", "--batch=%(objectsize)", "--buffer")
        output = stream_git(repository, *arguments, lines=waiting)
        for object_id, content in zip(waiting, _blobs_in(output), strict=False):
            if hash_blob([content], len(content), len(object_id)) != object_id:
                # Git writes a damaged object as it is, and perhaps not all of it, so all further
                # output may be out of step.
                raise IndexingFailed(
                    f"The content of {object_id} is another object's", hint=FSCK_HINT
                )
            yield content

    contents = zip(object_ids, _past_damage(blobs, object_ids), strict=True)
    return {object_id: content for object_id, content in contents if content is not None}


def _past_damage(
    ask: Callable[[Sequence[str]], Iterator[bytes]], names: Sequence[str]
) -> Iterator[bytes | None]:
    """An answer for each name: None for damaged objects, at which git ends and is started again."""
    waiting = names
    failures = 0
    while waiting:
        count = 0
        problem = IndexingFailed("git printed nothing about some objects", hint=FSCK_HINT)
        try:
            for count, answer in enumerate(ask(waiting), 1):  # noqa: B007 - used below
                yield answer
        except GitTimeout:
            raise
        except IndexingFailed as error:
            problem = error
        waiting = waiting[count:]
        if waiting:
            failures += 1
            if failures > _MAX_DAMAGED:
                raise problem
            yield None
            waiting = waiting[1:]


def _blobs_in(output: Iterator[bytes]) -> Iterator[bytes]:
    """The contents in the output of ``cat-file --batch=%(objectsize)``."""
    rest = bytearray()
    end = -1  # where the current content ends; unknown before its header is read
    for piece in output:
        rest += piece
        while True:
            if end < 0:
                newline = rest.find(b"\n")
                if newline < 0:
                    break
                if not rest[:newline].isdigit():
                    raise IndexingFailed("An object vanished while it was read", hint=FSCK_HINT)
                end = int(rest[:newline])
                del rest[: newline + 1]
            if len(rest) <= end:  # a line break follows
                break
            yield bytes(rest[:end])
            del rest[: end + 1]
            end = -1


def hash_blob(pieces: Iterable[bytes], size: int, hash_chars: int = 40) -> str:
    """The hash that git gives to a file of ``size`` bytes: SHA-1 with 40 digits, else SHA-256."""
    digest = hashlib.new(
        "sha1" if hash_chars == 40 else "sha256", b"blob %d\0" % size, usedforsecurity=False
    )
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
