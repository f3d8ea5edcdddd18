"""What has a listing found so far, and why was the rest left out?

Keeps the account of one listing: every entry that no ignore rule of git's left out ends here as
a file, a failure or a count. Where the entries come from is ``walk.py``'s.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from codebase_mcp.model import FileFailure, Listing, SourceFile
from codebase_mcp.source.classify import classify
from codebase_mcp.source.extent import Extent
from codebase_mcp.source.ignore import IgnoreFiles, Rules, parse_rules
from codebase_mcp.source.read import TOO_LARGE, failure_reason
from codebase_mcp.source.selection import Selection


@dataclass(slots=True)
class Survey:
    """The account of one listing; paths are bytes relative to ``root``.

    ``own_rules`` are the ``.mcpignore`` files, whose paths begin with ``prefix``: the way from the
    top of the work tree to the root. ``extent`` is what is asked about. ``pending`` are the
    directories still to be listed, each by its own rules: the root, and the repositories inside.
    """

    root: Path
    selection: Selection
    own_rules: IgnoreFiles
    prefix: bytes
    extent: Extent = field(default_factory=Extent)
    pending: list[bytes] = field(default_factory=lambda: [b""])
    files: dict[str, SourceFile] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[FileFailure] = field(default_factory=list)
    _start: bytes = field(init=False)
    _patterns: list[tuple[bytes, Rules]] = field(default_factory=list)
    _folders: dict[bytes, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start = os.fsencode(self.root).rstrip(b"/") + b"/"
        for patterns in self.selection.patterns:
            text = os.fsencode("\n".join(patterns.lines))
            self._patterns.append((way_down(patterns.directory, self.root), parse_rules(text)))

    def at(self, path: bytes) -> bytes:
        """Where the operating system finds a path."""
        return self._start + path

    def ignores(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether ``.mcpignore`` or a pattern of the selection says so of the path itself."""
        if self.own_rules.ignores(self.prefix + path, is_dir=is_dir):
            return True
        name = path[path.rfind(b"/") + 1 :]
        return any(
            rules.verdict(lead + path, name, is_dir=is_dir) for lead, rules in self._patterns
        )

    def skip(self, reason: str, count: int = 1) -> None:
        if count:
            self.skipped[reason] += count

    def fail(self, path: bytes, reason: str | OSError) -> None:
        words = reason if isinstance(reason, str) else failure_reason(reason)
        self.failures.append(FileFailure(shown(path), words))

    def take(self, path: bytes, status: os.stat_result) -> None:
        """Sort in one entry, which is not a directory and which no rule left out."""
        if stat.S_ISLNK(status.st_mode):
            self.skip("symlink")
        elif not stat.S_ISREG(status.st_mode):
            self.skip("special")
        else:
            self._take_file(path, status)

    def _take_file(self, raw: bytes, status: os.stat_result) -> None:
        path = shown(raw)
        traits = classify(path)
        if traits.is_binary:
            self.skip("binary")
        elif path in self.files:
            self.skip("name_clash")  # names that differ only in how broken bytes are shown
        elif status.st_size <= self.selection.max_file_bytes:
            self.files[path] = SourceFile(
                path,
                self._location(raw),
                status.st_size,
                status.st_mtime_ns,
                status.st_ctime_ns,
                traits.language,
                traits.kind,
                traits.named_as_source,
            )
        elif traits.named_as_source:
            self.fail(raw, TOO_LARGE)
        else:
            self.skip("too_large")

    def _location(self, raw: bytes) -> Path:
        """The file as a Path; extending its directory's is twice as fast as parsing it whole."""
        slash = raw.rfind(b"/")
        folder = self._folders.get(raw[: max(slash, 0)])
        if folder is None:
            folder = Path(os.fsdecode(self.at(raw[: max(slash, 0)])))
            self._folders[raw[: max(slash, 0)]] = folder
        return folder / os.fsdecode(raw[slash + 1 :])

    def listing(self) -> Listing:
        """The account in its final form, sorted by path."""
        return Listing(
            self.root,
            tuple(self.files[path] for path in sorted(self.files)),
            dict(sorted(self.skipped.items())),
            tuple(sorted(self.failures, key=lambda failure: failure.path)),
        )


def way_down(outer: Path, directory: Path) -> bytes:
    """The way from ``outer`` down to the directory, with a slash at its end if there is one."""
    relative = os.fsencode(directory.relative_to(outer))
    return b"" if relative == b"." else relative + b"/"


def shown(path: bytes) -> str:
    """A path fit to be stored: bytes that are not UTF-8 stand in it as ``\\xNN``."""
    return path.decode("utf-8", "backslashreplace")
