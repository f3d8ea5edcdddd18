"""What would a branch bring to another?

The differences of ``b`` are those since it parted from ``a``, as in a pull request: what ``a`` got
meanwhile does not count. A ``direct`` comparison is of the two states themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from codebase_mcp.changes.symbols import SymbolChanges, Text, TextPair, compare_symbols
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import WORKTREE, FileKind
from codebase_mcp.source.classify import classify, is_generated, kind_of
from codebase_mcp.source.git import shallow_commits
from codebase_mcp.source.git_changes import (
    FileChange,
    FileVersion,
    ahead_behind,
    changed_files,
    changed_on_disk,
    read_location,
)
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.git_objects import Unread, read_blobs
from codebase_mcp.source.git_refs import merge_base, resolve_commit
from codebase_mcp.source.read import NOT_FETCHED, decode, language_of_content, lfs_hash

MAX_FILES = 500
MAX_FILE_BYTES = 1 << 20
# Of all files together; parsing that much takes some seconds.
MAX_TOTAL_BYTES = 8 << 20

# If not all files can be read, these come first.
_ORDER = (FileKind.CODE, FileKind.TEST, FileKind.CONFIG, FileKind.DOCS)


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that differs; ``symbols`` is None if its definitions were not compared."""

    file: FileChange
    kind: FileKind
    symbols: SymbolChanges | None


@dataclass(frozen=True, slots=True)
class Differences:
    """The files that differ, by path, and how many there are in all.

    Without ``has_details`` lines and renames are unknown. ``left_out`` counts the files whose
    definitions were not compared, by reason.
    """

    files: tuple[Difference, ...]
    total: int
    has_details: bool
    left_out: Mapping[str, int]

    @property
    def lines_added(self) -> int:
        """In all files."""
        return sum(difference.file.lines_added or 0 for difference in self.files)

    @property
    def lines_removed(self) -> int:
        """In all files."""
        return sum(difference.file.lines_removed or 0 for difference in self.files)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two states of a repository, by their names and commits, and their differences.

    ``commit_b`` is HEAD if ``b`` is the work tree. The differences start at ``base``: the merge
    base, or ``a`` itself. ``commits_ahead`` are those of ``b`` that ``a``
    lacks, ``commits_behind`` those of ``a`` that ``b`` lacks.
    """

    a: str
    b: str
    commit_a: str
    commit_b: str
    base: str
    commits_ahead: int
    commits_behind: int
    differences: Differences
    notices: tuple[str, ...]


def compare(
    repository: GitRepository, a: str, b: str, *, direct: bool = False, symbols: bool = True
) -> Comparison:
    """Compare two branches, tags or commits; ``b`` may be ``worktree``, the files on disk.

    Raises:
        InvalidInput: ``a`` or ``b`` is no commit.
        IndexingFailed: git cannot compare them.
    """
    commit_a = resolve_commit(repository, a, field="branch_a")
    is_on_disk = b == WORKTREE
    _require_tree(repository, is_on_disk)
    commit_b = resolve_commit(repository, "HEAD" if is_on_disk else b, field="branch_b")
    ahead, behind = ahead_behind(repository, commit_a, commit_b)
    parted = merge_base(repository, commit_a, commit_b)
    base = commit_a if direct or parted is None else parted
    notices = []
    if parted is None:
        notices.append("The two have no common history: the states themselves are compared.")
    if shallow_commits(repository):
        notices.append("The clone is shallow: commits ahead and behind may be incomplete.")
    differences = find_differences(repository, base, None if is_on_disk else commit_b, symbols)
    if not differences.has_details and differences.total:
        notices.append("Lines and renames are unknown: too many files differ, or some are missing.")
    return Comparison(a, b, commit_a, commit_b, base, ahead, behind, differences, tuple(notices))


def find_differences(
    repository: GitRepository, a: str, b: str | None, symbols: bool = True
) -> Differences:
    """The differences from a commit or tree ``a`` to ``b``, or to the files on disk (None).

    ``a`` and ``b`` are full hashes.

    Raises:
        IndexingFailed: git cannot compare them.
    """
    changes = changed_on_disk(repository, a) if b is None else changed_files(repository, a, b)
    pairs, left_out = _read_texts(repository, changes.files if symbols else (), changes.locations)
    compared = dict(zip(pairs, compare_symbols(list(pairs.values())), strict=True))
    files = tuple(
        Difference(file, kind_of(file.path), compared.get(file.path)) for file in changes.files
    )
    return Differences(files, changes.total, changes.has_details, left_out)


def _require_tree(repository: GitRepository, is_on_disk: bool) -> None:
    if is_on_disk and repository.work_tree is None:
        raise InvalidInput.of(
            "branch_b",
            WORKTREE,
            "A bare repository has no files on disk",
            rule="a branch, a tag or a commit",
        )


def _read_texts(
    repository: GitRepository, files: Iterable[FileChange], locations: Mapping[str, bytes]
) -> tuple[dict[str, TextPair], Counter[str]]:
    """The texts of the files whose content differs, and how many are left out, by reason.

    ``locations`` are those of files on disk, by hash.
    """
    left_out: Counter[str] = Counter()
    chosen = []
    for file in files:
        sides = [side for side in (file.old, file.new) if side is not None]
        if file.old and file.new and file.old.object_id == file.new.object_id:
            continue
        traits = classify(file.path)
        if not all(side.is_regular for side in sides):
            left_out["special"] += 1
        elif traits.is_binary or traits.kind not in _ORDER:
            left_out["binary" if traits.is_binary else traits.kind.value] += 1
        else:
            chosen.append((_ORDER.index(traits.kind), file.path, file))
    chosen.sort(key=lambda entry: entry[:2])
    left_out["beyond_limit"] += len(chosen[MAX_FILES:])
    compared = [change for _, _, change in chosen[:MAX_FILES]]
    contents = _contents(repository, compared, locations)
    pairs = {}
    for change in compared:
        pair = _pair(change, contents)
        if isinstance(pair, str):
            left_out[pair] += 1
        else:
            pairs[change.path] = pair
    return pairs, +left_out


def _contents(
    repository: GitRepository, files: Sequence[FileChange], locations: Mapping[str, bytes]
) -> dict[str, bytes | str]:
    """The content of each version, or why it is left out, as far as the limit allows."""
    sides = [side for file in files for side in (file.old, file.new) if side is not None]
    on_disk = {file.new.object_id for file in files if file.new and file.new.object_id in locations}
    in_git = dict.fromkeys(side.object_id for side in sides if side.object_id not in on_disk)
    contents: dict[str, bytes | str] = {}
    room = MAX_TOTAL_BYTES
    for object_id in on_disk:
        content = read_location(locations[object_id], MAX_FILE_BYTES)
        contents[object_id] = "too_large" if content is None else content
        room -= len(content or b"")
        if room < 0:
            return contents
    for object_id, read in read_blobs(repository, in_git, MAX_FILE_BYTES):
        contents[object_id] = read.value if isinstance(read, Unread) else read
        room -= len(contents[object_id])
        if room < 0:
            break
    return contents


def _pair(change: FileChange, contents: Mapping[str, bytes | str]) -> TextPair | str:
    """The texts of a file, or the reason to leave it out."""
    texts = []
    for path, version in ((change.old_path or change.path, change.old), (change.path, change.new)):
        text = None if version is None else _text(path, version, contents)
        if isinstance(text, str):
            return text
        texts.append(text)
    return TextPair(change.path, change.old_path, *texts)


def _text(path: str, version: FileVersion, contents: Mapping[str, bytes | str]) -> Text | str:
    content = contents.get(version.object_id, "beyond_limit")
    if isinstance(content, str):
        return content
    if lfs_hash(content) is not None:
        return NOT_FETCHED
    if is_generated(content):
        return "generated"
    try:
        text = decode(content).text
    except UnicodeDecodeError:
        return "undecodable"
    if "\0" in text:
        return "binary"
    language = language_of_content(path, classify(path).language, content)
    return Text(version.object_id, text, language)
