"""What has to be done so that a snapshot holds the listed files?

A listing and the stored files go in, a plan comes out. Files on disk are compared by size and
times, files of a commit by the hash of their content.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

from codebase_mcp.database.naming import Project
from codebase_mcp.index.identity import repository_id_of
from codebase_mcp.model import RACY_NS, FileFailure, Listing, SourceFile
from codebase_mcp.source.listing_builder import escape_path
from codebase_mcp.source.selection import Selection

if TYPE_CHECKING:
    from codebase_mcp.index.progress import RunProgress

# With more paths than this, listing the whole tree is cheaper.
MAX_PATHS = 500

# Changes of these files affect other files too.
_RULES = frozenset(
    {".gitignore", ".mcpignore", ".gitattributes", ".gitmodules", ".mcp-context.toml"}
)


@dataclass(frozen=True, slots=True)
class PathScope:
    """Some paths of a tree: each a file, or a directory with all below it.

    ``directories`` are those that are, or may have been, directories. ``ancestors`` are the
    directories above existing paths; the index may still hold them as files.
    """

    paths: frozenset[str]
    directories: frozenset[str]
    ancestors: frozenset[str] = frozenset()

    @classmethod
    def at(cls, root: Path, paths: Iterable[str]) -> PathScope:
        """The scope for paths on disk; a path that is gone may have been a directory."""
        named = frozenset(paths)
        directories = frozenset(path for path in named if not (root / path).is_file())
        existing = (PurePosixPath(path) for path in named if os.path.lexists(root / path))
        ancestors = frozenset(str(parent) for path in existing for parent in path.parents)
        return cls(named, directories, ancestors - {"."})

    @property
    def affects_other_files(self) -> bool:
        """Whether a run over the whole tree is needed."""
        if len(self.paths) > MAX_PATHS or not self.paths or "." in self.paths:
            return True
        parts = [path.split("/") for path in self.paths]
        return any(names[-1] in _RULES or ".git" in names for names in parts)

    def parameters(self) -> dict[str, object]:
        return {
            "paths": [escape_path(os.fsencode(path)) for path in self.paths | self.ancestors],
            "directories": [escape_path(os.fsencode(path)) + "/" for path in self.directories],
        }


# Says which files are generated or vendored: when it changes, all files below it are read again.
ATTRIBUTES = ".gitattributes"

# PostgreSQL indexes the path, and an entry must fit a third of a page.
MAX_PATH_BYTES = 2_000

# If a larger share of its files differs, a commit gets a snapshot without a base.
MAX_DIFFERENT_SHARE = 0.3

Hashes = Mapping[str, str]
"""The hash of the content of each path of a snapshot, in hexadecimal form."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The parameters of an index run of the tree at ``root``.

    ``ignore_patterns`` leave out more files, in this run and later runs; without them the patterns
    of an earlier run hold. ``operation_id`` identifies the run. ``started`` is a monotonic time.
    """

    project: Project
    root: Path
    selection: Selection
    name: str | None = None
    force: bool = False
    ignore_patterns: Sequence[str] | None = None
    operation_id: UUID = field(default_factory=uuid4)
    progress: Callable[[RunProgress], None] = lambda _: None
    started: float = field(default_factory=time.monotonic)

    @property
    def repository_id(self) -> UUID:
        return repository_id_of(self.project, self.root)


class StoredFile(NamedTuple):
    """A file as it was when it was last indexed; ``mtime_ns`` is 0 where times prove nothing."""

    path: str
    blob_id: int
    size: int
    mtime_ns: int
    ctime_ns: int
    language: str
    kind: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Files to read, paths to delete from the snapshot, and how many need neither."""

    to_read: tuple[SourceFile, ...]
    removed: tuple[str, ...]
    unchanged: int
    failures: tuple[FileFailure, ...]


@dataclass(frozen=True, slots=True)
class CommitPlan(Plan):
    """The plan for a commit, whose snapshot may differ from a base.

    ``copied`` are paths whose rows to copy, by snapshot; ``replaced`` are paths of the base that
    the commit lacks or has with different content.
    """

    copied: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()


@dataclass(slots=True)
class RunCounts:
    """The results of a run so far; the only state shared by its batches."""

    total: int
    done: int = 0
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: int = 0
    chunks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[FileFailure] = field(default_factory=list)
    secrets_masked: int = 0
    encodings: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, listing: Listing, plan: Plan) -> RunCounts:
        return cls(
            len(listing.files),
            plan.unchanged,
            unchanged=plan.unchanged,
            skipped=Counter(listing.skipped),
            failures=list(plan.failures),
        )

    @property
    def indexed(self) -> int:
        return len(self.added) + len(self.changed)


def make_plan(
    listing: Listing, stored: Mapping[str, StoredFile], *, same_classifier: bool = True
) -> Plan:
    """Compare by size and times; the reader of a file compares its content.

    All files are read again if another version classified them, or if their attributes may have
    changed.
    """
    before = {p: (f.size, f.ctime_ns) for p, f in stored.items() if p.endswith(ATTRIBUTES)}
    now = {f.path: (f.size, f.ctime_ns) for f in listing.files if f.path.endswith(ATTRIBUTES)}
    affected = _differing_folders(now, before) if stored else ()
    failures = list(listing.failures)
    to_read = []
    unchanged = 0
    for file in listing.files:
        if not _is_storable(file):
            failures.append(FileFailure(file.path, "Path is too long"))
        elif (
            same_classifier
            and not file.path.startswith(affected)
            and _is_same(file, stored.get(file.path))
        ):
            unchanged += 1
        else:
            to_read.append(file)
    removed = tuple(sorted(stored.keys() - {file.path for file in listing.files}))
    return Plan(tuple(to_read), removed, unchanged, tuple(failures))


def plan_commit(
    commit: Listing, own: Hashes, base: Hashes, sources: Mapping[int, Hashes]
) -> CommitPlan:
    """Compare a commit with its own snapshot, its base, and snapshots to copy from.

    Its own snapshot may be incomplete. Only content that no snapshot has at the same path is read.
    """
    files = commit.files
    hashes = {file.path: file.location for file in files if _is_storable(file)}
    inherited = _same(hashes, base)
    done = _same(hashes, own) | inherited
    copied = {}
    for snapshot_id, stored in sources.items():
        if paths := tuple(sorted(_same(hashes, stored) - done)):
            copied[snapshot_id] = paths
            done |= set(paths)
    too_long = [FileFailure(f.path, "Path is too long") for f in files if f.path not in hashes]
    return CommitPlan(
        to_read=tuple(file for file in files if file.path in hashes and file.path not in done),
        removed=tuple(sorted(path for path in own if path not in hashes or path in inherited)),
        unchanged=len(done),
        failures=(*commit.failures, *too_long),
        copied=copied,
        replaced=tuple(path for path in base if path not in inherited),
    )


def share_of_same(commit: Listing, hashes: Hashes) -> float:
    """The share of files that are the same in a commit and a snapshot, of the larger of the two."""
    most = max(len(commit.files), len(hashes))
    of_commit = {file.path: file.location for file in commit.files}
    return len(_same(of_commit, hashes)) / most if most else 1.0


def trusted_mtime(file: SourceFile, read_at_ns: int) -> int:
    """The modification time to store: 0 where the file was touched too shortly before the read."""
    return 0 if max(file.mtime_ns, file.ctime_ns) > read_at_ns - RACY_NS else file.mtime_ns


def _same(commit: Hashes, stored: Hashes) -> set[str]:
    """The paths with the same content, except below attributes that differ."""
    now = {path: of for path, of in commit.items() if path.endswith(ATTRIBUTES)}
    before = {path: of for path, of in stored.items() if path.endswith(ATTRIBUTES)}
    affected = _differing_folders(now, before)
    same = {path for path, of in commit.items() if stored.get(path) == of}
    return {path for path in same if not path.startswith(affected)}


def _differing_folders(now: Mapping[str, object], before: Mapping[str, object]) -> tuple[str, ...]:
    """The folders whose attribute files differ, each as the prefix of the paths below it."""
    return tuple({path.removesuffix(ATTRIBUTES) for path, _ in now.items() ^ before.items()})


def _is_storable(file: SourceFile) -> bool:
    return len(file.path.encode()) <= MAX_PATH_BYTES


def _is_same(file: SourceFile, before: StoredFile | None) -> bool:
    return before is not None and (file.size, file.mtime_ns, file.ctime_ns) == (
        before.size,
        before.mtime_ns,
        before.ctime_ns,
    )
