"""What has a listing found so far, and why was the rest left out?

Keeps the account of one listing: every entry that no ignore rule of git's left out ends here as
a file, a failure or a count. Where the entries come from is ``walk.py``'s.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from codebase_mcp.model import FileFailure, Listing, SourceFile
from codebase_mcp.source.attributes import FILE_NAME, NOTHING, Attributes
from codebase_mcp.source.classify import classify
from codebase_mcp.source.extent import Extent, parents
from codebase_mcp.source.ignore import MAX_IGNORE_BYTES, IgnoreFiles, Rules, parse_rules
from codebase_mcp.source.read import TOO_LARGE, failure_reason
from codebase_mcp.source.selection import Selection

NOT_APPLIED = f"Its rules are not applied, as it exceeds {MAX_IGNORE_BYTES >> 20} MiB"


@dataclass(slots=True)
class Survey:
    """The account of one listing; paths are bytes relative to ``root``.

    ``own_rules`` are the ``.mcpignore`` files, whose paths begin with ``prefix``: the way from the
    top of the work tree to the root. ``extent`` is what is asked about. ``pending`` are the
    directories still to be listed, each by its own rules: the root, and the repositories inside.
    ``not_applied`` are the locations of ignore and attribute files that are too large.
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
    not_applied: list[bytes] = field(default_factory=list)
    _start: bytes = field(init=False)
    _with_attributes: set[bytes] = field(default_factory=set)
    _patterns: list[tuple[bytes, Rules]] = field(default_factory=list)

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
        folder, _, name = raw.rpartition(b"/")
        if name == FILE_NAME.encode():
            self._with_attributes.add(folder)
        if traits.is_binary:
            self.skip("binary")
        elif path in self.files:
            self.skip("name_clash")  # names that differ only in how broken bytes are shown
        elif status.st_size <= self.selection.max_file_bytes:
            self.files[path] = SourceFile(
                path,
                os.fsdecode(self._start + raw),
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

    def _apply_attributes(self) -> None:
        """Let the repository say which files are generated or vendored, and which are not."""
        found = set(self._with_attributes)
        if self.extent.within(b"") is not None:
            found |= {folder for path in self.files for folder in parents(self._raw(path))}
        above = set(parents(self.prefix)) if self.prefix else set()
        top = self._start[: len(self._start) - len(self.prefix)].rstrip(b"/")
        inside = {(self.prefix + folder).rstrip(b"/") for folder in found}
        attributes = Attributes(top, above | inside, self.not_applied)
        if not attributes:
            return
        for path, file in self.files.items():
            said = attributes.of(self.prefix + self._raw(path))
            if said is not NOTHING:
                traits = classify(path, said)
                self.files[path] = replace(
                    file,
                    kind=traits.kind,
                    named_as_source=traits.named_as_source,
                    by_hand=said.generated is False,
                )
        self._excuse(attributes)

    def _excuse(self, attributes: Attributes) -> None:
        """That a file is too large is no failure where nobody wrote it."""
        for failure in [one for one in self.failures if one.reason == TOO_LARGE]:
            said = attributes.of(self.prefix + failure.path.encode())
            if not classify(failure.path, said).named_as_source:
                self.failures.remove(failure)
                self.skip("too_large")

    def _raw(self, path: str) -> bytes:
        return os.fsencode(self.files[path].location)[len(self._start) :]

    def _fail_not_applied(self) -> None:
        """Name the files whose rules were left out, each once; below the root by its path there."""
        is_whole = self.extent.within(b"") is None
        for location in sorted(set(self.not_applied)):
            path = location.removeprefix(self._start)
            if is_whole or (path != location and self.extent.covers(path)):
                self.failures = [one for one in self.failures if one.path != shown(path)]
                self.fail(path, NOT_APPLIED)

    def listing(self) -> Listing:
        """The account in its final form, sorted by path."""
        self._apply_attributes()
        self._fail_not_applied()
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
