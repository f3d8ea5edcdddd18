"""Are the lines of a hit still in the file? Compares hits with the files on disk."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.model import RACY_NS, WORKTREE, FileKind, SourceFile
from codebase_mcp.search.hits import Hit
from codebase_mcp.secrets.masking import begins_with_masked
from codebase_mcp.source.git_directory import is_bare_repository
from codebase_mcp.source.open_file import is_real_directory
from codebase_mcp.source.read import SourceText, read_source

# Larger than any indexed file.
_MOST_BYTES = 1 << 31

# The number of cached results, with the times of their files, so that files are not read again.
_MAX_CACHED = 20_000

_BROKEN = re.compile(r"\\x([89a-f][0-9a-f])")

_Times = tuple[int, int, int]


@dataclass(slots=True)
class Verified:
    """The hits whose lines are unchanged, and the changed files by repository."""

    hits: list[Hit] = field(default_factory=list)
    changed: defaultdict[UUID, set[str]] = field(default_factory=lambda: defaultdict(set))


class Verifier:
    """Compares hits with files; results are cached by the times of the files."""

    def __init__(self) -> None:
        self._cache: dict[tuple[object, ...], _Times] = {}

    def verify(self, hits: Sequence[Hit], roots: Mapping[UUID, Path]) -> Verified:
        """Compare hits with the files below the roots of their repositories.

        Hits of commits and of repositories that are not on this machine are kept.
        """
        local = {
            repository_id: root
            for repository_id, root in roots.items()
            if is_real_directory(root) and not is_bare_repository(root)
        }
        verified = Verified()
        read: dict[str, list[str] | None] = {}
        for hit in hits:
            root = local.get(hit.repository_id) if hit.view == WORKTREE else None
            text = hit.context_before + hit.content + hit.context_after
            first = hit.start_line - len(split_lines(hit.context_before))
            if root is not None and not self._is_there(root, hit.file_path, first, text, read):
                verified.changed[hit.repository_id].add(hit.file_path)
                continue
            same = []
            for copy in hit.also_at:
                root = local.get(copy.repository_id) if copy.view == WORKTREE else None
                if root is None or self._is_there(
                    root, copy.file_path, copy.start_line, hit.content, read
                ):
                    same.append(copy)
                else:
                    verified.changed[copy.repository_id].add(copy.file_path)
            verified.hits.append(replace(hit, also_at=tuple(same)) if hit.also_at else hit)
        return verified

    def _is_there(
        self, root: Path, path: str, first: int, text: str, read: dict[str, list[str] | None]
    ) -> bool:
        location = _location(root, path)
        try:
            status = os.lstat(location)
        except OSError:
            return False
        times = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        key = location, first, len(text), hash(text)
        if self._cache.get(key) == times:
            return True
        read_at_ns = time.time_ns()
        if location not in read:
            read[location] = _lines(location, path)
        lines = read[location]
        # A hit that was cut to a token budget ends in the middle of a line.
        if lines is None or not begins_with_masked("".join(lines[first - 1 :]), text):
            return False
        if max(times[1:]) < read_at_ns - RACY_NS:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[key] = times
        return True


def _lines(location: str, path: str) -> list[str] | None:
    """The lines of a file with its secrets; None if it would not be indexed."""
    file = SourceFile(
        path,
        location,
        0,
        0,
        0,
        "text",
        FileKind.CODE,
        named_as_source=False,
        shows_secrets=True,  # masked text in the index matches any text
    )
    content = read_source(file, max_file_bytes=_MOST_BYTES)
    return split_lines(content.text) if isinstance(content, SourceText) else None


def _location(root: Path, path: str) -> str:
    """The file of a stored path, in which bytes outside of UTF-8 are written as ``\\xNN``."""
    location = f"{root}/{path}"  # some times as fast as a Path
    if "\\x" in path and not os.path.lexists(location):
        path = os.fsdecode(
            _BROKEN.sub(lambda match: chr(0xDC00 + int(match[1], 16)), path).encode(
                "utf-8", "surrogateescape"
            )
        )
        return f"{root}/{path}"
    return location
