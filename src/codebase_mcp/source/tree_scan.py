"""What has changed in a tree since the last scan?

Compares names, sizes and times. Only ignore files are opened; git runs once, to find the user's own
ignore file.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from codebase_mcp.model import RACY_NS
from codebase_mcp.source.classify import classify
from codebase_mcp.source.git import commit_at_head, external_rule_files
from codebase_mcp.source.git_directory import (
    Checkout,
    GitRepository,
    git_repository_at,
    is_git_directory,
    work_tree_of,
)
from codebase_mcp.source.listing_builder import (
    VERSION_CONTROL,
    ListingBuilder,
    with_slash,
)
from codebase_mcp.source.open_file import is_real_directory
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.walk import INSTALLED, GitRules, is_repository

# These files affect the listing, so they are scanned even if they are ignored.
_RULES = frozenset(
    (b".gitignore", b".mcpignore", b".gitattributes", b".gitmodules", b".mcp-context.toml")
)

Times = tuple[int, int, int]
"""Size, mtime and ctime of a file."""


@dataclass(slots=True)
class TreeChanges:
    """New, changed or deleted paths, relative to the root; a directory stands for all its files.

    ``count`` is the approximate number of files. With ``needs_full_run`` the whole tree must be
    listed, with ``has_new_rules`` a new scan must be started, too. ``new_directories`` must be
    watched from now on.
    """

    changed: set[str] = field(default_factory=set)
    count: int = 0
    needs_full_run: bool = False
    has_new_rules: bool = False
    new_directories: list[bytes] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed."""
        return not self.changed and not self.needs_full_run


@dataclass(slots=True)
class _Directory:
    """A directory at the last scan; ``mtime_ns`` is 0 if it cannot be relied on."""

    rules: GitRules
    mtime_ns: int = 0
    files: dict[bytes, Times] = field(default_factory=dict)
    folders: set[bytes] = field(default_factory=set)


class TreeScan:
    """A tree at its last scan. Paths are bytes relative to its root, which is ``b""``.

    Not safe for concurrent callers.
    """

    def __init__(self, root: Path, selection: Selection = EVERYTHING) -> None:
        self._root = root
        self._tracked: set[bytes] = set()
        self._outside: dict[Path, Times | None] = {}
        outer = work_tree_of(root) or root
        self._builder = ListingBuilder(root, selection, outer)
        for directory in root.parents:
            if directory.is_relative_to(outer):
                for name in _RULES:
                    self._note(directory / os.fsdecode(name))
            self._note(directory / ".mcp-context.toml")
        self._directories = {b"": _Directory(self._rules_at(b""))}
        self.changes()

    @property
    def directories(self) -> list[str]:
        """The directories that may contain relevant files."""
        return [self.location(path) for path in self._directories]

    def location(self, path: bytes) -> str:
        """The absolute location of a path."""
        return os.fsdecode(self._builder.location(path)).rstrip("/") or "/"

    def directories_below(self, paths: Iterable[bytes]) -> list[bytes]:
        """The directories among the paths, and all directories below them."""
        folders = [path for path in paths if path in self._directories]
        for path in folders:  # the loop also visits the folders that it adds
            folders += self._directories[path].folders
        return folders

    def path_of(self, location: str) -> bytes | None:
        """A location as a path in the tree; None outside it."""
        path = os.fsencode(location)
        start = self._builder.location(b"")
        if path == start.rstrip(b"/"):
            return b""
        return path.removeprefix(start) if path.startswith(start) else None

    def track(self, paths: Iterable[str]) -> list[bytes]:
        """Also scan these files, which git tracks although they are ignored.

        Returns the directories that are only scanned because of them.
        """
        before = set(self._directories)
        for path in map(os.fsencode, paths):
            times = None if self.has_file(path) else _times_of(self._builder.location(path))
            if times is not None:
                self._tracked.add(path)
                parent, _, name = path.rpartition(b"/")
                self._add_directory(parent).files[name] = times
        return [path for path in self._directories if path not in before]

    def changes(self, within: Iterable[bytes] | None = None) -> TreeChanges:
        """The changes since the last scan: everywhere, or in some directories.

        Raises:
            FileNotFoundError: the root does not exist.
        """
        changes = TreeChanges()
        if not is_real_directory(self._root):
            raise FileNotFoundError(str(self._root))
        waiting = [b""] if within is None else list(within)
        while waiting:
            path = waiting.pop()
            folder = self._directories.get(path)
            if folder is not None:  # it may have been removed with a directory above it
                new = self._visit(path, folder, changes)
                waiting += folder.folders if within is None else new
        self._check_outside(changes)
        return changes

    def has_file(self, path: bytes) -> bool:
        """Whether the path is a relevant file."""
        parent, _, name = path.rpartition(b"/")
        folder = self._directories.get(parent)
        return folder is not None and name in folder.files

    def _visit(self, path: bytes, folder: _Directory, changes: TreeChanges) -> list[bytes]:
        """Compare a directory with the last scan; returns the new directories in it."""
        looked_at = time.time_ns()
        try:
            location = self._builder.location(path) or b"/"
            mtime_ns = os.stat(location, follow_symlinks=False).st_mtime_ns  # noqa: PTH116 - bytes
        except OSError:
            if path:
                self._drop(path, changes)
            return []
        if folder.mtime_ns and folder.mtime_ns == mtime_ns:
            start = self._builder.location(with_slash(path))
            times = ((name, _times_of(start + name)) for name in folder.files)
            files = {name: at for name, at in times if at is not None}
            new: list[bytes] = []
        else:
            files, folders = self._entries(path, folder)
            new = [inner for inner in folders if inner not in self._directories]
            for inner in folder.folders - folders:
                self._drop(inner, changes)
            for inner in new:
                is_tree = is_repository(self._builder.location(inner))
                rules = self._rules_at(inner) if is_tree else folder.rules
                self._directories[inner] = _Directory(rules)
                changes.new_directories.append(inner)
            folder.folders = folders
            folder.mtime_ns = mtime_ns if mtime_ns < looked_at - RACY_NS else 0
        self._compare(path, folder.files, files, changes)
        folder.files = files
        return new

    def _compare(
        self, path: bytes, before: dict[bytes, Times], now: dict[bytes, Times], changes: TreeChanges
    ) -> None:
        if before == now:
            return
        for name in before.keys() | now.keys():
            if before.get(name) != now.get(name):
                changes.count += 1
                changes.changed.add(os.fsdecode(with_slash(path) + name))
                changes.needs_full_run |= name in _RULES
                changes.has_new_rules |= name in _RULES

    def _entries(self, path: bytes, folder: _Directory) -> tuple[dict[bytes, Times], set[bytes]]:
        """The relevant files and directories in a directory."""
        files: dict[bytes, Times] = {}
        folders: set[bytes] = set()
        try:
            with os.scandir(self._builder.location(path)) as iterator:
                entries = list(iterator)
        except OSError:
            return files, folders
        for entry in entries:
            inner = with_slash(path) + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if inner in folder.folders or self._is_open(inner, entry.name, folder):
                        folders.add(inner)
                elif entry.is_file(follow_symlinks=False) and (
                    entry.name in folder.files or self._is_relevant(inner, entry.name, folder)
                ):
                    files[entry.name] = _times(entry.stat(follow_symlinks=False))
            except OSError:  # it has just been deleted
                continue
        return files, folders

    def _is_open(self, path: bytes, name: bytes, folder: _Directory) -> bool:
        if name in VERSION_CONTROL:
            return False
        if path in self._directories:  # a tracked file is below it
            return True
        if name in INSTALLED or folder.rules.ignores(path, is_dir=True):
            return False
        location = self._builder.location(path)
        return is_repository(location) or not is_git_directory(location)

    def _is_relevant(self, path: bytes, name: bytes, folder: _Directory) -> bool:
        if name in _RULES or path in self._tracked:
            return True
        if classify(os.fsdecode(path)).is_binary or self._builder.is_secret(path):
            return False
        return not folder.rules.ignores(path, is_dir=False)

    def _drop(self, path: bytes, changes: TreeChanges) -> None:
        """Remove a directory with everything below it."""
        lead = path + b"/"
        gone = [folder for folder in self._directories if (folder + b"/").startswith(lead)]
        files = sum(len(self._directories.pop(folder).files) for folder in gone)
        if files:
            changes.changed.add(os.fsdecode(path))
            changes.count += files

    def _add_directory(self, path: bytes) -> _Directory:
        """Scan a directory and its parents from now on."""
        folder = self._directories.get(path)
        if folder is None:
            above = self._add_directory(path.rpartition(b"/")[0])
            folder = self._directories[path] = _Directory(above.rules)
            above.folders.add(path)
        return folder

    def _rules_at(self, path: bytes) -> GitRules:
        directory = Path(os.fsdecode(self._builder.location(path)))
        top = work_tree_of(directory)
        for file in external_rule_files(directory, top):
            self._note(file)
        return GitRules(self._builder, path, directory, top)

    def _note(self, file: Path) -> None:
        """Remember the times of a file outside of the tree that affects the listing."""
        self._outside[file] = _times_of(os.fsencode(file), follow=True)

    def _check_outside(self, changes: TreeChanges) -> None:
        for file, before in list(self._outside.items()):
            self._note(file)
            if self._outside[file] != before:
                changes.needs_full_run = True
                changes.has_new_rules |= file.name != "index"


class CommitScan:
    """Whether HEAD of a bare repository has moved; the counterpart of ``TreeScan``."""

    def __init__(self, repository: GitRepository) -> None:
        self._repository = repository
        self._checkout = Checkout(repository.root)
        self._checkout.has_changed()  # from now on
        self._commit = commit_at_head(repository)

    def changes(self) -> TreeChanges:
        """The changes since the scan was made.

        Raises:
            FileNotFoundError: the repository does not exist.
        """
        if not is_real_directory(self._repository.root):
            raise FileNotFoundError(str(self._repository.root))
        if not self._checkout.has_changed() or commit_at_head(self._repository) == self._commit:
            return TreeChanges()
        return TreeChanges(count=1, needs_full_run=True, has_new_rules=True)

    def track(self, paths: Iterable[str]) -> None:
        """Does nothing, as only HEAD is looked at."""


def start_scan(root: Path, selection: Selection) -> TreeScan | CommitScan:
    """The first scan of a repository: of its files, or of HEAD if it is bare."""
    repository = git_repository_at(root)
    if repository is not None and repository.work_tree is None:
        return CommitScan(repository)
    return TreeScan(root, selection)


def _times(status: os.stat_result) -> Times:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _times_of(location: bytes, *, follow: bool = False) -> Times | None:
    """Size and times of a regular file; None if there is none."""
    try:
        status = os.stat(location, follow_symlinks=follow)  # noqa: PTH116 - Path has no bytes
    except OSError:
        return None
    return _times(status) if stat.S_ISREG(status.st_mode) else None
