"""What has to be done so that a snapshot holds the files of a commit?

Pure. Files are compared by their content's hash, so only content that no stored snapshot has at the
same path is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codebase_mcp.index.plan import ATTRIBUTES, MAX_PATH_BYTES
from codebase_mcp.model import FileFailure, SourceFile
from codebase_mcp.source.commit_listing import CommitListing

# A commit with a larger share of other files than this gets a snapshot of its own.
MAX_DIFFERENT_SHARE = 0.3

Hashes = Mapping[str, str]
"""The hash of the content of each path of a snapshot, in hexadecimal form."""


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """Which files to read, and which to take from stored snapshots.

    ``copied`` are paths whose rows to copy, by snapshot; ``replaced`` the paths of the base that
    the commit does not have, or has with other content; ``removed`` those to delete from the
    snapshot itself. ``unchanged`` counts the files that need nothing.
    """

    to_read: tuple[SourceFile, ...]
    copied: Mapping[int, tuple[str, ...]]
    replaced: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int
    failures: tuple[FileFailure, ...]


def plan_commit(
    commit: CommitListing, own: Hashes, base: Hashes, others: Mapping[int, Hashes]
) -> CommitPlan:
    """Compare a commit with its own snapshot, which may be incomplete, its base, and others."""
    files = commit.listing.files
    wanted = {f.path: commit.object_ids[f.path] for f in files if _is_storable(f)}
    kept = _same(wanted, own)
    inherited = _same(wanted, base)
    replaced = tuple(path for path in base if path not in inherited)
    done = kept | inherited
    copied = {}
    for snapshot_id, hashes in others.items():
        found = tuple(sorted(_same(wanted, hashes) - done))
        if found:
            copied[snapshot_id] = found
            done |= set(found)
    too_long = [FileFailure(f.path, "Path is too long") for f in files if f.path not in wanted]
    return CommitPlan(
        tuple(file for file in files if file.path in wanted and file.path not in done),
        copied,
        replaced,
        tuple(sorted(path for path in own if path not in wanted or path in inherited)),
        len(done),
        (*commit.listing.failures, *too_long),
    )


def share_of_same(commit: CommitListing, hashes: Hashes) -> float:
    """Which share of a commit's files, and of those of a snapshot, is the same in both."""
    most = max(len(commit.object_ids), len(hashes))
    return len(_same(commit.object_ids, hashes)) / most if most else 1.0


def _same(wanted: Hashes, stored: Hashes) -> set[str]:
    """The paths with the same content, but for those with other attributes around them.

    Attributes say which files are generated or vendored.
    """
    same = {path for path, of in wanted.items() if stored.get(path) == of}
    rules = {path: of for path, of in wanted.items() if path.endswith(ATTRIBUTES)}
    stored_rules = {path: of for path, of in stored.items() if path.endswith(ATTRIBUTES)}
    changed = {path.removesuffix(ATTRIBUTES) for path, _ in rules.items() ^ stored_rules.items()}
    if not changed:
        return same
    below = tuple(changed)
    return {path for path in same if not path.startswith(below)}


def _is_storable(file: SourceFile) -> bool:
    return len(file.path.encode()) <= MAX_PATH_BYTES
