"""Collects the files of a listing, and why other entries were left out.

Every entry that git's ignore rules do not exclude becomes a file, a failure or a count.
``walk.py`` finds the entries on disk, ``commit_listing.py`` those of a commit.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from codebase_mcp.model import FileFailure, Listing, SourceFile
from codebase_mcp.secrets.names import has_secret_in_name, is_secret_name
from codebase_mcp.source.attributes import FILE_NAME, UNSET, Attributes
from codebase_mcp.source.classify import classify
from codebase_mcp.source.ignore import (
    MAX_IGNORE_BYTES,
    IgnoreFiles,
    ReadRules,
    Rules,
    parse_rules,
    read_ignore_file,
)
from codebase_mcp.source.path_filter import PathFilter, parents
from codebase_mcp.source.read import TOO_LARGE, failure_reason
from codebase_mcp.source.selection import Patterns, Selection

NOT_APPLIED = f"Its rules are not applied, as it exceeds {MAX_IGNORE_BYTES >> 20} MiB"


@dataclass(slots=True)
class ListingBuilder:
    """Builds one listing; paths are bytes relative to ``root``.

    ``own_rules`` are the ``.mcpignore`` files, whose paths begin with ``prefix``: the path from the
    top of the work tree to the root. ``path_filter`` selects paths. ``pending`` are the directories
    still to be listed, each by its own rules: the root and nested repositories. ``not_fetched`` are
    submodules that are not checked out. ``read_rules``
    reads attribute files; ``not_applied`` are the locations of those, and of ignore files, that are
    too large.
    """

    root: Path
    selection: Selection
    own_rules: IgnoreFiles
    prefix: bytes
    path_filter: PathFilter = field(default_factory=PathFilter)
    pending: list[bytes] = field(default_factory=lambda: [b""])
    files: dict[str, SourceFile] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[FileFailure] = field(default_factory=list)
    not_fetched: list[str] = field(default_factory=list)
    not_applied: list[bytes] = field(default_factory=list)
    read_rules: ReadRules = read_ignore_file
    _start: bytes = field(init=False)
    _with_attributes: set[bytes] = field(default_factory=set)
    _patterns: list[tuple[bytes, Rules]] = field(default_factory=list)
    _shown_secrets: list[tuple[bytes, Rules]] = field(default_factory=list)
    _raw_paths: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start = os.fsencode(self.root).rstrip(b"/") + b"/"
        self._patterns += map(self._rules, self.selection.patterns)
        if self.selection.shown_secrets is not None:
            self._shown_secrets.append(self._rules(self.selection.shown_secrets))

    def _rules(self, patterns: Patterns) -> tuple[bytes, Rules]:
        text = os.fsencode("\n".join(patterns.lines))
        return path_prefix(patterns.directory, self.root), parse_rules(text)

    def location(self, path: bytes) -> bytes:
        """The absolute location of a path."""
        return self._start + path

    def ignores(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether ``.mcpignore`` or a pattern of the selection ignores the path itself."""
        if self.own_rules.ignores(self.prefix + path, is_dir=is_dir):
            return True
        name = path[path.rfind(b"/") + 1 :]
        return any(
            rules.verdict(lead + path, name, is_dir=is_dir) for lead, rules in self._patterns
        )

    def is_secret(self, path: bytes) -> bool:
        """Whether the path names a secret that is not wanted."""
        name = escape_path(path)
        is_secret = is_secret_name(name) or has_secret_in_name(name)
        return is_secret and not self._shows_secrets(path)

    def _shows_secrets(self, path: bytes) -> bool:
        """Whether a pattern matches the path or a directory above it."""
        above = [(folder, True) for folder in parents(path) if folder]
        return any(
            rules.verdict(lead + part, part[part.rfind(b"/") + 1 :], is_dir=is_dir)
            for lead, rules in self._shown_secrets
            for part, is_dir in [*above, (path, False)]
        )

    def count_skipped(self, reason: str, count: int = 1) -> None:
        if count:
            self.skipped[reason] += count

    def add_failure(self, path: bytes, reason: str | OSError) -> None:
        words = reason if isinstance(reason, str) else failure_reason(reason)
        self.failures.append(FileFailure(escape_path(path), words))

    def add(self, path: bytes, status: os.stat_result) -> None:
        """Add one entry on disk that is not a directory and not ignored."""
        location = os.fsdecode(self._start + path)
        times = (status.st_mtime_ns, status.st_ctime_ns)
        self.add_entry(path, status.st_mode, status.st_size, location, times)

    def add_entry(
        self,
        path: bytes,
        mode: int,
        size: int,
        location: str = "",
        times: tuple[int, int] = (0, 0),
    ) -> None:
        """Add one entry that is not a directory and not ignored."""
        if stat.S_ISLNK(mode):
            self.count_skipped("symlink")
        elif not stat.S_ISREG(mode):
            self.count_skipped("special")
        else:
            self._add_file(path, size, location, times)

    def _add_file(self, raw: bytes, size: int, location: str, times: tuple[int, int]) -> None:
        path = escape_path(raw)
        traits = classify(path)
        folder, _, name = raw.rpartition(b"/")
        if name == FILE_NAME.encode():
            self._with_attributes.add(folder)
        if self.is_secret(raw):
            self.count_skipped("secret")
        elif traits.is_binary:
            self.count_skipped("binary")
        elif path in self.files:
            self.count_skipped("name_clash")  # names that differ only in undecodable bytes
        elif size <= self.selection.max_file_bytes:
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
        elif traits.named_as_source:
            self.add_failure(raw, TOO_LARGE)
        else:
            self.count_skipped("too_large")

    def _apply_attributes(self) -> None:
        """Apply the repository's attributes for generated and vendored files."""
        found = set(self._with_attributes)
        if self.path_filter.relative_to(b"") is not None:
            found |= {folder for path in self.files for folder in parents(self._raw(path))}
        above = set(parents(self.prefix)) if self.prefix else set()
        top = self._start[: len(self._start) - len(self.prefix)].rstrip(b"/")
        inside = {(self.prefix + folder).rstrip(b"/") for folder in found}
        attributes = Attributes(top, above | inside, self.read_rules)
        if not attributes:
            return
        for path, file in self.files.items():
            linguist = attributes.of(self.prefix + self._raw(path))
            if linguist is not UNSET:
                traits = classify(path, linguist)
                self.files[path] = replace(
                    file,
                    kind=traits.kind,
                    named_as_source=traits.named_as_source,
                    by_hand=linguist.generated is False,
                )
        self._drop_generated_failures(attributes)

    def _drop_generated_failures(self, attributes: Attributes) -> None:
        """A generated or vendored file that is too large is skipped, not a failure."""
        for failure in [one for one in self.failures if one.reason == TOO_LARGE]:
            linguist = attributes.of(self.prefix + failure.path.encode())
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
                self.failures = [one for one in self.failures if one.path != escape_path(path)]
                self.add_failure(path, NOT_APPLIED)

    def listing(self) -> Listing:
        """The finished listing, sorted by path."""
        self._apply_attributes()
        self._add_not_applied()
        return Listing(
            self.root,
            tuple(self.files[path] for path in sorted(self.files)),
            dict(sorted(self.skipped.items())),
            tuple(sorted(self.failures, key=lambda failure: failure.path)),
            tuple(sorted(self.not_fetched)),
        )


def path_prefix(outer: Path, directory: Path) -> bytes:
    """The path from ``outer`` to the directory with a trailing slash; empty if they are equal."""
    relative = os.fsencode(directory.relative_to(outer))
    return b"" if relative == b"." else relative + b"/"


def escape_path(path: bytes) -> str:
    """The path as text that can be stored: bytes that are not UTF-8 become ``\\xNN``."""
    return path.decode("utf-8", "backslashreplace")
