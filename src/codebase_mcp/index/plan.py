"""What has to be done so that the stored files equal the listed ones?

Pure: a listing and what is stored go in, a plan comes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codebase_mcp.model import RACY_NS, FileFailure, Listing, SourceFile

# Says which files are generated or vendored: those below it are sorted in anew when it changes.
ATTRIBUTES = ".gitattributes"

# PostgreSQL indexes the path, and an entry must fit a third of a page.
MAX_PATH_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class StoredFile:
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
    """Files to read, paths to forget, and how many need neither."""

    to_read: tuple[SourceFile, ...]
    removed: tuple[str, ...]
    unchanged: int
    failures: tuple[FileFailure, ...]


def make_plan(
    listing: Listing, stored: Mapping[str, StoredFile], *, same_classifier: bool = True
) -> Plan:
    """Compare by size and times; the reader of a file compares its content.

    Files that another version classified are all read again, as are those whose repository says
    something else about them now.
    """
    restated = _restated(listing, stored)
    failures = list(listing.failures)
    to_read = []
    unchanged = 0
    for file in listing.files:
        if len(file.path.encode()) > MAX_PATH_BYTES:
            failures.append(FileFailure(file.path, "Path is too long"))
        elif (
            same_classifier
            and not file.path.startswith(restated)
            and _is_same(file, stored.get(file.path))
        ):
            unchanged += 1
        else:
            to_read.append(file)
    listed = {file.path for file in listing.files}
    removed = tuple(sorted(path for path in stored if path not in listed))
    return Plan(tuple(to_read), removed, unchanged, tuple(failures))


def _restated(listing: Listing, stored: Mapping[str, StoredFile]) -> tuple[str, ...]:
    """What the paths of files begin with whose attributes may be others than when stored."""
    if not stored:
        return ()
    listed = {f.path: (f.size, f.ctime_ns) for f in listing.files if f.path.endswith(ATTRIBUTES)}
    known = {path: (f.size, f.ctime_ns) for path, f in stored.items() if path.endswith(ATTRIBUTES)}
    changed = {path for path, _ in listed.items() ^ known.items()}
    return tuple(path.removesuffix(ATTRIBUTES) for path in changed)


def trusted_mtime(file: SourceFile, read_at_ns: int) -> int:
    """The modification time to store: 0 where the file was touched too shortly before the read."""
    return 0 if max(file.mtime_ns, file.ctime_ns) > read_at_ns - RACY_NS else file.mtime_ns


def _is_same(file: SourceFile, before: StoredFile | None) -> bool:
    return before is not None and (file.size, file.mtime_ns, file.ctime_ns) == (
        before.size,
        before.mtime_ns,
        before.ctime_ns,
    )
