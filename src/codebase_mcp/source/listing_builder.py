"""Collects the files of a listing, and why entries were left out.

Every entry that git's ignore rules do not exclude becomes a file, a failure or a count.
``walk.py`` finds the entries on disk, ``source_tree.py`` those of a commit. Paths are bytes
relative to the root, which is ``b""``.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from codebase_mcp.model import FileFailure, Listing, SourceFile
from codebase_mcp.secrets.names import has_secret_in_name, is_secret_name
from codebase_mcp.source.classify import classify
from codebase_mcp.source.ignore import (
    ATTRIBUTES,
    UNSET,
    Attributes,
    IgnoreFiles,
    ReadRules,
    Rules,
    parse_rules,
)
from codebase_mcp.source.open_file import MAX_IGNORE_BYTES, read_ignore_file
from codebase_mcp.source.read import TOO_LARGE, failure_reason
from codebase_mcp.source.selection import Patterns, Selection

MISSING = "Its content is missing from this clone"
NOT_APPLIED = f"Its rules are not applied, as it exceeds {MAX_IGNORE_BYTES >> 20} MiB"

# Metadata of version control is never source, ignored or not.
VERSION_CONTROL = frozenset({b".git", b".hg", b".svn", b".bzr", b".jj", b".sl", b".pijul"})


class KnownFile(Protocol):
    """Size and times of a file as they were once."""

    @property
    def size(self) -> int: ...

    @property
    def mtime_ns(self) -> int: ...

    @property
    def ctime_ns(self) -> int: ...


class PathFilter:
    """Selects some paths of a tree, directories with everything below; None selects all."""

    def __init__(self, paths: Iterable[bytes] | None = None) -> None:
        self._paths = None if paths is None else frozenset(paths)
        self._above = frozenset(folder for path in self._paths or () for folder in parents(path))

    def covers(self, path: bytes) -> bool:
        """Whether the path is selected, or below a selected path."""
        if self._paths is None or path in self._paths:
            return True
        return any(parent in self._paths for parent in parents(path))

    def may_contain(self, directory: bytes) -> bool:
        """Whether the directory is covered, or above a selected path."""
        return directory in self._above or self.covers(directory)

    def relative_to(self, tree: bytes) -> list[bytes] | None:
        """The selected paths below a directory, relative to it; None if it is covered."""
        if self._paths is None or self.covers(tree):
            return None
        lead = with_slash(tree)
        return sorted(path.removeprefix(lead) for path in self._paths if path.startswith(lead))


class ListingBuilder:
    """Builds a listing.

    ``top`` is the top of the work tree that the root is in, or the root. ``read`` reads ignore and
    attribute files, and adds the locations of those that are too large to a list. ``pending`` are
    the directories still to be listed, each by its own rules: the root and nested repositories.
    ``not_fetched`` are submodules that are not checked out. Of files that are as in ``known`` only
    the paths are noted, as ``unchanged``.
    """

    def __init__(
        self,
        root: Path,
        selection: Selection,
        top: Path,
        path_filter: PathFilter | None = None,
        read: Callable[[bytes, list[bytes]], bytes | None] = read_ignore_file,
        *,
        known: Mapping[str, KnownFile] | None = None,
    ) -> None:
        self.selection = selection
        self.path_filter = path_filter or PathFilter()
        self.pending = [b""]
        self.files: dict[str, SourceFile] = {}
        self.unchanged: set[str] = set()
        self.skipped = Counter[str]()
        self.failures: list[FileFailure] = []
        self.not_fetched: list[str] = []
        self.not_applied: list[bytes] = []
        self.read_rules: ReadRules = lambda location: read(location, self.not_applied)
        self._root = root
        self._start = os.fsencode(root).rstrip(b"/") + b"/"
        self._top = os.fsencode(top)
        self._prefix = path_prefix(top, root)
        self._own_rules = IgnoreFiles(self._top, b".mcpignore", read=self.read_rules)
        self._with_attributes: set[bytes] = set()
        self._patterns = [self._rules(patterns) for patterns in selection.patterns]
        shown = selection.shown_secrets
        self._shown_secrets = [] if shown is None else [self._rules(shown)]
        self._raw_paths: dict[str, bytes] = {}
        self._known = known or {}

    def _rules(self, patterns: Patterns) -> tuple[bytes, Rules]:
        text = os.fsencode("\n".join(patterns.lines))
        return path_prefix(patterns.directory, self._root), parse_rules(text)

    def location(self, path: bytes) -> bytes:
        """The absolute location of a path."""
        return self._start + path

    def ignores(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether ``.mcpignore`` or a pattern of the selection ignores the path itself."""
        return self._own_rules.ignores(self._prefix + path, is_dir=is_dir) or any(
            rules.verdict(lead + path, name_of(path), is_dir=is_dir)
            for lead, rules in self._patterns
        )

    def may_ignore(self, folder: bytes) -> bool:
        """Whether a rule applies in a directory that ``ignores`` would follow."""
        return bool(self._patterns) or self._own_rules.apply_in(
            (self._prefix + folder).rstrip(b"/")
        )

    def is_secret(self, path: bytes) -> bool:
        """Whether the path names a secret that the selection does not show."""
        name = escape_path(path)
        is_secret = is_secret_name(name) or has_secret_in_name(name)
        return is_secret and not self._shows_secrets(path)

    def _shows_secrets(self, path: bytes) -> bool:
        """Whether a pattern matches the path or a directory above it."""
        if not self._shown_secrets:
            return False
        above = [(folder, True) for folder in parents(path) if folder]
        return any(
            rules.verdict(lead + part, name_of(part), is_dir=is_dir)
            for lead, rules in self._shown_secrets
            for part, is_dir in [*above, (path, False)]
        )

    def count_skipped(self, reason: str) -> None:
        self.skipped[reason] += 1

    def add_failure(self, path: bytes, reason: str | OSError) -> None:
        text = reason if isinstance(reason, str) else failure_reason(reason)
        self.failures.append(FileFailure(escape_path(path), text))

    def add(self, path: bytes, status: os.stat_result) -> None:
        """Add an entry on disk that is not a directory and not ignored."""
        if self._known and self._is_as_known(path, status):
            return
        location, times = os.fsdecode(self.location(path)), (status.st_mtime_ns, status.st_ctime_ns)
        self.add_entry(path, status.st_mode, status.st_size, location, times)

    def _is_as_known(self, raw: bytes, status: os.stat_result) -> bool:
        """Whether a file is as it was known, and is noted as such."""
        known = self._known.get(path := escape_path(raw))
        if (
            known is None
            or (known.size, known.mtime_ns, known.ctime_ns)
            != (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            or not stat.S_ISREG(status.st_mode)
            or path in self.unchanged
        ):
            return False
        self.unchanged.add(path)
        return True

    def add_entry(
        self,
        raw: bytes,
        mode: int,
        size: int | None,
        location: str,
        times: tuple[int, int] = (0, 0),
    ) -> None:
        """Add an entry that is not a directory and not ignored.

        ``size`` is None if a partial clone lacks the object.
        """
        if not stat.S_ISREG(mode):
            self.count_skipped("symlink" if stat.S_ISLNK(mode) else "special")
            return
        path = escape_path(raw)
        traits = classify(path)
        folder, _, name = raw.rpartition(b"/")
        if name == ATTRIBUTES:
            self._with_attributes.add(folder)
        if self.is_secret(raw):
            self.count_skipped("secret")
        elif traits.is_binary:
            self.count_skipped("binary")
        elif path in self.files or path in self.unchanged:
            self.count_skipped("name_clash")  # names that differ only in undecodable bytes
        elif size is None or size > self.selection.max_file_bytes:
            if traits.named_as_source:
                self.add_failure(raw, MISSING if size is None else TOO_LARGE)
            else:
                self.count_skipped("missing" if size is None else "too_large")
        else:
            if "\\" in path:
                self._raw_paths[path] = raw
            self.files[path] = SourceFile(
                path,
                location,
                size,
                *times,
                traits.language,
                traits.kind,
                traits.named_as_source,
                shows_secrets=self._shows_secrets(raw),
            )

    def _apply_attributes(self) -> None:
        """Apply the repository's attributes for generated and vendored files."""
        folders = set(self._with_attributes)
        if self.path_filter.relative_to(b"") is not None:
            folders |= {folder for path in self.files for folder in parents(self._raw(path))}
        above = set(parents(self._prefix)) if self._prefix else set()
        inside = {(self._prefix + folder).rstrip(b"/") for folder in folders}
        attributes = Attributes(self._top, above | inside, self.read_rules)
        if not attributes:
            return
        for path, file in self.files.items():
            linguist = attributes.of(self._prefix + self._raw(path))
            if linguist != UNSET:
                traits = classify(path, linguist)
                self.files[path] = replace(
                    file,
                    kind=traits.kind,
                    named_as_source=traits.named_as_source,
                    by_hand=linguist.generated is False,
                )
        # A generated or vendored file that is too large is skipped, not a failure.
        for failure in [f for f in self.failures if f.reason == TOO_LARGE]:
            linguist = attributes.of(self._prefix + failure.path.encode())
            if not classify(failure.path, linguist).named_as_source:
                self.failures.remove(failure)
                self.count_skipped("too_large")

    def _raw(self, path: str) -> bytes:
        return self._raw_paths.get(path) or path.encode()

    def _add_not_applied(self) -> None:
        """Report rule files that were not applied, each once; below the root by relative path."""
        is_whole = self.path_filter.relative_to(b"") is None
        for location in sorted(set(self.not_applied)):
            path = location.removeprefix(self._start)
            if is_whole or (path != location and self.path_filter.covers(path)):
                self.failures = [f for f in self.failures if f.path != escape_path(path)]
                self.add_failure(path, NOT_APPLIED)

    def listing(self) -> Listing:
        """The finished listing, sorted by path."""
        self._apply_attributes()
        self._add_not_applied()
        return Listing(
            self._root,
            tuple(self.files[path] for path in sorted(self.files)),
            dict(sorted(self.skipped.items())),
            tuple(sorted(self.failures, key=lambda failure: failure.path)),
            tuple(sorted(self.not_fetched)),
            frozenset(self.unchanged),
        )


class DirectoryState(Enum):
    """Whether a listing leaves out a directory that git lists, as a whole."""

    OPEN = auto()
    IGNORED = auto()  # by .mcpignore
    ABSENT = auto()  # replaced by a link, or metadata of version control


class DirectoryStates:
    """The state of each directory, determined once from the root down."""

    def __init__(
        self,
        builder: ListingBuilder,
        *,
        is_link: Callable[[bytes], bool],
        is_git_directory: Callable[[bytes], bool],
    ) -> None:
        self._builder = builder
        self._is_link = is_link
        self._is_git_directory = is_git_directory
        self._states = {b"": DirectoryState.OPEN}

    def of(self, directory: bytes) -> DirectoryState:
        """The state of a directory: that of the directory above it unless this is open."""
        below = []  # a loop, as a tree may be deeper than Python's recursion limit
        while (state := self._states.get(directory)) is None:
            below.append(directory)
            directory = parent_of(directory)
        for folder in reversed(below):
            if state is DirectoryState.OPEN:
                state = self._state_by_itself(folder)
            self._states[folder] = state
        return state

    def _state_by_itself(self, directory: bytes) -> DirectoryState:
        if name_of(directory) in VERSION_CONTROL or self._is_link(directory):
            return DirectoryState.ABSENT
        if self._builder.ignores(directory, is_dir=True):
            return DirectoryState.IGNORED
        if self._is_git_directory(directory):
            self._builder.count_skipped("git_directory")
            return DirectoryState.ABSENT
        return DirectoryState.OPEN


def path_prefix(outer: Path, directory: Path) -> bytes:
    """The path from ``outer`` to the directory with a trailing slash; empty if they are equal."""
    relative = os.fsencode(directory.relative_to(outer))
    return b"" if relative == b"." else relative + b"/"


def escape_path(path: bytes) -> str:
    """The path as text that can be stored: bytes that are not UTF-8 become ``\\xNN``."""
    return path.decode("utf-8", "backslashreplace")


def name_of(path: bytes) -> bytes:
    """The last segment of a path."""
    return path[path.rfind(b"/") + 1 :]


def with_slash(directory: bytes) -> bytes:
    """What the paths in a directory begin with; empty for the root."""
    return directory + b"/" if directory else b""


def parent_of(path: bytes) -> bytes:
    """The directory of a path."""
    return path[: max(path.rfind(b"/"), 0)]


def parents(path: bytes) -> Iterator[bytes]:
    """The directories above a path, the innermost first; the last is the root."""
    while path:
        path = parent_of(path)
        yield path
