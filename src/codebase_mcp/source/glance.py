"""What has changed in a tree since it was last looked at?

Looks at names and times alone: it opens nothing but ignore files and starts nothing but git, once,
for the place of a person's own ignore file. What a change means for the index is others' to say.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from codebase_mcp.source.classify import classify
from codebase_mcp.source.git import deciding_files, standard_excludes
from codebase_mcp.source.git_directory import is_git_directory, work_tree_of
from codebase_mcp.source.ignore import IgnoreFiles, parse_rules
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.survey import Survey, way_down
from codebase_mcp.source.walk import INSTALLED, VERSION_CONTROL, is_repository

# A directory that changed within this time before it was looked at may change again without its
# time changing: some file systems keep times to the second, or to two.
_RACY_NS = 2_000_000_000

# What these say concerns other files, so they are looked at even where they are ignored.
_RULES = frozenset(
    (b".gitignore", b".mcpignore", b".gitattributes", b".gitmodules", b".mcp-context.toml")
)

Times = tuple[int, int, int]
"""Size, modification and change of a file."""


@dataclass(slots=True)
class Sight:
    """What is new, changed or gone, as paths relative to the root; a directory is all below it.

    ``count`` is about how many files that are. ``is_whole`` says that only a listing of the whole
    tree tells what follows, ``new_rules`` that the glance itself has to be begun again, and
    ``new_directories`` which ones have to be watched too.
    """

    changed: set[str] = field(default_factory=set)
    count: int = 0
    is_whole: bool = False
    new_rules: bool = False
    new_directories: list[bytes] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether nothing has changed."""
        return not self.changed and not self.is_whole


@dataclass(slots=True)
class _Tree:
    """The rules of a repository, or of a directory that is none; its paths begin after ``lead``."""

    lead: int
    prefix: bytes
    rules: IgnoreFiles


@dataclass(slots=True)
class _Folder:
    """A directory as it was; ``mtime_ns`` is 0 where it proves nothing."""

    tree: _Tree
    mtime_ns: int = 0
    files: dict[bytes, Times] = field(default_factory=dict)
    folders: set[bytes] = field(default_factory=set)


class Glance:
    """A tree as it was seen last. Paths within are bytes relative to its root, which is ``b""``.

    One caller at a time.
    """

    def __init__(self, root: Path, selection: Selection = EVERYTHING) -> None:
        self._root = root
        self._is_first = True
        self._kept: set[bytes] = set()
        self._outside: dict[Path, Times | None] = {}
        outer = work_tree_of(root) or root
        own_rules = IgnoreFiles(os.fsencode(outer), b".mcpignore")
        self._survey = Survey(root, selection, own_rules, way_down(outer, root))
        for directory in root.parents:
            if directory.is_relative_to(outer):
                for name in _RULES:
                    self._note(directory / os.fsdecode(name))
            self._note(directory / ".mcp-context.toml")
        self._folders = {b"": _Folder(self._tree_at(b""))}

    @property
    def directories(self) -> list[str]:
        """The directories in which a file that matters may lie or appear."""
        return [self.location(path) for path in self._folders]

    def location(self, path: bytes) -> str:
        """Where a path lies."""
        return os.fsdecode(self._survey.at(path)).rstrip("/") or "/"

    def within(self, paths: Iterable[bytes]) -> list[bytes]:
        """Those of the paths that are directories, and all directories below them."""
        found = [path for path in paths if path in self._folders]
        for path in found:  # it grows meanwhile
            found += self._folders[path].folders
        return found

    def path_of(self, location: str) -> bytes | None:
        """A location as a path in the tree; None outside it."""
        inner = os.fsencode(location)
        start = self._survey.at(b"")
        if inner == start.rstrip(b"/"):
            return b""
        return inner.removeprefix(start) if inner.startswith(start) else None

    def keep(self, paths: Iterable[str]) -> list[bytes]:
        """Look at these files too, though ignored: git has them in its index.

        The directories that are looked at for this alone.
        """
        known = set(self._folders)
        for path in paths:
            raw = os.fsencode(path)
            parent, _, name = raw.rpartition(b"/")
            folder = self._folders.get(parent)
            if folder is not None and name in folder.files:
                continue
            times = _times_of(self._survey.at(raw))
            if times is None:
                continue
            self._kept.add(raw)
            self._way_to(parent).files[name] = times
        return [path for path in self._folders if path not in known]

    def look(self, within: Iterable[bytes] | None = None) -> Sight:
        """What has changed since the last look: anywhere, or in some directories.

        At the first look nothing has.

        Raises:
            FileNotFoundError: the root is not there.
        """
        sight = Sight()
        if not self._survey.root.is_dir():
            raise FileNotFoundError(str(self._root))
        waiting = [b""] if within is None else [path for path in within if path in self._folders]
        follow = within is None
        while waiting:
            path = waiting.pop()
            folder = self._folders.get(path)
            if folder is None:  # gone with one above it
                continue
            new = self._visit(path, folder, sight)
            waiting += folder.folders if follow else new
        self._look_outside(sight)
        if self._is_first:
            self._is_first = False
            return Sight()
        return sight

    def knows(self, path: bytes) -> bool:
        """Whether a file lies there that matters."""
        parent, _, name = path.rpartition(b"/")
        folder = self._folders.get(parent)
        return folder is not None and name in folder.files

    def _visit(self, path: bytes, folder: _Folder, sight: Sight) -> list[bytes]:
        """Compare one directory with what it was; the directories in it that are new."""
        looked_at = time.time_ns()
        try:
            mtime_ns = os.stat(self._survey.at(path) or b"/", follow_symlinks=False).st_mtime_ns  # noqa: PTH116 - bytes
        except OSError:
            if path:
                self._drop(path, sight)
            return []
        if folder.mtime_ns and folder.mtime_ns == mtime_ns:
            files: dict[bytes, Times] = {}
            start = self._survey.at(path + b"/" if path else b"")
            for name in folder.files:
                times = _times_of(start + name)
                if times is not None:
                    files[name] = times
            new: list[bytes] = []
        else:
            files, folders = self._entries(path, folder)
            new = [inner for inner in folders if inner not in self._folders]
            for inner in folder.folders - folders:
                self._drop(inner, sight)
            for inner in new:
                is_tree = is_repository(self._survey.at(inner))
                tree = self._tree_at(inner) if is_tree else folder.tree
                self._folders[inner] = _Folder(tree)
                sight.new_directories.append(inner)
            folder.folders = folders
            folder.mtime_ns = mtime_ns if mtime_ns < looked_at - _RACY_NS else 0
        self._compare(path, folder.files, files, sight)
        folder.files = files
        return new

    def _compare(
        self, path: bytes, before: dict[bytes, Times], now: dict[bytes, Times], sight: Sight
    ) -> None:
        if before == now:
            return
        lead = path + b"/" if path else b""
        for name in before.keys() | now.keys():
            if before.get(name) != now.get(name):
                sight.count += 1
                sight.changed.add(os.fsdecode(lead + name))
                sight.is_whole |= name in _RULES
                sight.new_rules |= name in _RULES

    def _entries(self, path: bytes, folder: _Folder) -> tuple[dict[bytes, Times], set[bytes]]:
        """The files and directories in a directory that may matter."""
        files: dict[bytes, Times] = {}
        folders: set[bytes] = set()
        lead = path + b"/" if path else b""
        try:
            with os.scandir(self._survey.at(path)) as found:
                entries = list(found)
        except OSError:
            return files, folders
        for entry in entries:
            inner = lead + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if inner in folder.folders or self._is_open(inner, entry.name, folder):
                        folders.add(inner)
                elif entry.is_file(follow_symlinks=False) and (
                    entry.name in folder.files or self._is_wanted(inner, entry.name, folder)
                ):
                    files[entry.name] = _times(entry.stat(follow_symlinks=False))
            except OSError:  # it has just gone
                continue
        return files, folders

    def _is_open(self, path: bytes, name: bytes, folder: _Folder) -> bool:
        if name in VERSION_CONTROL:
            return False
        if path in self._folders:  # on the way to what is kept
            return True
        if name in INSTALLED or self._ignores(path, folder, is_dir=True):
            return False
        location = self._survey.at(path)
        return is_repository(location) or not is_git_directory(location)

    def _is_wanted(self, path: bytes, name: bytes, folder: _Folder) -> bool:
        if name in _RULES or path in self._kept:
            return True
        if classify(os.fsdecode(path)).is_binary:
            return False
        return not self._ignores(path, folder, is_dir=False)

    def _ignores(self, path: bytes, folder: _Folder, *, is_dir: bool) -> bool:
        tree = folder.tree
        inner = tree.prefix + path[tree.lead :]
        return tree.rules.ignores(inner, is_dir=is_dir) or self._survey.ignores(path, is_dir=is_dir)

    def _drop(self, path: bytes, sight: Sight) -> None:
        """A directory is gone, and everything below it."""
        lead = path + b"/"
        gone = [known for known in self._folders if known == path or known.startswith(lead)]
        files = sum(len(self._folders.pop(known).files) for known in gone)
        if files:
            sight.changed.add(os.fsdecode(path))
            sight.count += files

    def _way_to(self, path: bytes) -> _Folder:
        """A directory that is looked at from now on, and those above it."""
        folder = self._folders.get(path)
        if folder is None:
            above = self._way_to(path.rpartition(b"/")[0])
            folder = self._folders[path] = _Folder(above.tree)
            above.folders.add(path)
        return folder

    def _tree_at(self, path: bytes) -> _Tree:
        directory = Path(os.fsdecode(self._survey.at(path)))
        top = work_tree_of(directory)
        outer = top or directory
        excludes = tuple((0, parse_rules(text)) for text in standard_excludes(directory, top))
        for place in deciding_files(directory, top):
            self._note(place)
        rules = IgnoreFiles(os.fsencode(outer), b".gitignore", outermost=excludes)
        return _Tree(len(path) + 1 if path else 0, way_down(outer, directory), rules)

    def _note(self, place: Path) -> None:
        self._outside[place] = _times_of(os.fsencode(place), follow=True)

    def _look_outside(self, sight: Sight) -> None:
        for place, before in list(self._outside.items()):
            self._note(place)
            if self._outside[place] != before:
                sight.is_whole = True
                sight.new_rules |= place.name != "index"


def _times(status: os.stat_result) -> Times:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _times_of(location: bytes, *, follow: bool = False) -> Times | None:
    """The times of a regular file; None where there is none."""
    try:
        status = os.stat(location, follow_symlinks=follow)  # noqa: PTH116 - Path has no bytes
    except OSError:
        return None
    return _times(status) if stat.S_ISREG(status.st_mode) else None
